import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { complete, STORED } from '../../../src/store/status/status-shape.ts';
import { readStatus, readStatuses } from '../../../src/store/status/stored-status.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { itemRow } from '../../support/rows/items.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const HOUR = 3_600_000;

/** A store, and the number of statements that work runs. */
async function openCounted() {
  let statements = 0;
  const store = await openStore({ file: ':memory:', onStatement: () => void statements++ });
  const countOf = async <Result>(work: Promise<Result>) => {
    statements = 0;
    const result = await work;
    return { result, statements };
  };
  return { store, countOf };
}

describe('the status of a workspace', () => {
  let opened: Awaited<ReturnType<typeof openCounted>>;
  let store: OpenedStore;
  beforeAll(async () => {
    opened = await openCounted();
    store = opened.store;
  });
  afterAll(() => store.close());

  it('counts all rows, and lists the latest, next and stuck ones', async () => {
    await fill(store);
    const status = await readStatus(store.query, NOW);
    expect(status.deliveries).toMatchObject({ lastReceivedAt: NOW - 1_000, lastDay: 30, pending: 10, quarantined: 2 });
    expect(status.deliveries.latest.map((row) => row.id)).toEqual(times(20, (index) => 40 - index));
    expect(status.deliveries.quarantine.map((row) => row.reason)).toEqual(['no such field', 'no such field']);
    const counts = { pullRequests: { total: 50, waiting: 25 }, links: { total: 3, waiting: 1 } };
    expect(status).toMatchObject({ items: 50, tasks: 7, ...counts });
    expect(status.changes.byState).toEqual({ pending: 24, sending: 0, unknown: 1, held: 1 });
    expect(status.changes.next).toHaveLength(20);
    expect(status.changes.next[0]).toMatchObject({ entity: 'pull_request:github/1/2', attempts: 0, failure: null });
    expect(status.deliveries.quarantinedSeen).toEqual({ since: NOW - 30_000, seenAt: NOW - 29_000 });
    expect(status.changes.heldSeen).toEqual({ since: NOW - 99_910, seenAt: NOW - 99_910 });
    expect(status.changes.oldest).toEqual({ mirror: NOW - 100_000 + 2 });
    const refused = { code: 'refused', message: 'status 422: no', hint: expect.any(String) };
    expect(status.changes.stuck).toMatchObject([
      { entity: 'link:i>1', state: 'held', failure: refused },
      { entity: pullRequest(1), state: 'unknown', failure: { code: 'internal', message: 'odd text', hint: null } },
    ]);
    const failure = { code: 'forbidden', message: 'no scope', hint: expect.any(String), unit: null, at: NOW - 10 };
    expect(status.connections).toEqual([
      {
        ...{ connection: 'gh', lastRefused: null, lastDeliveryAt: NOW - 1_000, lastWebhookAt: NOW - 1_000, units: 2 },
        ...{ walking: 1, lastPollAt: NOW - 5_000, failingUnits: 2, failure, refusedFetches: 0, fetchRefusal: null },
        ...{ refusedWrites: 0, writeRefusal: null },
        ...{ unverifiedItems: 0, fetches: 1, lastSweepAt: null, switchedOff: [], missingUnits: [] },
      },
    ]);
  });

  it.each([
    ['answers of the workspace are not deliveries of vendors', 'answer', 39, 30, NOW - 1_000],
    ['a later poll does not hide the last webhook', 'poll', 40, 31, NOW],
  ] as const)('%s', async (_what, source, at, lastDay, lastDeliveryAt) => {
    const row = { ...deliveryRow(39), delivery_key: 'more', source, received_at: NOW - 40_000 + at * 1_000 };
    await store.query.insertInto('inbox').values(row).execute();
    const { deliveries, connections } = await readStatus(store.query, NOW);
    expect(deliveries.lastDay).toBe(lastDay);
    expect(connections).toMatchObject([{ connection: 'gh', lastDeliveryAt, lastWebhookAt: NOW - 1_000 }]);
    await store.query.deleteFrom('inbox').where('delivery_key', '=', 'more').execute();
  });

  it('does not mix workspaces, and takes as many statements for all as for one', async () => {
    const alone = await opened.countOf(readStatus(store.query, NOW));
    const [full, other] = [store.query.workspace, store.query.workspace + 1];
    await store.database.insertInto('workspaces').values({ id: other, name: 'other' }).execute();
    await scopeOf(store.database, other).insertInto('inbox').values(deliveryRow(39)).execute();
    const both = await opened.countOf(readStatuses(store.database, [other, full, 7_777], NOW));
    expect(both.statements).toBe(alone.statements);
    expect(both.result.get(full)).toEqual(alone.result);
    expect(both.result.get(other)).toMatchObject({
      deliveries: { lastReceivedAt: NOW - 1_000, lastDay: 1, pending: 0, latest: [{ connection: 'gh' }] },
      changes: { byState: { pending: 0, held: 0 }, oldest: {}, next: [] },
      ...{ connections: [{ connection: 'gh', units: 0, fetches: 0 }], items: 0, tasks: 0 },
    });
    const empty = { deliveries: { latest: [] }, changes: { oldest: {} }, connections: [] };
    expect(both.result.get(7_777)).toMatchObject(empty);
  });
});

