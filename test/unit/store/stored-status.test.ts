import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readStatus, readStatuses } from '../../../src/store/stored-status.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { folderOfFile } from '../../support/harness/folder.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const DAY = 86_400_000;

describe('readStatus', () => {
  const folder = folderOfFile('status');
  const file = join(folder, 'a.sqlite');
  const statements: string[] = [];
  let store: OpenedStore;

  beforeAll(async () => {
    store = await openStore({ file, onStatement: (sql) => statements.push(sql) });
  });
  afterAll(async () => {
    await store.close();
  });

  it('contains only zeros, nulls and empty lists for a new database', async () => {
    expect(await readStatus(store.query, NOW)).toEqual({
      deliveries: {
        lastReceivedAt: null,
        lastDay: 0,
        pending: 0,
        quarantined: 0,
        quarantinedSeen: null,
        quarantine: [],
        latest: [],
      },
      changes: {
        byState: { pending: 0, sending: 0, unknown: 0, held: 0 },
        waitingBackfills: 0,
        waitingBursts: 0,
        heldSeen: null,
        oldest: {},
        lastDueAt: null,
        stuck: [],
        next: [],
      },
      connections: [],
      backfills: [],
      items: 0,
      gone: [],
      sweep: { running: null, last: null, turn: null },
      server: {
        records: { state: 'unknown', error: null },
        routesOff: [],
        fieldsOff: [],
        updatesOff: null,
        areStatusesContested: false,
      },
      tasks: 0,
      unfinishedTasks: {},
      pullRequests: { total: 0, waiting: 0 },
      links: { total: 0, waiting: 0 },
    });
  });

  it('counts all rows, and lists the latest, next and stuck ones', async () => {
    await fill(store);
    const status = await readStatus(store.query, NOW);
    expect(status.deliveries).toMatchObject({ lastReceivedAt: NOW - 1_000, lastDay: 30, pending: 10, quarantined: 2 });
    expect(status.deliveries.latest.map((row) => row.id)).toEqual(Array.from({ length: 20 }, (_, index) => 40 - index));
    expect(status.deliveries.quarantine.map((row) => row.reason)).toEqual(['no such field', 'no such field']);
    expect(status).toMatchObject({
      items: 50,
      tasks: 7,
      pullRequests: { total: 50, waiting: 25 },
      links: { total: 3, waiting: 1 },
    });
    expect(status.changes.byState).toEqual({ pending: 24, sending: 0, unknown: 1, held: 1 });
    expect(status.changes.next).toHaveLength(20);
    expect(status.changes.next[0]).toMatchObject({ entity: 'pull_request:github/1/2', attempts: 0, failure: null });
    expect(status.deliveries.quarantinedSeen).toEqual({ since: NOW - 30_000, seenAt: NOW - 29_000 });
    expect(status.changes.heldSeen).toEqual({ since: NOW - 99_910, seenAt: NOW - 99_910 });
    expect(status.changes.oldest).toEqual({ mirror: NOW - 100_000 + 2 });
    expect(status.changes.stuck).toMatchObject([
      {
        entity: 'link:i>1',
        state: 'held',
        failure: { code: 'refused', message: 'status 422: no', hint: expect.any(String) },
      },
      {
        entity: 'pull_request:github/1/1',
        state: 'unknown',
        failure: { code: 'internal', message: 'odd text', hint: null },
      },
    ]);
    expect(status.connections).toEqual([
      {
        connection: 'gh',
        lastRefused: null,
        lastDeliveryAt: NOW - 1_000,
        lastWebhookAt: NOW - 1_000,
        units: 2,
        walking: 1,
        lastPollAt: NOW - 5_000,
        failingUnits: 2,
        failure: { code: 'forbidden', message: 'no scope', hint: expect.any(String), unit: null, at: NOW - 10 },
        refusedFetches: 0,
        fetchRefusal: null,
        unverifiedItems: 0,
        fetches: 1,
        lastSweepAt: null,
        switchedOff: [],
        missingUnits: [],
      },
    ]);
  });

  it('counts the deliveries of vendors alone, as the page of deliveries lists them', async () => {
    const lastDay = async () => (await readStatus(store.query, NOW)).deliveries.lastDay;
    const before = await lastDay();
    const answer = { ...deliveryRow(39), delivery_key: 'an answer', source: 'answer' as const };
    await store.query.insertInto('inbox').values(answer).execute();
    expect(await lastDay()).toBe(before);
    await store.query.deleteFrom('inbox').where('delivery_key', '=', 'an answer').execute();
  });

  it('reads the last webhook of each connection, which a later poll does not hide', async () => {
    const poll = { ...deliveryRow(39), delivery_key: 'a poll', source: 'poll' as const, received_at: NOW };
    await store.query.insertInto('inbox').values(poll).execute();
    const { connections } = await readStatus(store.query, NOW);
    expect(connections).toMatchObject([{ connection: 'gh', lastDeliveryAt: NOW, lastWebhookAt: NOW - 1_000 }]);
    await store.query.deleteFrom('inbox').where('delivery_key', '=', 'a poll').execute();
  });

  it('reads when the last pending change is due, by due time or pause', async () => {
    const lastDueAt = async () => (await readStatus(store.query, NOW)).changes.lastDueAt;
    const set = (not_before: number) =>
      store.query.updateTable('outbox').set({ not_before }).where('entity', '=', pullRequest(4)).execute();
    const latestDue = await lastDueAt();
    expect(latestDue).toBe(NOW - 100_000 + 48);
    await set(NOW + 60_000);
    expect(await lastDueAt()).toBe(NOW + 60_000);
    await set(0);
    expect(await lastDueAt()).toBe(latestDue);
  });

  it('separates workspaces, with as many statements for all as for one', async () => {
    statements.length = 0;
    const alone = await readStatus(store.query, NOW);
    const forOne = statements.length;
    const [full, other] = [store.query.workspace, store.query.workspace + 1];
    await store.database.insertInto('workspaces').values({ id: other, name: 'other' }).execute();
    await scopeOf(store.database, other).insertInto('inbox').values(deliveryRow(39)).execute();
    statements.length = 0;
    const statuses = await readStatuses(store.database, [other, full], NOW);
    expect(statements).toHaveLength(forOne);
    expect(statuses.get(full)).toEqual(alone);
    expect(statuses.get(other)).toMatchObject({
      deliveries: { lastReceivedAt: NOW - 1_000, lastDay: 1, pending: 0, latest: [{ connection: 'gh' }] },
      changes: { byState: { pending: 0, held: 0 }, oldest: {}, next: [] },
      connections: [{ connection: 'gh', units: 0, fetches: 0 }],
      items: 0,
      tasks: 0,
    });
    const spread = await readStatuses(store.database, [other, full, 7_777], NOW);
    expect(spread.get(7_777)).toMatchObject({ deliveries: { latest: [] }, changes: { oldest: {} }, connections: [] });
  });

  it('reads no body and no content of an item', async () => {
    statements.length = 0;
    await readStatuses(store.database, [store.query.workspace, store.query.workspace + 1], NOW);
    expect(statements.length).toBeGreaterThan(10);
    for (const sql of statements) {
      // The index contains the values of this expression.
      const read = sql.replaceAll(/case when kind = 'task_update' then .+? end\b/g, '');
      expect(read).not.toMatch(/"body"|"fields"|"desired"|"known"/);
    }
  });
});

