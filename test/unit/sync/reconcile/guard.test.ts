import { describe, expect, it, test } from 'vitest';
import { type EntityKind, effectOf, entity } from '../../../../src/model/change.ts';
import type { DeliveryOrigin } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest, WorkItem } from '../../../../src/model/item.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/changes/outbox-rows.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { fetchKey, REPLAYED } from '../../../../src/store/deliveries/inbox.ts';
import { type Answer, appendAnswer } from '../../../../src/store/workspace/workspace-reads.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { applyBatch } from '../../../../src/sync/reconcile/apply-batch.ts';
import { createRules, type GuardLimits } from '../../../../src/sync/reconcile/context.ts';
import { guardChanges } from '../../../../src/sync/reconcile/enqueue.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import { batchContext, START } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const MINUTE = 60_000;
const LIVE_FOR = 15 * MINUTE;
/** The guard holds all that it counts, but two statuses. */
const LIMITS: GuardLimits = { removals: 0, creations: 0, repairs: 0, statuses: 2 };

const RULES = createRules({
  ...{ trailers: ['Task'], links: [], addresses: [], grammars: [], documents: false, users: { github: { ada: 'u1' } } },
  triage: [{ when: {}, create: 'bug', title: '{title}', labels: [], since: 0 }],
  workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 },
});

interface Received {
  readonly source?: DeliveryOrigin;
  readonly key?: string;
  /** Milliseconds until it is processed. */
  readonly age?: number;
  readonly isReplayed?: boolean;
}

async function open(limits = LIMITS) {
  const store = await openTestStore();
  const clock = createTravellingClock({ start: START + 60 * MINUTE });
  const reconcile = reconcileOver(store, {
    clock,
    rules: RULES,
    guard: limits,
    translate: ({ body }) => ({ outcome: 'items', items: JSON.parse(body.toString()) as Item[] }),
  });
  let keys = 0;
  return {
    store,
    clock,
    drain: () => reconcile.drain(),
    async receive(items: readonly Item[], { source = 'webhook', key, age = 0, isReplayed }: Received = {}) {
      const body = Buffer.from(JSON.stringify(items));
      const delivery = { connection: 'main', key: key ?? `key-${++keys}`, source, event: 'event', body };
      const [row] = await appendDeliveries(store.query, [delivery], clock.now() - age);
      if (isReplayed) await store.query.updateTable('inbox').set({ reason: REPLAYED }).execute();
      return row?.id as number;
    },
    answer: (answer: Omit<Answer, 'sentAt'>) =>
      appendAnswer(store.query, { sentAt: clock.now(), ...answer }, `answer-${++keys}`, clock.now()),
    async changes() {
      const rows = await store.query.selectFrom('outbox').selectAll().where('kind', '!=', 'read').execute();
      return rows.map(({ entity: name, state, lane, guard }) => ({ name, state, lane, guard }));
    },
  };
}

const request = (number: number, fields: Partial<PullRequest> = {}): PullRequest =>
  pull({
    ...{ key: `github:github.com:5001:pull:${number}`, identifier: String(number), isFork: false },
    ...{ url: `https://github.com/acme/app/pull/${number}`, updatedAt: START, ...fields },
  });

const issue = (fields: Partial<WorkItem> = {}): WorkItem =>
  workItem({ url: 'https://acme.example.com/browse/ENG-1', updatedAt: START, ...fields });

const task = (number: number) => ({
  ...{ taskId: `t${number}`, key: `BUG-${number}`, title: 'A task', status: 'open', source: 'api', kind: 'bug' },
  updatedAt: '2026-01-01T00:00:00Z',
});

