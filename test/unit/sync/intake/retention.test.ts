import { describe, expect, onTestFinished, test } from 'vitest';
import type { DeliveryState } from '../../../../src/model/delivery.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { deleteDeliveries, deleteTombstones, purgeBodies } from '../../../../src/store/deletions.ts';
import { blankEntity, type EntityRow, saveEntity } from '../../../../src/store/entities.ts';
import { addQuotaUse, deleteQuotaUse, quotaUseSince } from '../../../../src/store/quota-use.ts';
import { addRequest, requestsOfItems } from '../../../../src/store/requests.ts';
import { type RetainedWorkspace, retentionJob } from '../../../../src/sync/intake/retention.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { openTestInstallation } from '../../../support/harness/store.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

async function seed(store: Pick<Store, 'query'>, key: string, state: DeliveryState, receivedAt: number): Promise<void> {
  const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body: Buffer.from('body') };
  await appendDeliveries(store.query, [delivery], receivedAt);
  const settled_at = state === 'pending' ? null : receivedAt + 1;
  await store.query.updateTable('inbox').set({ state, settled_at }).where('delivery_key', '=', key).execute();
}

test('deletes bodies, requests and deliveries after their times, but no pending delivery and no quarantined body', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const now = clock.now();
  const states = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;
  for (const state of states)
    for (const age of [1, 20, 100]) await seed(store, `${state} ${age}`, state, now - age * DAY);

  for (const age of [1, 20]) await addRequest(store.query, requestOf(now - age * DAY));

  const retention = { bodies: 14 * DAY, deliveries: 90 * DAY };
  const workspaces = () => [{ name: 'test', store, retention }];
  const job = retentionJob({ query: store.database, workspaces, clock, logger: silentLogger });
  await job.run(new AbortController().signal);

  const left = (await inboxOf(store)).map((row) => `${row.delivery_key}: ${row.body}`);
  expect(left.sort()).toEqual(
    [
      ...states.map((state) => `${state} 1: body`),
      'applied 20: null',
      'superseded 20: null',
      'ignored 20: null',
      'quarantined 20: body',
      'pending 20: body',
      'pending 100: body',
    ].sort(),
  );
  expect((await requestsOfItems(store.query, ['a'], 9)).map(({ completed_at }) => completed_at)).toEqual([now - DAY]);
});

test('deletes rows an hour older than their limit, and keeps rows an hour younger', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const now = clock.now();
  const [older, younger] = [(days: number) => now - days * DAY - HOUR, (days: number) => now - days * DAY + HOUR];
  const retention = { bodies: 14 * DAY, deliveries: 90 * DAY };
  for (const [side, at] of Object.entries({ older, younger })) {
    await seed(store, `body ${side}`, 'applied', at(14));
    await seed(store, `delivery ${side}`, 'applied', at(90));
    await addRequest(store.query, requestOf(at(14)));
    await addQuotaUse(store.query, at(8), 'mirror', 0);
    const act = { workspace: null, actor: 'command ann', action: side, subject: null, count: 1 } as const;
    await store.database
      .insertInto('audit')
      .values({ ...act, at: at(400), outcome: 'done' })
      .execute();
  }
  const workspaces = () => [{ name: 'test', store, retention }];
  await retentionJob({ query: store.database, workspaces, clock, logger: silentLogger }).run(
    new AbortController().signal,
  );
  const rows = await inboxOf(store);
  expect(new Map(rows.map(({ delivery_key, body }) => [delivery_key, body !== null]))).toEqual(
    new Map([
      ['body older', false],
      ['body younger', true],
      ['delivery younger', false],
    ]),
  );
  expect((await requestsOfItems(store.query, ['a'], 9)).map((row) => row.completed_at)).toEqual([younger(14)]);
  expect((await quotaUseSince(store.query, 0)).map(({ since }) => since >= now - 8 * DAY)).toEqual([true]);
  const audit = await store.database.selectFrom('audit').select('action').execute();
  expect(audit).toEqual([{ action: 'younger' }]);
});

