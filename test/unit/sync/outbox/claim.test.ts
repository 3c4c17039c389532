import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT } from '../../../../src/model/change.ts';
import { blankEntity, type EntityRow, findEntity } from '../../../../src/store/changes/entities.ts';
import { findChange, type OutboxRow } from '../../../../src/store/changes/outbox-rows.ts';
import { saveItem } from '../../../../src/store/items/items.ts';
import { saveTask } from '../../../../src/store/tasks/stored-tasks.ts';
import { saveTaskMarks } from '../../../../src/store/tasks/task-creations.ts';
import { configureLinks } from '../../../../src/store/workspace/server-capabilities.ts';
import { noteLinksRead } from '../../../../src/store/workspace/workspace-reads.ts';
import type { Scope, Store } from '../../../../src/store/workspace-scope.ts';
import {
  type ChangeScheduler,
  claimChange,
  createChangeScheduler,
  MAX_BLOCK,
  prepareNext,
  UNVERIFIED_PAUSE,
  waitOf,
} from '../../../../src/sync/outbox/claim.ts';
import { type PlannedWrite, readPlan } from '../../../../src/sync/outbox/planned-writes.ts';
import { type PreparedRequest, writeFor } from '../../../../src/sync/outbox/request.ts';
import { acquireSlot } from '../../../../src/sync/outbox/sender.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { linkOf, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { CAME, DUE, differs, waits } from '../../../support/rows/changes.ts';
import { CONTEXT, ITEM, LINK, LOST, link, newTask, RECORD, REFUSED, TASK } from '../../../support/rows/in-flight.ts';
import { itemRow } from '../../../support/rows/items.ts';

const NOW = 1_000;
/** A time at which earlier requests may have expired. */
const LATER = 1_000_000;
const ELIGIBLE = { now: NOW, onlyReads: false };
const LINKS = entityName.readLinks('t1');
const MADE = { taskId: 't1', key: 'T-1', title: 'a', status: 'open', source: ITEM, updatedAt: '' };

const linkRow = (row: Partial<EntityRow> = {}) =>
  blankEntity(LINK, 'link', { item_key: ITEM, task_id: 't1', desired: '{"url":"u"}', ...row });
const claimAt = (query: Scope, now: number) => prepareNext(query, { now, onlyReads: false });

/** A store of a workspace whose server never duplicates a link. */
async function openedStore() {
  const store = await openTestStore();
  await configureLinks(store.query, true);
  return store;
}

test('stores the request and its ledger row in one transaction', async () => {
  expect(
    await remainsOf(async (store) => {
      const { slot, take } = await outboxBench(store, 1);
      const own = await slot();
      return () => take(own, linkOf(1));
    }),
  ).toEqual([]);
});

test('releases the slot if no change is eligible or the commit fails', async () => {
  const store = await openTestStore();
  const { slot, take, throttle } = await outboxBench(store, 0);
  expect(await take(await slot())).toBeUndefined();
  expect(throttle.used().used).toBe(0);
  await withoutTable(store.database, 'outbox', () => expect(slot().then(take)).rejects.toThrow());
  expect(throttle.used().used).toBe(0);
});

test('claims nothing if another request was refused after the slot was granted', async () => {
  const store = await openTestStore();
  const { slot, take, throttle } = await outboxBench(store, 1);
  const [early, refused] = [await slot(), await slot()];
  await store.commit((query) => refused.record(query));
  await refused.complete({ status: 429, retryAfter: 60_000 });
  expect(await take(early)).toBeUndefined();
  expect(throttle.used().used).toBe(1);
});

test('a backfill that waits for a slot gives way to live work that is due', async () => {
  const { clock, throttle, context } = await outboxBench(await openTestStore(), 0);
  const at = clock.now() + 60_000;
  const live = { lane: 'link', due: at, at, entity: linkOf(1) } as const;
  const scheduler = { nextLiveChange: async () => live } as unknown as ChangeScheduler;
  for (let slot = 0; slot < 4; slot++) await throttle.acquire({ lane: 'link', due: 1 });
  const { signal } = new AbortController();
  const slot = acquireSlot(context, scheduler, { ...live, lane: 'backfill' }, new Promise(() => undefined), signal);
  await clock.advance(60_000);
  expect(await slot).toBeUndefined();
});