describe('what the verdict depends on', () => {
  const gone = { error: 'not_found: no such repository' };

  it('leaves out connections without problems, and takes the same statements for all workspaces', async () => {
    const { store, countOf } = await openCounted();
    const own = store.query.workspace;
    const polls = [
      { connection: 'works', unit: 'a/one', completed_at: NOW - 5_000 },
      { connection: 'fails', unit: 'a/two', ...gone, failed_at: NOW - 20 },
      { connection: 'fails', unit: '*', error: 'forbidden: no scope', failed_at: NOW - 10 },
    ];
    await store.query.insertInto('polls').values(polls).execute();
    await store.query
      .insertInto('sweeps')
      .values({ connection: 'fails', unit: 'a/three', ...gone })
      .execute();
    const one = await countOf(readStatuses(store.database, [own], NOW, 'verdict'));
    const both = await countOf(readStatuses(store.database, [own, own + 1], NOW, 'verdict'));
    expect(both.statements).toBe(one.statements);
    const failure = { code: 'forbidden', message: 'no scope', hint: expect.any(String), unit: null, at: NOW - 10 };
    expect(both.result.get(own)?.connections).toMatchObject([
      { connection: 'fails', failure, missingUnits: ['a/three', 'a/two'], refusedFetches: 0, refusedWrites: 0 },
    ]);
    expect(both.result.get(own + 1)).toEqual(complete({}, STORED));
    await store.close();
  });

  it('does not report a missing unit that a poll has read since the failed sweep', async () => {
    const { query } = await openTestStore();
    const polls = [
      { connection: 'main', unit: 'read-since', completed_at: NOW - 10 },
      { connection: 'main', unit: 'read-before', completed_at: NOW - 30 },
      { connection: 'other', unit: 'read-elsewhere', completed_at: NOW - 10 },
    ];
    await query.insertInto('polls').values(polls).execute();
    const sweeps = polls.map(({ unit }) => ({ connection: 'main', unit, ...gone, failed_at: NOW - 20 }));
    await query.insertInto('sweeps').values(sweeps).execute();
    const missing = { connection: 'main', missingUnits: ['read-before', 'read-elsewhere'] };
    const summaries = await readStatuses(query.whole, [query.workspace], NOW, 'verdict');
    expect(summaries.get(query.workspace)?.connections).toMatchObject([missing]);
    const { connections } = await readStatus(query, NOW);
    expect(connections).toMatchObject([missing, { connection: 'other', missingUnits: [] }]);
  });
});

const times = <Row>(count: number, row: (index: number) => Row): Row[] =>
  Array.from({ length: count }, (_, at) => row(at));

function deliveryRow(index: number) {
  const state = index < 10 ? ('pending' as const) : index < 12 ? ('quarantined' as const) : ('applied' as const);
  return {
    ...{ connection: 'gh', delivery_key: String(index), source: 'webhook' as const, event: 'pull_request', state },
    ...{ body: Buffer.from('{}'), reason: state === 'quarantined' ? 'no such field' : null },
    received_at: index < 10 ? NOW - 48 * HOUR : NOW - 40_000 + index * 1_000,
  };
}

function changeRow(entity: string, state: 'pending' | 'unknown' | 'held', at: number, error: string | null = null) {
  const since = NOW - 100_000 + at;
  const kind = entity.startsWith('link') ? ('link' as const) : ('pull_request' as const);
  const row = { entity, kind, since, due: since, state, error };
  return { ...row, lane: 'mirror' as const, weight: 1, not_before: 0, waiting: '[]' };
}

const pullRequest = (index: number) => `pull_request:github/1/${index}`;

/** Adds 40 deliveries, 50 pull requests (25 of them pending), 3 links (one held), 7 tasks, 3 polls, one fetch. */
async function fill({ query }: OpenedStore): Promise<void> {
  const items = times(50, (index) => itemRow(`${index}`, { kind: 'pull_request', connection: 'gh' }));
  const entities = [
    ...times(50, (index) => ({ entity: pullRequest(index), kind: 'pull_request' as const, desired: '{}' })),
    ...times(3, (index) => ({ entity: `link:i>${index}`, kind: 'link' as const, desired: '{}' })),
  ];
  const changes = [
    ...times(24, (index) => changeRow(pullRequest(2 * index + 2), 'pending', 2 * index + 2)),
    changeRow(pullRequest(1), 'unknown', 1, 'odd text'),
    changeRow('link:i>1', 'held', 90, 'refused: status 422: no'),
  ];
  const task = { source: 'api', status: 'open', fields: '{}', seen_at: 1 };
  const polls = [
    { connection: 'gh', unit: 'a/one', completed_at: NOW - 5_000 },
    { connection: 'gh', unit: 'a/two', walk: '{}', error: 'server_failed: status 502', failed_at: NOW - 20 },
    { connection: 'gh', unit: '*', error: 'forbidden: no scope', failed_at: NOW - 10 },
  ];
  const fetch = { reference: '{}', connection: 'gh', since: 1, not_before: 0, delivery_id: 1 };
  await query.insertInto('inbox').values(times(40, deliveryRow)).execute();
  await query
    .insertInto('items')
    .values(items as never[])
    .execute();
  await query.insertInto('entities').values(entities).execute();
  await query.insertInto('outbox').values(changes).execute();
  const tasks = times(7, (index) => ({ ...task, task_id: `t${index}`, key: `K-${index}` }));
  await query.insertInto('tasks').values(tasks).execute();
  await query.insertInto('polls').values(polls).execute();
  await query.insertInto('fetches').values(fetch).execute();
}
