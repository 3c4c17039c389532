import { afterEach, expect, test } from 'vitest';
import { audited, auditLog, noteAct, sendAudited } from '../../../src/admin/access/audit.ts';
import { runAdminOperation } from '../../../src/admin/admin-operations.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { CALLERS, keyCaller, tokenCaller } from '../../../src/model/caller.ts';
import type { Lane } from '../../../src/model/change.ts';
import { cleanErrorsWith, SyncError } from '../../../src/model/errors.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { deleteAudit, listAudit } from '../../../src/store/access/audit-rows.ts';
import { addGatewayToken } from '../../../src/store/access/gateway-tokens.ts';
import { createThrottle } from '../../../src/sync/quota/throttle.ts';
import type { ApiRequest } from '../../../src/workspace-api/typed-client.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const DAY = 86_400_000;
const ALL = { workspaces: null, since: null, before: null, limit: 100 };

let store: OpenedStore | undefined;
afterEach(async () => {
  cleanErrorsWith((text) => text);
  await store?.close();
});

async function setUp() {
  const opened = await openStore({ file: ':memory:' });
  store = opened;
  const clock = createTravellingClock();
  const books = { query: opened.database, clock };
  const act = { actor: 'command ann', action: 'release', workspace: 'acme', subject: 'removals' };
  const rows = (wish: object = {}) => listAudit(opened.database, { ...ALL, ...wish });
  return { store: opened, clock, books, act, rows };
}

test('what is done is written down before, and what came of it after', async () => {
  const { clock, books, act, rows } = await setUp();
  const at = clock.now();
  await audited(
    books,
    act,
    async () => expect(await rows()).toMatchObject([{ outcome: 'begun', count: null }]),
    () => ({ count: 3 }),
  );
  const failing = audited(
    books,
    act,
    () => Promise.reject(new SyncError('conflict', 'it is there already')),
    () => ({ count: 0 }),
  );
  await expect(failing).rejects.toMatchObject({ code: 'conflict' });
  expect(await rows()).toEqual([
    { id: 2, at, ...act, outcome: 'failed', count: null, details: 'conflict: it is there already' },
    { id: 1, at, ...act, outcome: 'done', count: 3, details: null },
  ]);
});

test('texts are cut, and nothing secret is written', async () => {
  const { books, act, rows } = await setUp();
  cleanErrorsWith((text) => text.replaceAll('hunter22', '[secret]'));
  await noteAct(books, { ...act, actor: 'a'.repeat(500), subject: `hunter22 ${'x'.repeat(2_000)}` }, 'asked');
  const [row] = await rows();
  expect(row?.actor).toHaveLength(100);
  expect(row?.subject).toHaveLength(300);
  expect(row?.subject).toMatch(/^\[secret\] x/);
});

test('pages go back in time; who is limited to workspaces sees theirs; old and too many rows go', async () => {
  const { store: opened, clock, books, act } = await setUp();
  const query = opened.database;
  for (const workspace of ['acme', 'other', null, 'acme', 'acme']) {
    await noteAct(books, { ...act, workspace }, 'done');
    await clock.advance(DAY);
  }
  const first = await auditLog(query, { ...ALL, limit: 3 }, clock.now());
  expect([first.entries.map(({ id }) => id), first.next]).toEqual([[5, 4, 3], 3]);
  const second = await auditLog(query, { ...ALL, limit: 3, before: first.next }, clock.now());
  expect([second.entries.map(({ id }) => id), second.next]).toEqual([[2, 1], null]);
  const theirs = await auditLog(query, { ...ALL, workspaces: ['acme'] }, clock.now());
  expect(theirs.entries.map(({ id }) => id)).toEqual([5, 4, 1]);
  expect((await auditLog(query, { ...ALL, workspaces: [] }, clock.now())).entries).toEqual([]);
  expect(await deleteAudit(query, clock.now() - 4 * DAY, 9)).toBe(1);
  expect(await deleteAudit(query, clock.now() - 3 * DAY, 1, 2)).toBe(1);
  expect(await deleteAudit(query, clock.now() - 2 * DAY, 9, 2)).toBe(1);
  expect(await deleteAudit(query, 0, 9, 2)).toBe(0);
  expect((await auditLog(query, ALL, clock.now())).entries.map(({ id }) => id)).toEqual([5, 4]);
});