test('completes and leaves no unhandled rejection, whichever statement fails', async () => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      const clock = createTravellingClock();
      for (const age of [20, 100]) await seed(store, `${age}`, 'applied', clock.now() - age * DAY);
      await addRequest(store.query, requestOf(clock.now() - 20 * DAY));
      await addQuotaUse(store.query, clock.now() - 9 * DAY, 'mirror', 0);
      await saveEntity(store.query, linkKnownAt('old', clock.now() - 2 * DAY, 'gone'));
      const workspaces = () => [{ name: 'test', store, retention: { bodies: 14 * DAY, deliveries: 90 * DAY } }];
      const job = retentionJob({ query: store.query.whole, workspaces, clock, logger: silentLogger });
      return async () => job.run(new AbortController().signal);
    },
    { inParts: true, isQuiet: true },
  );
  expect(wrong).toEqual([]);
});

test('deletes the use of the quota after eight days, in batches', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const now = clock.now();
  for (let days = 1; days <= 20; days++)
    for (const caller of ['mirror', 'read']) await addQuotaUse(store.query, now - days * DAY, caller, 0);
  expect(await deleteQuotaUse(store.query, now - 15 * DAY, 3)).toBe(4);
  const workspaces = () => [{ name: 'test', store, retention: { bodies: 14 * DAY, deliveries: 90 * DAY } }];
  const job = retentionJob({ query: store.database, workspaces, clock, logger: silentLogger });
  await job.run(new AbortController().signal);
  const left = await quotaUseSince(store.query, 0);
  expect(left.map(({ since }) => (now - since) / DAY)).toEqual([8, 7, 6, 5, 4, 3, 2, 1].flatMap((day) => [day, day]));
});

test('deletes tombstones after a day, and no other links', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const old = clock.now() - DAY - 1;
  for (const [name, hand] of [
    ['gone', 'gone'],
    ['gone too', 'gone'],
    ['removed by a person', 'removed'],
    ['made by a person', 'manual'],
    ['ours', null],
  ] as const)
    await saveEntity(store.query, linkKnownAt(name, old, hand));
  await saveEntity(store.query, linkKnownAt('gone lately', old + 1, 'gone'));
  expect(await deleteTombstones(store.query, old + 1, 1)).toBe(1);
  const workspaces = () => [{ name: 'test', store, retention: { bodies: 14 * DAY, deliveries: 90 * DAY } }];
  await retentionJob({ query: store.database, workspaces, clock, logger: silentLogger }).run(
    new AbortController().signal,
  );
  const left = await store.query.selectFrom('entities').select('entity').orderBy('entity').execute();
  expect(left.map(({ entity }) => entity)).toEqual([
    'link:gone lately',
    'link:made by a person',
    'link:ours',
    'link:removed by a person',
  ]);
});

test('deletes the audit after 400 days, in batches', async () => {
  const deletions: string[] = [];
  const store = await openTestStore({
    onStatement: (statement) => void (statement.startsWith('delete from "audit"') && deletions.push(statement)),
  });
  const clock = createTravellingClock();
  const act = { workspace: null, actor: 'command ann', action: 'release', subject: null, count: 1 } as const;
  const old = clock.now() - 401 * DAY;
  const rows = [...Array<number>(1_000).fill(old), clock.now()].map((at) => ({ ...act, at, outcome: 'done' as const }));
  await store.database.insertInto('audit').values(rows).execute();
  const job = retentionJob({ query: store.database, workspaces: () => [], clock, logger: silentLogger });
  await job.run(new AbortController().signal);
  const left = await store.database.selectFrom('audit').select('at').execute();
  expect(left).toEqual([{ at: clock.now() }]);
  expect(deletions.length).toBeGreaterThan(1);
});

function linkKnownAt(name: string, at: number, hand: EntityRow['hand']): EntityRow {
  return blankEntity(`link:${name}`, 'link', { known_at: at, hand, revision: 1 });
}

