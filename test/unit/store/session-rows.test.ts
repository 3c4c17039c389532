import { expect, it, onTestFinished } from 'vitest';
import {
  addLoginLink,
  addSession,
  consumeLoginLink,
  endAllSessions,
  endSession,
  findSession,
  purgeExpiredLogins,
  touchSession,
} from '../../../src/store/session-rows.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

async function open() {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  return installation;
}

const LIMITED = { role: 'read', workspaces: ['acme', 'beta'] } as const;
const SESSION = { digest: 'aa', ...LIMITED, openedBy: 'dd', createdAt: 1, seenAt: 2 };

it('accepts a log-in link once, and not after it expired', async () => {
  const { query } = await open();
  await addLoginLink(query, { digest: 'aa', ...LIMITED, expiresAt: 100 });
  await addLoginLink(query, { digest: 'bb', role: 'admin', workspaces: null, expiresAt: 100 });
  expect(await consumeLoginLink(query, 'cc', 1)).toBeUndefined();
  expect(await consumeLoginLink(query, 'aa', 99)).toEqual(LIMITED);
  expect(await consumeLoginLink(query, 'aa', 99)).toBeUndefined();
  expect(await consumeLoginLink(query, 'bb', 100)).toBeUndefined();
});

it('finds a session until it expires or ends', async () => {
  const { query } = await open();
  await addSession(query, { ...SESSION, expiresAt: 100 });
  expect(await findSession(query, 'aa', 99)).toEqual(SESSION);
  expect(await findSession(query, 'aa', 100)).toBeUndefined();
  await touchSession(query, { digest: 'aa', seenAt: 90, expiresAt: 200 });
  expect(await findSession(query, 'aa', 100)).toEqual({ ...SESSION, seenAt: 90 });
  await endSession(query, 'aa');
  expect(await findSession(query, 'aa', 1)).toBeUndefined();
});

it('purges expired rows, and ends all sessions together with unused links', async () => {
  const { query } = await open();
  for (const [digest, expiresAt] of [
    ['aa', 100],
    ['bb', 200],
    ['cc', 300],
  ] as const) {
    await addSession(query, { ...SESSION, digest, expiresAt });
    await addLoginLink(query, { digest, ...LIMITED, expiresAt });
  }
  await purgeExpiredLogins(query, 100);
  const count = async (table: 'sessions' | 'login_links') =>
    (await query.selectFrom(table).select('digest').execute()).length;
  expect([await count('sessions'), await count('login_links')]).toEqual([2, 2]);
  expect(await endAllSessions(query)).toBe(2);
  expect([await count('sessions'), await count('login_links')]).toEqual([0, 0]);
});