describe('the guard of live changes', () => {
  it.each<[what: string, received: Received, isCounted: boolean]>([
    ['a webhook after 15 minutes', { age: LIVE_FOR }, false],
    ['a webhook after more than 15 minutes', { age: LIVE_FOR + 1 }, true],
    ['a webhook that is replayed', { isReplayed: true }, true],
    ['a poll', { source: 'poll' }, true],
    ['a fetch because of a webhook', { source: 'fetch', key: webhookFetch(0) }, false],
    ['a fetch because of a late webhook', { source: 'fetch', key: webhookFetch(LIVE_FOR + 1) }, true],
    ['a fetch for another reason', { source: 'fetch', key: fetchKey('id', undefined) }, true],
  ])('decides on a creation by %s: counted %s', async (_what, received, isCounted) => {
    const { receive, drain, changes } = await open();
    await receive([request(1)], received);
    await drain();
    expect(await changes()).toMatchObject([isCounted ? { state: 'held' } : { state: 'pending', guard: 'live' }]);
  });

  it.each<[what: string, item: Item, isCounted: boolean]>([
    ['a pull request from the same repository', request(1, { isPublic: true }), false],
    ['a pull request from a fork', request(1, { isPublic: true, isFork: true }), true],
    ['a fork of a private repository', request(1, { isPublic: false, isFork: true }), false],
    ['an issue', issue(), false],
    ['an issue of a public project', issue({ isPublic: true }), true],
  ])('trusts authors as the rules for task states do: %s, counted %s', async (_what, item, isCounted) => {
    const { receive, drain, changes } = await open();
    await receive([item]);
    await drain();
    expect(await changes()).toMatchObject([{ state: isCounted ? 'held' : 'pending' }]);
  });

  it.each([
    ['because of the webhook, two hours later', 0, 'pending'],
    ['for another reason, two hours later', 120 * MINUTE, 'held'],
  ])('counts no link that a list makes possible, if it was wanted %s', async (_what, wantedAfter, state) => {
    const { receive, drain, clock, answer, store } = await open();
    const receivedAt = clock.now();
    await receive([request(1, { title: 'BUG-7' })]);
    await drain();
    await clock.advance(120 * MINUTE);
    const body = { tasks: [task(7)] };
    await answer({ action: 'read-tasks', entity: entity.readTasks, body, wantedAt: receivedAt + wantedAfter });
    await drain();
    expect(await findChange(store.query, entity.link(request(1).key, 't7'))).toMatchObject({ state });
  });

  it('counts nothing that follows from the task of an issue that a webhook brought', async () => {
    const { receive, drain, clock, answer, store } = await open();
    const wantedAt = clock.now();
    await receive([request(1, { title: 'Fixes ENG-1' })], { source: 'poll' });
    await receive([issue()]);
    await drain();
    await clock.advance(120 * MINUTE);
    await answer({ action: 'create-task', entity: entity.task(issue().key), body: task(1), wantedAt });
    await drain();
    for (const { key } of [issue(), request(1)])
      expect(await findChange(store.query, entity.link(key, 't1'))).toMatchObject({ state: 'pending', guard: 'live' });
  });

  it('counts what an evaluation by new rules wants', async () => {
    const { receive, drain, clock, store, changes } = await open();
    await receive([request(1)]);
    await drain();
    await store.query.deleteFrom('outbox').execute();
    const context = batchContext(clock.now(), {
      rules: RULES,
      guard: LIMITS,
      sources: new Map([['main', { ...batchContext(0).sources.get('code')!, name: 'main' }]]),
    });
    await store.commit((query) => applyBatch(query, [], context, { items: [request(1).key], tasks: [] }));
    expect(await changes()).toMatchObject([{ state: 'held' }]);
  });

  const UPTO_60 = Array.from({ length: 60 }, (_, index) => [index + 1]);
  it.each<[what: string, statuses: number, deliveries: readonly (readonly (readonly number[])[])[], held: number]>([
    ['one delivery', 2, [[[1, 2, 3]]], 1],
    ['several deliveries', 2, [[[1]], [[2]], [[3]]], 0],
    ['one delivery of many items, in several batches', 45, [UPTO_60], 15],
  ])('counts status changes by %s', async (_what, statuses, deliveries, held) => {
    const { receive, drain, answer, changes } = await open({ ...LIMITS, creations: 999, statuses });
    const tasks = deliveries.flat(2).map(task);
    await answer({ action: 'saw-tasks', entity: '', body: { tasks } });
    await drain();
    let number = 0;
    for (const items of deliveries)
      await receive(
        items.map((named) => request(++number, { title: named.map((each) => `Fixes BUG-${each}`).join(', ') })),
      );
    await drain();
    const updates = (await changes()).filter(({ name }) => name.startsWith('update:'));
    expect(updates).toHaveLength(tasks.length);
    expect(updates.filter(({ state }) => state === 'held')).toHaveLength(held);
  });
});