test('questions that change something, and no others', async () => {
  const { store: opened, clock, rows } = await setUp();
  const open = { name: 'acme', store: opened, wakeOutbox: () => undefined, wakeReconcile: () => undefined };
  const ask = (name: 'held' | 'release' | 'retry' | 'audit', asked: object) =>
    runAdminOperation(name, open as unknown as OpenWorkspace, asked as never, clock, 'session 12345678 (admin)');
  await ask('held', { samples: 1 });
  await ask('release', { classes: ['removals', 'creations'] });
  await ask('retry', {});
  expect(await ask('audit', { since: null, before: null, limit: 10 })).toMatchObject({
    entries: [
      { action: 'retry', subject: null, count: 0, outcome: 'done', actor: 'session 12345678 (admin)' },
      { action: 'release', subject: 'removals, creations', count: 0, outcome: 'done', workspace: 'acme' },
    ],
  });
  expect(await rows()).toHaveLength(2);
});

test('writes of commands to the workspace, and tokens; no reads', async () => {
  const { store: opened, clock, rows } = await setUp();
  const statuses = [200, 200, 404];
  const send = async () => ({ status: statuses.shift() ?? 500, headers: {}, body: Buffer.alloc(0) });
  const tokens = { create: async () => ({ id: 'gwt_1', secret: 'wsg_secret' }), revoke: async () => true };
  const open = { name: 'acme', store: opened, send, upstream: { tokens } } as unknown as OpenWorkspace;
  const who = { actor: 'command ann', clock };
  const request = (method: string) =>
    ({ method, path: '/workspaces/w/bugs', headers: {}, route: 'createBug' }) as unknown as ApiRequest;
  for (const method of ['GET', 'POST', 'POST']) await sendAudited(open, request(method), { lane: 'interactive' }, who);
  await runAdminOperation('gateway-token-create', open, { description: 'CI' }, clock, who.actor);
  await runAdminOperation('gateway-token-revoke', open, { id: 'gwt_1' }, clock, who.actor);
  expect(await rows()).toMatchObject([
    { action: 'gateway-token-revoke', subject: 'gwt_1', count: 1 },
    { action: 'gateway-token-create', subject: 'CI', details: 'gwt_1' },
    { action: 'createBug', outcome: 'failed', details: 'the workspace answered 404' },
    { action: 'createBug', subject: 'POST /workspaces/w/bugs', outcome: 'done', count: 1 },
  ]);
  expect(JSON.stringify(await rows())).not.toContain('wsg_secret');
});

test('says who used the quota in the window, in a day and in a week: by lane, command, token and key', async () => {
  const { store: opened, clock } = await setUp();
  const [minute, hour] = [60_000, 3_600_000];
  const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };
  const quota = { requests: 200, window: 15 * minute, burst: 0, burstWindow: minute, share: 1, concurrency: 8 };
  const parts = { store: opened, clock, random, logger: silentLogger, meter: silentMeter };
  const throttle = await createThrottle(parts, quota);
  const send = async (lane: Lane, caller?: string) => {
    const slot = await throttle.acquire({ lane, caller, due: 1 });
    await opened.commit((query) => slot.record(query));
    await slot.complete({ status: 200 });
  };
  await addGatewayToken(opened.query, { id: 'gwt_1', digest: 'd', description: 'CI of acme', now: clock.now() });
  for (let sent = 0; sent < 4; sent++) await send('mirror');
  await clock.advance(30 * hour);
  for (let sent = 0; sent < 3; sent++) await send('interactive', tokenCaller('gwt_1'));
  await clock.advance(hour);
  await send('mirror');
  await send('interactive', CALLERS.command);
  await send('interactive', keyCaller('abcdef0123456789'));
  const workspace = { store: opened, throttle } as unknown as OpenWorkspace;
  const { callers, series } = await runAdminOperation('quota-by-caller', workspace, {}, clock);
  const used = callers.map(({ name, ...use }) => [name, use.window.requests, use.day.requests, use.week.requests]);
  expect(used).toEqual([
    ['daemon: pull requests', 1, 1, 5],
    ['gateway token "CI of acme" (gwt_1)', 0, 3, 3],
    ['commands', 1, 1, 1],
    ['key with SHA-256 abcdef012345…', 1, 1, 1],
  ]);
  // A day in quarters, without what is older.
  expect(series.map(({ caller, requests }) => [caller, requests])).toEqual([
    ['token:gwt_1', 3],
    ['command', 1],
    ['key:abcdef012345', 1],
    ['mirror', 1],
  ]);
  expect(new Set(series.map(({ since }) => since % (15 * minute)))).toEqual(new Set([0]));
});