const times = <Row>(count: number, row: (index: number) => Row): Row[] =>
  Array.from({ length: count }, (_, at) => row(at));

function deliveryRow(index: number) {
  const [state, reason] =
    index < 10
      ? (['pending', null] as const)
      : index < 12
        ? (['quarantined', 'no such field'] as const)
        : (['applied', null] as const);
  return {
    connection: 'gh',
    delivery_key: String(index),
    source: 'webhook' as const,
    event: 'pull_request',
    body: Buffer.from('{}'),
    received_at: index < 10 ? NOW - 2 * DAY : NOW - 40_000 + index * 1_000,
    state,
    reason,
  };
}

function itemRow(index: number) {
  const kind = 'pull_request' as const;
  const times = { provider_time: 1, seen_at: 1 };
  return {
    key: String(index),
    kind,
    connector: 'github',
    connection: 'gh',
    hash: '',
    finished: 0,
    gone: 0,
    fields: '{}',
    ...times,
  } as const;
}

function changeRow(entity: string, state: 'pending' | 'unknown' | 'held', at: number, error: string | null = null) {
  const since = NOW - 100_000 + at;
  const kind = entity.startsWith('link') ? ('link' as const) : ('pull_request' as const);
  return {
    entity,
    kind,
    lane: 'mirror' as const,
    since,
    due: since,
    weight: 1,
    not_before: 0,
    state,
    waiting: '[]',
    error,
  };
}

const pullRequest = (index: number) => `pull_request:github/1/${index}`;

/** Adds 40 deliveries, 50 pull requests (25 of them pending), 3 links (one held), 7 tasks, 3 polls, one fetch. */
async function fill({ query }: OpenedStore): Promise<void> {
  await query.insertInto('inbox').values(times(40, deliveryRow)).execute();
  await query.insertInto('items').values(times(50, itemRow)).execute();
  await query
    .insertInto('entities')
    .values([
      ...times(50, (index) => ({ entity: pullRequest(index), kind: 'pull_request' as const, desired: '{}' })),
      ...times(3, (index) => ({ entity: `link:i>${index}`, kind: 'link' as const, desired: '{}' })),
    ])
    .execute();
  await query
    .insertInto('outbox')
    .values([
      ...times(24, (index) => changeRow(pullRequest(2 * index + 2), 'pending', 2 * index + 2)),
      changeRow(pullRequest(1), 'unknown', 1, 'odd text'),
      changeRow('link:i>1', 'held', 90, 'refused: status 422: no'),
    ])
    .execute();
  await query
    .insertInto('tasks')
    .values(
      times(7, (index) => ({
        task_id: `t${index}`,
        key: `K-${index}`,
        source: 'api',
        status: 'open',
        fields: '{}',
        seen_at: 1,
      })),
    )
    .execute();
  await query
    .insertInto('polls')
    .values([
      { connection: 'gh', unit: 'a/one', completed_at: NOW - 5_000 },
      { connection: 'gh', unit: 'a/two', walk: '{}', error: 'server_failed: status 502', failed_at: NOW - 20 },
      { connection: 'gh', unit: '*', error: 'forbidden: no scope', failed_at: NOW - 10 },
    ])
    .execute();
  await query
    .insertInto('fetches')
    .values({ reference: '{}', connection: 'gh', since: 1, not_before: 0, delivery_id: 1 })
    .execute();
}