test('postpones all changes that must wait in the transaction of one claim', async () => {
  const { clock, store, slot, context } = await outboxBench(await openTestStore(), 3);
  for (const number of [1, 2, 3])
    await saveItem(store.query, itemRow(`jira:cloud:issue:${number}`, { unverified: 1 }), number);
  let commits = 0;
  const commit: Store['commit'] = (work) => {
    commits++;
    return store.commit(work);
  };
  const own = await slot();
  const next = { entity: linkOf(1), isCurrent: () => true };
  const counted = { ...context, store: { ...store, commit } };
  expect(await claimChange(counted, createChangeScheduler(context), own, next, clock.now())).toBeUndefined();
  expect(commits).toBe(1);
});

describe('prepareNext', () => {
  it('stores the request in flight, with its deliveries and times', async () => {
    const { query } = await openedStore();
    const waiting = JSON.stringify([7, 8].map((id) => ({ id, at: 50 })));
    await differs(query, linkRow(), { waiting, attempts: 2 });
    const prepared = await prepareNext(query, ELIGIBLE, undefined, { askedAt: 300, slotAt: 400 });
    expect(prepared).toEqual({
      ...{ action: 'add-link', entity: LINK, kind: 'link', lane: 'link', body: { url: 'u' }, known: '{"url":"u"}' },
      ...{ taskId: 't1', waiting: 2, attempts: 2, open: false, sentAt: NOW, revision: 1 },
      trace: { itemKey: ITEM, itemName: ITEM, since: CAME, due: DUE, deliveries: [7, 8], askedAt: 300, slotAt: 400 },
    });
    const row = await findChange(query, LINK);
    expect([row?.state, row?.sent_at, JSON.parse(row?.sent ?? '')]).toEqual(['sending', NOW, prepared]);
    expect(await prepareNext(query, ELIGIBLE)).toBeUndefined();
  });

  it('marks a repeated request whose earlier outcome is unknown', async () => {
    const { query } = await openedStore();
    await differs(query, linkRow());
    const first = await prepareNext(query, ELIGIBLE);
    await query.updateTable('outbox').set({ state: 'pending' }).execute();
    expect(await prepareNext(query, ELIGIBLE)).toEqual({ ...first, open: true, revision: 2 });
  });

  it.each<[what: string, row: EntityRow, stays: boolean]>([
    ['link that is neither desired nor known', linkRow({ desired: null }), false],
    ['record that is neither desired nor known', blankEntity('pull_request:2', 'pull_request'), true],
    ['link that is known', linkRow({ known: '{}' }), true],
    ['known link that a person made', linkRow({ known: '{}', desired: null, hand: 'manual' }), true],
    ['link that a person removed', linkRow({ hand: 'removed' }), true],
  ])('removes the change of a %s without a request', async (_what, row, stays) => {
    const { query } = await openedStore();
    await differs(query, row);
    await waits(query, entityName.readTasks, { kind: 'read', due: DUE + 1 });
    expect(await prepareNext(query, ELIGIBLE, row.entity)).toMatchObject({ action: 'read-tasks' });
    expect(await findChange(query, row.entity)).toBeUndefined();
    expect((await findEntity(query, row.entity)) !== undefined).toBe(stays);
  });

  it('stores a task that the workspace already has instead of creating it', async () => {
    const { query } = await openedStore();
    await saveTask(query, MADE, 1);
    await differs(query, blankEntity(TASK, 'task', { item_key: ITEM, desired: '{"title":"a"}' }));
    expect(await prepareNext(query, ELIGIBLE)).toBeUndefined();
    expect(await findChange(query, TASK)).toBeUndefined();
    expect(await findEntity(query, TASK)).toMatchObject({ known: '{"title":"a"}', remote_id: 't1' });
  });
});

test("on a server that may duplicate links, the first link to a task waits for a read of the task's links", async () => {
  const { query } = await openTestStore();
  await differs(query, link);
  const read = await claimAt(query, LATER);
  expect(read).toMatchObject({ entity: LINKS, lane: link.kind });
  expect(await findChange(query, LINK)).toMatchObject({ state: 'pending', not_before: LATER + MAX_BLOCK });
  await settle(query, read as never, { workItems: [] }, { ...CONTEXT, now: LATER });
  await noteLinksRead(query, 't1', read as PreparedRequest);
  expect(await claimAt(query, LATER)).toMatchObject({ entity: LINK, action: 'add-link' });
  // A second link to the task needs no read.
  const other = { ...link, entity: `${LINK}2` };
  await differs(query, other);
  expect(await claimAt(query, LATER)).toMatchObject({ entity: other.entity });
});