function webhookFetch(age: number): string {
  return fetchKey('id', { delivery: 1, receivedAt: START + 60 * MINUTE - age });
}

test('more than 500 creations of a connection within a minute go to the lane of backfills', async () => {
  const { receive, drain, changes, clock } = await open();
  const laneOf = async (number: number) => (await changes()).find(({ name }) => name.endsWith(`/${number}`))?.lane;
  for (let number = 1; number <= 502; number++) await receive([request(number)]);
  await drain();
  expect([await laneOf(500), await laneOf(501), await laneOf(502)]).toEqual(['mirror', 'backfill', 'backfill']);
  await clock.advance(61_000);
  await receive([request(503)]);
  await receive([request(502, { title: 'Another', updatedAt: START + 2 })]);
  await drain();
  expect([await laneOf(501), await laneOf(502), await laneOf(503)]).toEqual(['backfill', 'mirror', 'mirror']);
});

describe('the effect of a change', () => {
  const open = { state: 'open', title: 'a' };
  const closed = { state: 'closed' };
  type Fields = Record<string, unknown> | undefined;
  it.each<[EntityKind, desired: Fields, known: Fields, effect: string | null]>([
    ['pull_request', open, undefined, 'creation'],
    ['pull_request', closed, open, 'removal'],
    ['pull_request', { state: 'merged' }, open, null],
    ['pull_request', { title: 'b' }, open, null],
    ['pull_request', open, closed, null],
    ['pull_request', undefined, open, null],
    ['link', { url: 'u' }, undefined, 'creation'],
    ['link', undefined, { url: 'u' }, 'removal'],
    ['link', undefined, undefined, null],
    ['task', { title: 'a' }, undefined, 'creation'],
    ['task', { title: 'a' }, { title: 'a' }, null],
  ])('%s: desired %o, known %o: %s', (kind, desired, known, effect) => {
    expect(effectOf(kind, desired, known)).toBe(effect);
  });
});

describe('the guard of waiting changes', () => {
  type Kind = 'pull_request' | 'link' | 'read';
  const add = (query: Scope, kind: Kind, number: number, effect: 'creation' | 'removal') => {
    const times = { since: number, due: number, weight: 1, waiting: [] };
    return addDifference(query, { entity: `${kind}:${number}`, kind, lane: 'link', effect, ...times });
  };
  const limits = (removals: number, creations: number) => ({ removals, creations, repairs: 9, statuses: 50 });

  it('holds the latest surplus changes, and counts reads and passed changes without holding them', async () => {
    const { query } = await openTestStore();
    for (const number of [1, 2, 3, 4]) await add(query, 'link', number, 'removal');
    await add(query, 'read', 9, 'removal');
    await add(query, 'link', 8, 'removal');
    await updateChange(query, 'link:8', { guard: 'passed' });
    await add(query, 'pull_request', 5, 'creation');
    const reasons = await guardChanges(query, limits(4, 1));
    expect(reasons).toEqual([
      { effect: 'removal', held: 2, reason: 'more than 4 removals or closings wait together (guard.removals)' },
    ]);
    const states = await query.selectFrom('outbox').select(['entity', 'state']).orderBy('entity').execute();
    expect(states.filter(({ state }) => state === 'held').map(({ entity }) => entity)).toEqual(['link:3', 'link:4']);
    expect(await guardChanges(query, limits(4, 1))).toEqual([]);
    expect(await findChange(query, 'link:2')).toMatchObject({ guard: 'passed' });
    expect(await findChange(query, 'link:4')).toMatchObject({
      guard: 'held',
      error: 'guard_held: more than 4 removals or closings wait together (guard.removals)',
    });
  });
});
