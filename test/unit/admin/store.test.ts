import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { auditLog } from '../../../src/admin/access/audit.ts';
import { alone, forget } from '../../../src/admin/installation/data.ts';
import { moveStore } from '../../../src/admin/installation/store.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import {
  acquireDataFolder,
  type Installation,
  openInstallationFile,
} from '../../../src/store/installation/installation.ts';
import { takeLeases } from '../../../src/store/installation/leases.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import { readLedger } from '../../../src/store/quota/ledger.ts';
import { openWindowLedger } from '../../../src/sync/quota/window-ledger.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { ON_POSTGRES, storePlace } from '../../support/postgres/store-place.ts';

const WINDOW = { hold: 900_000, window: 900_000, cap: 200 };
const WHO = { actor: 'command ann', clock: createTravellingClock() };

const open: Installation[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function folder(): string {
  const path = folderOfTest('move');
  return path;
}

/** Where it all goes: a schema of PostgreSQL, or another data folder. */
async function elsewhere(): Promise<string> {
  return ON_POSTGRES ? await storePlace(randomUUID()) : join(folder(), 'moved');
}

async function opened(place: string): Promise<Installation> {
  const file = place.startsWith('postgres') ? place : join(place, 'worksync.db');
  const installation = await openInstallationFile({ file, random: systemRandom() });
  open.push(installation);
  return installation;
}

async function closed(installation: Installation): Promise<void> {
  open.splice(open.indexOf(installation), 1);
  await installation.close();
}

/** A data folder with a workspace that has a fact. */
async function used(): Promise<string> {
  const path = folder();
  const installation = await opened(path);
  await writeMeta((await installation.store('acme')).query, 'fact', 'stays');
  await closed(installation);
  return path;
}

const move = (from: string, to: string) => moveStore(from, to, WHO, () => undefined);

describe('moving everything', () => {
  it('keeps rows and the id, tells the audit, and says what is left to do', async () => {
    const from = await used();
    writeFileSync(join(from, 'worksync.db.key'), 'key');
    writeFileSync(join(from, 'acme.service.db'), '');
    const before = await opened(from);
    const { id } = before;
    await closed(before);
    const to = await elsewhere();
    const { rows, next } = await move(from, to);
    expect(rows).toBeGreaterThan(0);
    expect(next.join('\n')).toMatch(/never again(.|\n)*worksync\.db\.key(.|\n)*acme\.service\.db/);
    const after = await opened(to);
    expect(after.id).toBe(id);
    expect(await readMeta((await after.store('acme')).query, 'fact')).toBe('stays');
    const { entries } = await auditLog(after.query, { workspaces: null, since: null, before: null, limit: 10 }, 0);
    expect(entries).toMatchObject([{ action: 'store-copy', actor: 'command ann', outcome: 'done', count: rows }]);
    await closed(after);
    const back = join(folder(), 'back');
    expect((await move(to, join(back, 'worksync.db'))).rows).toBe(rows + 1);
    expect((await opened(back)).id).toBe(id);
  });

  it('counts what was sent as used from the moment at which the ledger is read there', async () => {
    const from = await used();
    const clock = createTravellingClock();
    const before = await opened(from);
    const { query } = await before.store('acme');
    const book = await openWindowLedger(query, clock, [WINDOW as never]);
    for (let sent = 0; sent < 3; sent++) {
      const entry = book.open('live' as never);
      await book.record(entry, query);
      book.complete(entry, 200, clock.monotonic());
      await book.recordEnd(entry, query);
    }
    await book.heartbeat(query);
    await closed(before);
    const to = await elsewhere();
    await move(from, to);
    const rows = (await (await opened(to)).store('acme')).query;
    expect(new Set((await readLedger(rows)).map(({ boot }) => boot))).toEqual(new Set([`copied:${clock.bootId}`]));
    await clock.advance(WINDOW.hold * 2);
    const there = await openWindowLedger(rows, clock, [WINDOW as never]);
    expect(there.all.completed).toEqual([clock.monotonic(), clock.monotonic(), clock.monotonic()]);
  });

  it('waits for no daemon that has the data folder', async () => {
    const from = await used();
    const daemon = acquireDataFolder(from);
    await expect(move(from, await elsewhere())).rejects.toMatchObject({ code: 'locked' });
    daemon.release();
  });

  it.runIf(ON_POSTGRES)('waits for no replica that lives', async () => {
    const [from, to] = [await used(), await elsewhere()];
    const { query, asServer } = await opened(to);
    const replica = { id: 'r', incarnation: 'i', address: 'http://replica:8080', about: '{}' };
    const { now } = await asServer!.time();
    await query
      .insertInto('replicas')
      .values({ ...replica, expires_at: Math.round(now) + 60_000 })
      .execute();
    await expect(move(from, to)).rejects.toMatchObject({ code: 'locked', message: /http:\/\/replica:8080/ });
    await query
      .updateTable('replicas')
      .set({ expires_at: Math.round(now) - 1 })
      .execute();
    await expect(move(from, to)).resolves.toMatchObject({ rows: 2 });
  });
});

describe('where the rows are in PostgreSQL', () => {
  it.runIf(ON_POSTGRES)('a workspace is forgotten, unless another process serves it', async () => {
    const to = await elsewhere();
    await move(await used(), to);
    const place = { data: folder(), store: to };
    const { query, asServer, commit } = await opened(to);
    const now = Math.round((await asServer!.time()).now);
    const replica = { id: 'r', incarnation: 'i', address: 'http://replica:8080', about: '{}' };
    await query
      .insertInto('replicas')
      .values({ ...replica, expires_at: now + 60_000 })
      .execute();
    await commit((transaction) => takeLeases(transaction, 'i', [1]));
    const refused = { code: 'conflict', message: 'the worksync at http://replica:8080 serves acme' };
    await expect(alone(place, (installation) => forget(installation, 'acme', WHO))).rejects.toMatchObject(refused);
    await query.updateTable('replicas').set({ expires_at: now }).execute();
    expect(await alone(place, (installation) => forget(installation, 'acme', WHO))).toBe(1);
    const { entries } = await alone(place, ({ query }) =>
      auditLog(query, { workspaces: null, since: null, before: null, limit: 10 }, 0),
    );
    expect(entries).toMatchObject([{ action: 'forget' }, { action: 'store-copy' }]);
  });
});
