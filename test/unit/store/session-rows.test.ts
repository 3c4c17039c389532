import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemRandom } from '../../../src/lib/random.ts';
import { openDatabase } from '../../../src/lib/sqlite.ts';
import { type Installation, openInstallation } from '../../../src/store/installation.ts';
import {
  addLoginLink,
  addSession,
  endAllSessions,
  endSession,
  findSession,
  purgeExpired,
  spendLoginLink,
  touchSession,
} from '../../../src/store/session-rows.ts';
import { OLD_MIGRATIONS } from '../../../src/store/takeover/old-migrations.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'worksync-installation-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function open(path = folder()): Promise<Installation> {
  const installation = await openInstallation(path, { random: systemRandom() });
  onTestFinished(() => installation.close());
  return installation;
}

const LIMITED = { role: 'read', workspaces: ['acme', 'beta'] } as const;
const SESSION = { digest: 'aa', ...LIMITED, openedBy: 'dd', createdAt: 1, seenAt: 2 };

it('a data folder keeps its id, another one has another, and nobody else may read the file', async () => {
  const path = folder();
  const first = await openInstallation(path, { random: systemRandom() });
  await first.close();
  const again = await open(path);
  expect(again.id).toMatch(/^[0-9a-f]{12}$/);
  expect(again.id).toBe(first.id);
  expect((await open()).id).not.toBe(first.id);
  expect(statSync(again.file).mode & 0o777).toBe(0o600);
});

it('the database of a workspace that was called worksync is not taken for it', async () => {
  const path = folder();
  await (await openDatabase({ file: join(path, 'worksync.db'), migrations: OLD_MIGRATIONS })).close();
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_newer',
    hint: expect.stringContaining('rename both the workspace and the file'),
  });
});

it('a damaged file says what is lost with it', async () => {
  const path = folder();
  writeFileSync(join(path, 'worksync.db'), 'no database at all '.repeat(400));
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_corrupt',
    hint: expect.stringContaining('log in again'),
  });
});

it('a link is spent once, and not after its time', async () => {
  const { query } = await open();
  await addLoginLink(query, { digest: 'aa', ...LIMITED, expiresAt: 100 });
  await addLoginLink(query, { digest: 'bb', role: 'admin', workspaces: null, expiresAt: 100 });
  expect(await spendLoginLink(query, 'cc', 1)).toBeUndefined();
  expect(await spendLoginLink(query, 'aa', 99)).toEqual(LIMITED);
  expect(await spendLoginLink(query, 'aa', 99)).toBeUndefined();
  expect(await spendLoginLink(query, 'bb', 100)).toBeUndefined();
});

it('a session is found until it expires or ends', async () => {
  const { query } = await open();
  await addSession(query, { ...SESSION, expiresAt: 100 });
  expect(await findSession(query, 'aa', 99)).toEqual(SESSION);
  expect(await findSession(query, 'aa', 100)).toBeUndefined();
  await touchSession(query, { digest: 'aa', seenAt: 90, expiresAt: 200 });
  expect(await findSession(query, 'aa', 100)).toEqual({ ...SESSION, seenAt: 90 });
  await endSession(query, 'aa');
  expect(await findSession(query, 'aa', 1)).toBeUndefined();
});

it('all sessions end at once, unused links too; what has expired is purged', async () => {
  const { query } = await open();
  for (const [digest, expiresAt] of [
    ['aa', 100],
    ['bb', 200],
    ['cc', 300],
  ] as const) {
    await addSession(query, { ...SESSION, digest, expiresAt });
    await addLoginLink(query, { digest, ...LIMITED, expiresAt });
  }
  await purgeExpired(query, 100);
  const count = async (table: 'sessions' | 'login_links') =>
    (await query.selectFrom(table).select('digest').execute()).length;
  expect([await count('sessions'), await count('login_links')]).toEqual([2, 2]);
  expect(await endAllSessions(query)).toBe(2);
  expect([await count('sessions'), await count('login_links')]).toEqual([0, 0]);
});