function requestOf(at: number): Parameters<typeof addRequest>[1] {
  return {
    entity: 'link:a>t',
    kind: 'link',
    item_key: 'a',
    action: 'add-link',
    lane: 'link',
    sent_at: at,
    since: at,
    due: at,
    asked_at: at,
    slot_at: at,
    completed_at: at,
    outcome: 'answered',
    attempt: 1,
    deliveries: '[]',
  };
}

test('works in small batches', async () => {
  const store = await openTestStore();
  for (let index = 0; index < 12; index++) await seed(store, `key-${index}`, 'applied', index);
  expect(await purgeBodies(store.query, 100, 5)).toBe(5);
  expect(await purgeBodies(store.query, 100, 50)).toBe(7);
  expect(await purgeBodies(store.query, 100, 50)).toBe(0);
  expect(await deleteDeliveries(store.query, 100, 5)).toBe(5);
  expect(await inboxOf(store)).toHaveLength(7);
});

test('deletes large bodies in smaller batches', async () => {
  const store = await openTestStore();
  for (let index = 0; index < 5; index++) await seed(store, `key-${index}`, 'applied', index);
  await store.query
    .updateTable('inbox')
    .set({ body: Buffer.alloc(4_000_000) })
    .execute();
  expect(await purgeBodies(store.query, 100, 1)).toBe(1);
  expect(await purgeBodies(store.query, 100, 50)).toBe(2);
  expect(await deleteDeliveries(store.query, 100, 50)).toBe(5);
  expect(await inboxOf(store)).toEqual([]);
});

describe('many workspaces', () => {
  const retention = { bodies: DAY, deliveries: 90 * DAY };
  const { signal } = new AbortController();

  async function openMany(count: number) {
    const statements: string[] = [];
    const installation = await openTestInstallation({
      file: ':memory:',
      onStatement: (statement) => statements.push(statement),
    });
    onTestFinished(() => installation.close());
    const clock = createTravellingClock();
    const open: RetainedWorkspace[] = [];
    const turns: number[] = [];
    for (let index = 0; index < count; index++) {
      const name = `workspace-${index}`;
      const store = await installation.store(name);
      const commitRelaxed: Store['commitRelaxed'] = (work) => {
        turns.push(index);
        return store.commitRelaxed(work);
      };
      open.push({ name, store: { ...store, commitRelaxed }, retention });
    }
    const purged: unknown[] = [];
    const logger = {
      ...silentLogger,
      info: (fields: LogFields) => void purged.push([fields['workspace'], fields['bodies']]),
    };
    const { query } = installation;
    const job = retentionJob({ query, workspaces: () => open, clock, logger });
    const fill = async (index: number, deliveries: number) => {
      const { store } = open[index] as RetainedWorkspace;
      for (let at = 0; at < deliveries; at++) await seed(store, `key-${at}`, 'applied', clock.now() - 2 * DAY);
    };
    return { statements, open, turns, purged, job, fill };
  }

  test('runs no statement for workspaces without old rows', async () => {
    const counts: number[] = [];
    for (const count of [1, 400]) {
      const { statements, job } = await openMany(count);
      statements.length = 0;
      await job.run(signal);
      counts.push(statements.length);
    }
    // One for each kind, and two for the audit, which belongs to no workspace.
    expect(counts).toEqual([7, 7]);
  });

  test('purges one batch of each workspace in turn', async () => {
    const { turns, job, fill, purged } = await openMany(3);
    await fill(0, 450);
    await fill(2, 10);
    await job.run(signal);
    expect(turns.slice(0, 3)).toEqual([0, 2, 0]);
    expect(purged).toEqual([
      ['workspace-0', 450],
      ['workspace-2', 10],
    ]);
  });

  test('purges the others after a failure of one', async () => {
    const { job, fill, purged, open } = await openMany(2);
    await fill(0, 1);
    await fill(1, 1);
    const broken = {
      ...(open[0] as RetainedWorkspace).store,
      commitRelaxed: () => Promise.reject(new Error('a fault')),
    };
    open[0] = { ...(open[0] as RetainedWorkspace), store: broken };
    await job.run(signal);
    expect(purged).toEqual([['workspace-1', 1]]);
  });
});