describe('until a list has shown a task that worksync created', () => {
  const [second, third] = ['2', '3'].map((number) => ({
    ...{ ...newTask, entity: `${TASK}${number}`, item_key: `jira:cloud:issue:${number}` },
  })) as [EntityRow, EntityRow];
  const now = { now: LATER };

  it.each<[string, after: (query: Scope, first: PreparedRequest) => Promise<unknown>]>([
    ['answer', (query, first) => settle(query, first, { taskId: 't1' }, { ...CONTEXT, ...now })],
    ['refusal', (query, first) => settleFailure(query, first, REFUSED, { ...CONTEXT, ...now })],
    ['lost answer', (query, first) => settleFailure(query, first, LOST, { ...CONTEXT, ...now })],
  ])(
    'one creation is in flight, and the next follows its %s; one more waits while two are unknown',
    async (what, after) => {
      const { query } = await openTestStore();
      for (const task of [newTask, second, third]) await differs(query, task);
      const first = await claimAt(query, LATER);
      expect(first).toMatchObject({ entity: TASK });
      expect(await claimAt(query, LATER)).toBeUndefined();
      await after(query, first as PreparedRequest);
      const next = await claimAt(query, LATER);
      expect(next).toMatchObject({ entity: second.entity });
      await settleFailure(query, next as PreparedRequest, LOST, { ...CONTEXT, ...now });
      const isBlocked = what === 'lost answer';
      expect((await claimAt(query, LATER + 50_000))?.entity).toBe(isBlocked ? undefined : third.entity);
      expect((await findChange(query, third.entity))?.state).toBe(isBlocked ? 'pending' : 'sending');
    },
  );
});

test('creations are concurrent once a list has shown a task that worksync created', async () => {
  const { query } = await openTestStore();
  await saveTaskMarks(query, { source: false, description: true });
  for (const entity of [TASK, `${TASK}2`]) await differs(query, { ...newTask, entity, item_key: entity.slice(5) });
  expect(await claimAt(query, LATER)).toMatchObject({ entity: TASK });
  expect(await claimAt(query, LATER)).toMatchObject({ entity: `${TASK}2` });
});

const ADD = { action: 'add-link', taskId: 't1', body: {}, isUnverified: false } as const;
const ATTEMPTED_AT = LATER - 10_000;

const changeSentAt = (sentAt: number) =>
  ({ entity: 'link:i>t1', lane: 'link', sent: JSON.stringify({ sentAt, revision: 3 }) }) as OutboxRow;

test.each([
  ['before the first attempt', 2, ATTEMPTED_AT - 1, true],
  ['while the first attempt may still arrive', 4, ATTEMPTED_AT + 5_000, true],
  ['when the first attempt must have arrived', 4, ATTEMPTED_AT + MAX_TIME_IN_FLIGHT, false],
])(
  'a repeated addition, after a read that was sent %s is blocked only until then',
  async (_when, revision, sentAt, isBlocked) => {
    const { query } = await openTestStore();
    await noteLinksRead(query, 't1', { revision, sentAt });
    const now = LATER + MAX_TIME_IN_FLIGHT;
    const wait = await waitOf(query, changeSentAt(ATTEMPTED_AT), ADD, now);
    expect(wait).toEqual(isBlocked ? { not_before: now + MAX_BLOCK, awaits: 'links' } : undefined);
    const read = await findChange(query, 'read:links:t1');
    expect(read?.not_before).toBe(isBlocked ? ATTEMPTED_AT + MAX_TIME_IN_FLIGHT : undefined);
  },
);

const PULL = 'github:github.com:1:pull:1';
/** The request of an earlier attempt, whose outcome was unknown at the time of the backup. */
const SENT = JSON.stringify({ action: 'record-pull-request', body: { a: 1 } });

test('a write waits while its item is unverified', async () => {
  const { query } = await openTestStore();
  const row = blankEntity(RECORD, 'pull_request', { item_key: PULL, desired: '{"a":1}' });
  await saveItem(query, itemRow(PULL, { kind: 'pull_request', unverified: 1 }), 1);
  await differs(query, row, { sent: SENT });
  expect(await prepareNext(query, { now: NOW, onlyReads: false })).toBeUndefined();
  expect((await findChange(query, RECORD))?.not_before).toBe(NOW + UNVERIFIED_PAUSE);
  await saveItem(query, itemRow(PULL, { kind: 'pull_request' }), 2);
  const later = await prepareNext(query, { now: NOW + UNVERIFIED_PAUSE, onlyReads: false });
  expect(later).toMatchObject({ action: 'record-pull-request', entity: RECORD });
});

