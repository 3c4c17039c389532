import { afterEach, describe, expect, test } from 'vitest';
import { audited, auditLog, noteAct, sendAudited } from '../../../src/admin/access/audit.ts';
import { runAdminOperation } from '../../../src/admin/admin-operations.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { REST } from '../../../src/admin/quota/quota.ts';
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
  const late = await auditLog(query, { ...ALL, since: clock.now() - 2 * DAY }, clock.now());
  expect(late.entries.map(({ id }) => id)).toEqual([5, 4]);
  expect(await deleteAudit(query, clock.now() - 4 * DAY, 9)).toBe(1);
  expect((await auditLog(query, ALL, clock.now())).entries.map(({ id }) => id)).toEqual([5, 4, 3, 2]);
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

test('an action whose process ended before it was done is shown as not done', async () => {
  const { books, clock } = await setUp();
  const { query } = books;
  await noteAct(books, { actor: 'command ann', action: 'release', workspace: null, subject: null }, 'asked');
  const outcomes = async (now: number) => (await auditLog(query, ALL, now)).entries.map(({ outcome }) => outcome);
  expect(await outcomes(clock.now() + 10_000)).toEqual(['asked']);
  expect(await outcomes(clock.now() + 60_000)).toEqual(['undone']);
});

describe('the use of the quota by caller', () => {
  const MINUTE = 60_000;
  const HOUR = 60 * MINUTE;
  const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

  let store: OpenedStore | undefined;
  afterEach(async () => {
    await store?.close();
  });

  async function bench() {
    const opened = await openStore({ file: ':memory:' });
    store = opened;
    const clock = createTravellingClock();
    const quota = { requests: 200, window: 15 * MINUTE, burst: 0, burstWindow: MINUTE, share: 1, concurrency: 8 };
    const parts = { store: opened, clock, random, logger: silentLogger, meter: silentMeter };
    const throttle = await createThrottle(parts, quota);
    const send = async (lane: Lane, caller?: string, status = 200, retryAfter?: number) => {
      const slot = await throttle.acquire({ lane, caller, due: 1 });
      await opened.commit((query) => slot.record(query));
      await slot.complete({ status, retryAfter });
    };
    const ask = () =>
      runAdminOperation('quota-by-caller', { store: opened, throttle } as unknown as OpenWorkspace, {}, clock);
    return { store: opened, clock, send, ask };
  }

  const of = (requests: number, refused = 0) => ({ requests, refused });

  test('says who used it in the window, in a day and in a week: by lane, command, token and key', async () => {
    const { store: opened, clock, send, ask } = await bench();
    await addGatewayToken(opened.query, { id: 'gwt_1', digest: 'd', description: 'CI of acme', now: clock.now() });
    for (let sent = 0; sent < 4; sent++) await send('mirror');
    await clock.advance(30 * HOUR);
    for (let sent = 0; sent < 3; sent++) await send('interactive', tokenCaller('gwt_1'));
    await clock.advance(HOUR);
    await send('mirror');
    await send('interactive', CALLERS.command);
    await send('interactive', keyCaller('abcdef0123456789'), 404);
    const { callers, series, cap, window } = await ask();
    expect({ cap, window }).toEqual({ cap: 200, window: 15 * MINUTE });
    expect(callers).toEqual([
      {
        ...{ caller: 'mirror', kind: 'daemon', name: 'daemon: pull requests', isEstimate: false },
        ...{ window: of(1), day: of(1), week: of(5) },
      },
      {
        ...{ caller: 'token:gwt_1', kind: 'token', name: 'gateway token "CI of acme" (gwt_1)', isEstimate: false },
        ...{ window: of(0), day: of(3), week: of(3) },
      },
      {
        ...{ caller: 'command', kind: 'command', name: 'commands', isEstimate: false },
        ...{ window: of(1), day: of(1), week: of(1) },
      },
      {
        ...{ caller: 'key:abcdef012345', kind: 'key', name: 'key with SHA-256 abcdef012345…', isEstimate: false },
        ...{ window: of(1), day: of(1), week: of(1) },
      },
    ]);
    // A day in quarters, without what is older.
    expect(series.map(({ caller, requests }) => [caller, requests])).toEqual([
      ['token:gwt_1', 3],
      ['command', 1],
      ['key:abcdef012345', 1],
      ['mirror', 1],
    ]);
    expect(new Set(series.map(({ since }) => since % (15 * MINUTE)))).toEqual(new Set([0]));
  });

  test('others are estimated from refusals, and named last', async () => {
    const { clock, send, ask } = await bench();
    expect((await ask()).lastRefusal).toBeNull();
    for (let sent = 0; sent < 50; sent++) await send('mirror');
    await send('mirror', undefined, 429, 600);
    const now = await ask();
    const others = { caller: 'others', kind: 'others', isEstimate: true };
    expect(now.callers).toMatchObject([
      { caller: 'mirror', window: of(51, 1), day: of(51, 1) },
      { ...others, window: of(150), day: of(150), week: of(150) },
    ]);
    expect(now.lastRefusal).toMatchObject({ window: 'long', othersLong: 150 });
    await clock.advance(HOUR);
    expect((await ask()).callers.at(-1)).toMatchObject({ ...others, window: of(0), day: of(150) });
  });

  test('of many callers the series tells twelve apart', async () => {
    const { send, ask } = await bench();
    for (let made = 0; made < 20; made++) await send('interactive', keyCaller(`${made}`.padStart(12, '0')));
    await send('mirror');
    await send('mirror');
    const { series, callers } = await ask();
    expect(callers).toHaveLength(21);
    expect(series).toHaveLength(13);
    expect(series).toContainEqual(expect.objectContaining({ caller: REST, requests: 9 }));
    expect(series).toContainEqual(expect.objectContaining({ caller: 'mirror', requests: 2 }));
  });
});