describe('the request of a write', () => {
  const SENT = JSON.stringify({ action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' });
  const none = { desired: null };
  const url = '{"url":"u"}';
  const gone = { ...none, known: url };
  const documentAt = (taskId: string | null) => JSON.stringify({ taskId, isMissing: false });
  const free = { desired: '{"a":1}', known: documentAt(null) };
  const written = (action: string, taskId: string | null = null, known = '{"a":1}') => ({
    ...{ action, body: { a: 1 }, known, taskId },
  });
  const addition = { action: 'add-link', body: { url: 'u' }, known: url, taskId: 't1' };
  const deletion = { action: 'remove-link', body: { workItemId: 'w1' }, known: null, taskId: 't1' };
  const attached = written('attach-document', 't1', documentAt('t1'));

  it.each<[what: string, kind: OutboxRow['kind'], row: Partial<EntityRow>, request: object | undefined]>([
    ['records the desired pull request', 'pull_request', { desired: '{"a":1}' }, written('record-pull-request')],
    ['is absent for a record that is not desired', 'pull_request', none, undefined],
    ['creates a task that the workspace does not have', 'task', { desired: '{"a":1}' }, written('create-task')],
    ['is absent for a task that the workspace has', 'task', { desired: '{"a":1}', known: '{}' }, undefined],
    ['is absent for a task that is not desired', 'task', none, undefined],
    ['attaches a document of no task', 'document', free, attached],
    ['is absent for a document of another task', 'document', { ...free, known: documentAt('t2') }, undefined],
    ['is absent for a document that a person detached', 'document', { ...free, hand: 'removed' }, undefined],
    ['adds a link without its reason', 'link', { desired: '{"url":"u","reason":"named"}' }, addition],
    ['is absent for a known link', 'link', { desired: url, known: url }, undefined],
    ['is absent for a link that a person removed', 'link', { desired: url, hand: 'removed' }, undefined],
    ['removes a link that worksync added', 'link', { ...gone, remote_id: 'w1' }, deletion],
    [
      'is absent for the removal of a link of a person',
      'link',
      { ...gone, remote_id: 'w1', hand: 'manual' },
      undefined,
    ],
  ])('%s', (_what, kind, row, request) => {
    expect(writeFor({ kind, sent: null }, blankEntity('e', kind, { task_id: 't1', ...row }))).toEqual(request);
  });

  it('repeats a link with unknown outcome unchanged, but a record with its desired state', () => {
    const again = { action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' };
    expect(writeFor({ kind: 'link', sent: SENT }, blankEntity(LINK, 'link', { task_id: 't1' }))).toEqual(again);
    const record = blankEntity('e', 'pull_request', { desired: '{"a":2}' });
    expect(writeFor({ kind: 'pull_request', sent: SENT }, record)).toMatchObject({ body: { a: 2 } });
  });
});

const write = (name: string, fields: Partial<PlannedWrite> = {}): PlannedWrite => ({
  ...{ entity: `pull_request:${name}`, kind: 'pull_request', action: 'record-pull-request' },
  ...{ body: { title: name }, held: false, due: 2, ...fields },
});

/** Stores a write of this desired title, due at 2. */
async function plans(query: Scope, name: string, title: string | null, change: Partial<OutboxRow> = {}) {
  const desired = title === null ? null : JSON.stringify({ title });
  const row = blankEntity(`pull_request:${name}`, 'pull_request', { desired });
  await differs(query, row, { lane: 'mirror', due: 2, ...change });
}

test('a plan has writes that are pending, held by the guard or in flight, and no others', async () => {
  const { query } = await openTestStore();
  const sent = JSON.stringify({ action: 'record-pull-request', body: { title: 'as sent' } });
  await plans(query, 'a', 'a');
  await plans(query, 'b', 'b', { state: 'held', guard: 'held' });
  await plans(query, 'refused', 'c', { state: 'held', error: 'refused: no' });
  await plans(query, 'unknown', 'd', { state: 'unknown' });
  await plans(query, 'e', 'e', { state: 'sending', sent });
  await plans(query, 'without a difference', null);
  await waits(query, 'read:tasks', { kind: 'read' });
  const inFlight = write('e', { body: { title: 'as sent' } });
  expect(await readPlan(query)).toEqual([write('a'), write('b', { held: true }), inFlight]);
});
