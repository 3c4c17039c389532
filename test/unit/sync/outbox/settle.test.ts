import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../src/model/change.ts';
import type { SyncError } from '../../../../src/model/errors.ts';
import { type EntityRow, findEntity } from '../../../../src/store/changes/entities.ts';
import { addDifference, findChange, type OutboxRow } from '../../../../src/store/changes/outbox-rows.ts';
import { TASKS_READ, writeMeta } from '../../../../src/store/meta.ts';
import { saveTask } from '../../../../src/store/tasks/stored-tasks.ts';
import {
  configureLinks,
  linksAreIdempotent,
  noteRouteAnswered,
  readRecordsRoute,
  routeOffUntil,
} from '../../../../src/store/workspace/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { MAX_BLOCK } from '../../../../src/sync/outbox/claim.ts';
import { recover } from '../../../../src/sync/outbox/outbox.ts';
import type { ListPosition } from '../../../../src/sync/outbox/request.ts';
import { type ListAnswer, nextListStep, type SettleContext, settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { differs, waits } from '../../../support/rows/changes.ts';
import {
  ABSENT,
  ABSENT_ROUTE,
  attachment,
  CONTEXT,
  changeMeanwhile,
  FULL,
  failed,
  ITEM,
  inFlight,
  LIMITED,
  LINK,
  LOST,
  link,
  NEVER_SENT,
  NOW,
  newTask,
  RECORD,
  REFUSED,
  readInFlight,
  record,
  removal,
  SENT_AT,
  TASK,
  take,
  UNREACHABLE,
} from '../../../support/rows/in-flight.ts';

/** Whether the outcome of the change's request is unknown. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

describe('an answered write', () => {
  const opened = { ...record, desired: '{"state":"open"}' };

  it.each<[what: string, sent: EntityRow, desired: Partial<EntityRow>, again: Partial<OutboxRow> | undefined]>([
    ['record that is still desired', record, {}, undefined],
    ['record whose desired state changed', record, { desired: '{"a":2}' }, { effect: null }],
    ['record that is desired to be closed', opened, { desired: '{"state":"closed"}' }, { effect: 'removal' }],
    ['record that is not desired any more', record, { desired: null }, undefined],
    ['link that is still desired', link, { desired: '{"url":"u","reason":"another"}' }, undefined],
    ['link that is not desired any more', link, { desired: null }, { effect: 'removal' }],
    ['removal that is still desired', removal, {}, undefined],
    ['removal of a link that is desired again', removal, { desired: '{"url":"u"}' }, { effect: 'creation' }],
    ['task, which is never written again', newTask, { desired: '{"a":2}' }, undefined],
    ['document, which is never attached again', attachment, { desired: '{"a":2}' }, undefined],
  ])('of a %s settles its change', async (_what, sent, desired, again) => {
    const { query, prepared } = await inFlight(sent, { attempts: 3, guard: 'confirmed', error: 'once' });
    await changeMeanwhile(query, { ...sent, ...desired }, 1_500);
    await settle(query, prepared, {}, CONTEXT);
    const row = await findChange(query, sent.entity);
    if (!again) return expect(row).toBeUndefined();
    expect(row).toMatchObject({
      // Pending from the time of that change, with the usual debounce.
      ...{ state: 'pending', since: 1_500, due: 1_500 + 2_400, waiting: '[{"id":9,"at":1500}]', next_since: null },
      ...{ sent: null, sent_at: null, attempts: 0, not_before: 0, error: null, guard: null },
      ...again,
    });
  });

  it.each([
    ['link', link, { desired: null }, NOW + MAX_TIME_IN_FLIGHT],
    ['record', record, { desired: '{"a":2}' }, 0],
  ])('of a %s that was repeated is undone when the first request must have arrived', async (_what, sent, now, from) => {
    const { query, prepared } = await inFlight(sent);
    await changeMeanwhile(query, { ...sent, ...now }, 1_500);
    await settle(query, { ...prepared, open: true }, {}, CONTEXT);
    expect(await findChange(query, sent.entity)).toMatchObject({ state: 'pending', not_before: from });
    const { written } = (await findEntity(query, sent.entity)) ?? {};
    expect(JSON.parse(written ?? '')).toMatchObject({ answeredAt: NOW, isRepeat: true });
  });

  it('becomes known, and a removed link keeps its id', async () => {
    const added = await inFlight({ ...link, remote_id: 'w1' });
    await settle(added.query, added.prepared, {}, CONTEXT);
    const row = await findEntity(added.query, LINK);
    expect(row).toMatchObject({ known: '{"url":"u"}', known_at: NOW, remote_id: null, desired: link.desired });
    expect(JSON.parse(row?.written ?? '')).toMatchObject({ action: 'add-link', sentAt: SENT_AT, answeredAt: NOW });
    const removed = await inFlight(removal);
    await settle(removed.query, removed.prepared, {}, CONTEXT);
    expect(await findEntity(removed.query, LINK)).toMatchObject({ known: null, remote_id: 'w1' });
  });

  it.each<[isIdempotent: boolean, claim: string, earlier: object | null, workItemId: string]>([
    [true, 'a repeated addition comes back with its first id', { action: 'add-link' }, 'w1'],
    [false, 'it comes back with another id', { action: 'add-link' }, 'w2'],
    [false, 'worksync removed the link meanwhile', { action: 'remove-link' }, 'w1'],
  ])(
    'shows that the server recognises repeated links: %j, if %s',
    async (isIdempotent, _claim, earlier, workItemId) => {
      const written = earlier && JSON.stringify(earlier);
      const { query, prepared } = await inFlight({ ...link, remote_id: 'w1', written });
      await configureLinks(query, false);
      await settle(query, prepared, { workItemId }, CONTEXT);
      expect(await linksAreIdempotent(query)).toBe(isIdempotent);
    },
  );
});

describe('an answered read', () => {
  it('is removed unless it was requested again while it was in flight', async () => {
    const { query, prepared } = await readInFlight(entityName.readTasks, { attempts: 2, not_before: 5, error: 'once' });
    const request = { entity: entityName.readTasks, kind: 'read', lane: 'read', since: 1_500, due: 1_500 } as const;
    await addDifference(query, { ...request, weight: 1, waiting: [] });
    await settle(query, prepared, { tasks: [] }, CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toMatchObject({
      ...{ state: 'pending', since: 1_500, next_since: null, sent: null, sent_at: null },
      ...{ attempts: 0, not_before: 0, error: null },
    });
    await settle(query, await take(query), { tasks: [] }, CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toBeUndefined();
  });
});

test('an answer that names no task leaves the outcome of the creation unknown', async () => {
  const { store, query, prepared } = await inFlight(newTask);
  await settle(query, prepared, undefined, { ...CONTEXT, status: 202 });
  expect(await findChange(query, TASK)).toMatchObject({ state: 'unknown' });
  expect(await findChange(query, entityName.readTasks)).toBeDefined();
  expect(await inboxOf(store)).toEqual([]);
});

const page = (answer: ListAnswer, length: number, place: ListPosition = {}) =>
  nextListStep({ body: { ...place }, sentAt: SENT_AT }, answer, length);

const ended = (isComplete: boolean, began = SENT_AT) => ({ page: { began, isEnd: true, isComplete } });
const notLast = { began: SENT_AT, isEnd: false, isComplete: false };
const SECOND = { limit: 5_000, first: 50, began: 500 };
const LAST = { cursor: 'b', began: 500 };
const repeated = { page: notLast, next: { ...SECOND, began: SENT_AT } };

describe('a page without a cursor', () => {
  it.each<[what: string, answer: ListAnswer, length: number, place: ListPosition, expected: object]>([
    ['of an unusual length is complete', {}, 7, {}, ended(true)],
    ['that says that it is the last is complete, whatever its length', { isLast: true }, 50, {}, ended(true)],
    ['with an unreadable element is incomplete', { isLast: true, unreadable: 1 }, 7, {}, ended(false)],
    ['of exactly 50 that does not say that it is the last is read a second time', { isLast: null }, 50, {}, repeated],
    ['read a second time with as many elements is complete', {}, 50, SECOND, ended(true, 500)],
    ['read a second time and cut at another limit is incomplete', {}, 1_000, SECOND, ended(false, 500)],
    ['at the end of several pages is complete', { nextCursor: null }, 3, LAST, ended(true, 500)],
  ])('%s', (_what, answer, length, place, expected) => {
    expect(page(answer, length, place)).toEqual(expected);
  });
});

test('continues with the cursor, and keeps the start and the restarts of the list', () => {
  const first = page({ nextCursor: 'b' }, 50, { restarts: 1 });
  expect(first).toMatchObject({ page: notLast, next: { cursor: 'b', began: SENT_AT, restarts: 1 } });
  const second = nextListStep({ body: { ...first.next }, sentAt: 2_000 }, { nextCursor: 'c' }, 50);
  expect(second).toMatchObject({ page: notLast, next: { cursor: 'c', began: SENT_AT, restarts: 1 } });
  expect(second.next?.seen).toHaveLength(2);
});

test('ends as incomplete at a repeated cursor', () => {
  const first = page({ nextCursor: 'b' }, 50);
  const second = page({ nextCursor: 'c' }, 50, first.next);
  expect(page({ nextCursor: 'b' }, 50, second.next)).toEqual(ended(false));
});

test('ends as incomplete after 500 pages', () => {
  let place: ListPosition | undefined = {};
  let pages = 0;
  for (; place !== undefined; pages++) place = page({ nextCursor: `c${pages}` }, 1, place).next;
  expect(pages).toBe(501);
});

test.each([0, 40_000])(
  'recover settles requests in flight as unknown, and repeats writes after %d ms',
  async (untouched) => {
    const { query } = await openTestStore();
    await configureLinks(query, true);
    for (const row of [record, link, newTask]) await differs(query, row);
    await waits(query, entityName.readPullRequests, { kind: 'read', sent: '{"cursor":"c"}' });
    for (let count = 0; count < 4; count++) await take(query);
    const recovered = await recover(query, CONTEXT, untouched);
    expect(recovered.map(({ entity }) => entity).toSorted()).toEqual(
      [LINK, RECORD, TASK, entityName.readPullRequests].toSorted(),
    );
    const left = async (entity: string) => {
      const { state, not_before, error } = (await findChange(query, entity)) as OutboxRow;
      return [state, not_before, error, await isOpen(query, entity)];
    };
    const later = untouched > 0 ? NOW + untouched : 0;
    for (const entity of [LINK, RECORD]) expect(await left(entity)).toEqual(['pending', later, null, true]);
    expect(await left(entityName.readPullRequests)).toEqual(['pending', 0, null, true]);
    const provable = NOW + untouched + SETTLE_AFTER;
    expect(await left(TASK)).toEqual(['unknown', provable, 'outcome_unknown: the process ended', true]);
    expect(await left(entityName.readTasks)).toEqual(['pending', provable, null, false]);
    const rows = await query.selectFrom('requests').select(['outcome', 'completed_at']).execute();
    expect(rows).toEqual(Array(4).fill({ outcome: 'unknown', completed_at: NOW }));
  },
);

const AT_FAULT = { atFault: true };
const OUTAGE = { outage: true };
const ANSWERED = { othersAnswered: true };
const INVALID = failed('refused', 400, 'validation_failed');
const FORBIDDEN = failed('forbidden', 403, 'forbidden');
const CONFLICT = failed('conflict', 409, 'conflict');
const RECORDS = entityName.readPullRequests;
const LINKS = entityName.readLinks('t1');
const refuse = async (query: Scope, error: SyncError, now = NOW) =>
  settleFailure(query, await take(query), error, { ...CONTEXT, now });

type Columns = Partial<OutboxRow> & { readonly open?: boolean };
const again = (columns: Columns = {}) => ['again', { state: 'pending', sent_at: null, ...columns }] as const;
const held = (columns: Columns = {}) => ['held', { state: 'held', ...columns }] as const;
const unknown = (columns: Columns) => ['unknown', { state: 'unknown', ...columns }] as const;
const dueIn = (ms: number) => ({ not_before: NOW + ms });

type Case = [
  what: string,
  row: EntityRow,
  error: SyncError,
  cause: Pick<SettleContext, 'outage' | 'atFault' | 'othersAnswered'> & { readonly attempts?: number },
  expected: readonly [outcome: string, change: Columns],
];

describe('a failed write', () => {
  it.each<Case>([
    ['link without an answer', link, LOST, {}, again({ open: true, attempts: 1, ...dueIn(2_000) })],
    ['link after a failure of the server', link, failed('server_failed', 500, 'internal'), {}, again({ open: true })],
    ['link with a rate limit', link, LIMITED, {}, again({ open: false, attempts: 0, ...dueIn(0) })],
    ['link that was refused', link, REFUSED, {}, held({ open: false, attempts: 0, sent_at: null })],
    ['link that was never sent', link, NEVER_SENT, {}, held({ open: false })],
    ['link that a proxy refused', link, ABSENT_ROUTE, {}, again({ open: false })],
    ['link to a missing task', link, ABSENT, {}, held()],
    ['link in a full workspace', link, FULL, {}, again({ open: false, attempts: 1 })],
    ['fifth in a full workspace', link, FULL, { attempts: 4, ...AT_FAULT }, again({ attempts: 4, ...dueIn(30_000) })],
    ['task without an answer', newTask, LOST, {}, unknown(dueIn(SETTLE_AFTER))],
    ['task that was refused', newTask, REFUSED, {}, held()],
    ['second failure', link, LOST, { attempts: 1 }, again({ attempts: 2, ...dueIn(4_000) })],
    ['third failure', link, LOST, { attempts: 2 }, again({ attempts: 3, ...dueIn(30_000) })],
    ['fifth failure, at fault', link, LOST, { attempts: 4, ...AT_FAULT }, held({ attempts: 5, open: true })],
    ['fifth failure, perhaps not at fault', link, LOST, { attempts: 4 }, again({ attempts: 5 })],
    [
      'seventh, while reads succeed',
      link,
      LOST,
      { attempts: 6, ...ANSWERED },
      again({ attempts: 7, ...dueIn(120_000) }),
    ],
    ['seventh, while nothing succeeds', link, LOST, { attempts: 6 }, again({ attempts: 7, ...dueIn(30_000) })],
    ['failure in an outage', link, LOST, { attempts: 2, ...OUTAGE }, again({ attempts: 2, ...dueIn(0) })],
    ['third attempt that was not sent', link, UNREACHABLE, { attempts: 2 }, again({ attempts: 3, ...dueIn(30_000) })],
    ['fifth attempt that was not sent', link, UNREACHABLE, { attempts: 4, ...AT_FAULT }, again({ attempts: 4 })],
    ['fifth failure, at fault in an outage', link, LOST, { attempts: 4, ...OUTAGE, ...AT_FAULT }, held()],
  ])('%s', async (_what, row, error, { attempts = 0, ...cause }, [outcome, change]) => {
    const { store, query, prepared } = await inFlight(row, { attempts });
    expect(await settleFailure(query, prepared, error, { ...CONTEXT, ...cause })).toBe(outcome);
    const { open, ...columns } = change;
    expect(await findChange(query, row.entity)).toMatchObject({ ...columns, error: `${error.code}: why` });
    if (open !== undefined) expect(await isOpen(query, row.entity)).toBe(open);
    // A notice may wait for a change that is held now.
    const evaluations = (await inboxOf(store)).filter(({ event }) => event === 'look-again');
    expect(evaluations.map(({ body }) => JSON.parse(body ?? '').entity)).toEqual(outcome === 'held' ? [ITEM] : []);
  });

  it.each([
    ['a rate limit', LIMITED],
    ['a refusal by a proxy', ABSENT_ROUTE],
  ])('keeps its unknown outcome after %s', async (_what, error) => {
    const { query, prepared } = await inFlight(link);
    await settleFailure(query, prepared, LOST, CONTEXT);
    await settleFailure(query, { ...prepared, open: true }, error, CONTEXT);
    expect(await isOpen(query, LINK)).toBe(true);
  });
});

describe('a failed read', () => {
  const PAGE_GONE = failed('refused', 400, 'invalid_request');
  it.each<[what: string, entity: string, sent: object | null, error: SyncError, left: object | undefined]>([
    ['without an answer', entityName.readTasks, null, LOST, { state: 'pending', sent: '{}', attempts: 5 }],
    ['of a page', entityName.readPullRequests, { cursor: 'c' }, LOST, { sent: '{"cursor":"c"}', attempts: 5 }],
    ['of a refused page', entityName.readPullRequests, { cursor: 'c' }, PAGE_GONE, { sent: '{"restarts":1}' }],
    ['of a page refused thrice', entityName.readTasks, { cursor: 'c', restarts: 2 }, PAGE_GONE, undefined],
    ['of links of a missing task', entityName.readLinks('t1'), null, ABSENT, undefined],
    ['of one task, refused by a proxy', entityName.readTask('t1'), null, failed('refused', 404), undefined],
    ['of one task, without an answer', entityName.readTask('t1'), null, LOST, { state: 'pending' }],
    ['of the tasks, answered with 404', entityName.readTasks, null, ABSENT, { state: 'pending' }],
  ])('%s', async (_what, entity, sent, error, left) => {
    const change = { sent: sent && JSON.stringify(sent), attempts: 4, awaits: 'check' } as const;
    const { query, prepared } = await readInFlight(entity, change);
    const outcome = await settleFailure(query, prepared, error, { ...CONTEXT, ...AT_FAULT });
    expect(outcome).toBe(left ? 'again' : 'settled');
    const row = await findChange(query, entity);
    if (left) expect(row).toMatchObject(left);
    else expect(row).toBeUndefined();
  });

  it.each([
    [entityName.readLinks('t1'), ABSENT, { workItems: [] }],
    [entityName.readTask('t1'), ABSENT, null],
    // The list of tasks follows.
    [entityName.readTask('t1'), ABSENT_ROUTE, null],
  ])('%s of a missing thing is settled by an empty answer', async (entity, error, body) => {
    const { store, query, prepared } = await readInFlight(entity);
    // Another read of this kind succeeded recently, so this refusal concerns this one thing.
    for (const route of ['listWorkItems', 'getDocument', 'getTask'] as const)
      await noteRouteAnswered(query, route, NOW);
    expect(await settleFailure(query, prepared, error, CONTEXT)).toBe('settled');
    expect((await inboxOf(store)).map((row) => JSON.parse(row.body ?? '').body)).toEqual([body]);
  });
});

describe('a refused list of records', () => {
  it.each<[what: string, state: string, error: SyncError]>([
    ['404 by the workspace', 'closed', ABSENT],
    ['503', 'unknown', failed('server_failed', 503, 'internal')],
  ])('with %s leaves the route %s', async (_what, state, error) => {
    const { query, prepared } = await readInFlight(RECORDS);
    await writeMeta(query, TASKS_READ, '1');
    await differs(query, record);
    const outcome = await settleFailure(query, prepared, error, CONTEXT);
    expect((await readRecordsRoute(query)).state).toBe(state);
    const isClosed = state === 'closed';
    expect([outcome === 'settled', (await findChange(query, RECORDS)) === undefined]).toEqual([isClosed, isClosed]);
    // Pending records are dropped only if they can never be sent.
    expect((await findChange(query, RECORD)) === undefined).toBe(isClosed);
  });

  it('with 403 before the tasks were read shows nothing about the route', async () => {
    const { query, prepared } = await readInFlight(RECORDS);
    await settleFailure(query, prepared, FORBIDDEN, CONTEXT);
    expect((await readRecordsRoute(query)).state).toBe('unknown');
    expect(await findChange(query, entityName.readTasks)).toBeDefined();
  });
});

describe('a refused link', () => {
  it.each([
    ['an addition with 409', link, CONFLICT],
    ['a removal with 404', removal, ABSENT],
    ['a removal with 404 of a proxy', removal, ABSENT_ROUTE],
  ])('%s requests a read of the links, and is held if it is refused again', async (_what, row, error) => {
    const { query, prepared } = await inFlight(row, { attempts: 4 });
    const waiting = { state: 'pending', attempts: 5, awaits: 'check', not_before: NOW + MAX_BLOCK };
    expect(await settleFailure(query, prepared, error, CONTEXT)).toBe('again');
    expect(await findChange(query, LINK)).toMatchObject(waiting);
    expect(await findChange(query, LINKS)).toMatchObject({ state: 'pending', not_before: 0 });
    expect(await settleFailure(query, { ...prepared, isChecked: true }, error, CONTEXT)).toBe('held');
  });
});

describe('a refused read of the links of a task', () => {
  it('for two tasks switches the route off and delays the links that wait for it', async () => {
    const { query, prepared } = await readInFlight(LINKS);
    expect(await settleFailure(query, prepared, INVALID, CONTEXT)).toBe('again');
    expect(await routeOffUntil(query, 'listWorkItems', NOW)).toBeUndefined();
    await waits(query, entityName.readLinks('t2'), { kind: 'read' });
    expect(await refuse(query, INVALID)).toBe('settled');
    const off = await routeOffUntil(query, 'listWorkItems', NOW);
    expect(off).toBe(NOW + 3_600_000);
    await differs(query, link);
    await expect(take(query)).rejects.toThrow('nothing is to be sent');
    expect(await findChange(query, LINK)).toMatchObject({ state: 'pending', not_before: off });
  });

  it('is repeated once, and then holds the links that wait for it', async () => {
    const { query, prepared } = await readInFlight(LINKS);
    await differs(query, link, { not_before: NOW + MAX_BLOCK, awaits: 'links' });
    const pausing = { ...link, entity: `${LINK}2` };
    await differs(query, pausing, { not_before: NOW + 30_000 });
    expect(await settleFailure(query, prepared, INVALID, CONTEXT)).toBe('again');
    await settleFailure(query, { ...prepared, isChecked: true }, INVALID, CONTEXT);
    expect(await findChange(query, LINKS)).toBeUndefined();
    expect(await findChange(query, LINK)).toMatchObject({ state: 'held', error: 'refused: why' });
    expect(await findChange(query, pausing.entity)).toMatchObject({ state: 'pending', error: null });
  });
});

it.each([
  ['a record', 409, record],
  ['a record', 412, record],
  ['the removal of a link', 409, removal],
  ['the attachment of a document', 412, attachment],
])('a conflict of %s with %i is repeated with pauses, and held after five in a row', async (_what, status, row) => {
  const { query, prepared } = await inFlight(row, { attempts: 4 });
  const conflict = failed('conflict', status, 'conflict');
  expect(await settleFailure(query, prepared, conflict, CONTEXT)).toBe('again');
  expect(await findChange(query, row.entity)).toMatchObject({ attempts: 1, not_before: NOW + 2_000 });
  expect(await settleFailure(query, { ...prepared, isConflicted: true }, conflict, CONTEXT)).toBe('held');
});

describe('a refused creation', () => {
  const BODY = { title: 'a', description: 'b', labels: ['ui'], priority: 'p1' };
  const task = { ...newTask, desired: JSON.stringify(BODY) };

  it('is checked in a list of the tasks after 409, and repeated without fields only then', async () => {
    const { query, prepared } = await inFlight(task);
    expect(await settleFailure(query, prepared, CONFLICT, CONTEXT)).toBe('again');
    expect(await findChange(query, TASK)).toMatchObject({ awaits: 'check', error: 'conflict: why' });
    expect(await findChange(query, entityName.readTasks)).toMatchObject({ state: 'pending' });
    expect(await settleFailure(query, { ...prepared, isChecked: true }, CONFLICT, CONTEXT)).toBe('again');
    expect((await findChange(query, TASK))?.error).toBe('conflict: why; sent again without labels, priority');
  });

  it('with 403 shows nothing about its fields', async () => {
    const { query, prepared } = await inFlight(task);
    await settleFailure(query, prepared, FORBIDDEN, CONTEXT);
    expect((await findChange(query, TASK))?.error).not.toContain('sent again without');
  });
});

test('a refused page with a limit ends the list as incomplete', async () => {
  const { store, query, prepared } = await readInFlight(entityName.readTasks);
  const tasks = Array.from({ length: 50 }, (_, index) => ({ taskId: `t${index}` }));
  await settle(query, prepared, { tasks }, CONTEXT);
  expect(await refuse(query, INVALID)).toBe('settled');
  const pages = (await inboxOf(store)).map(({ body }) => JSON.parse(body ?? '').page);
  expect(pages.at(-1)).toMatchObject({ isEnd: true, isComplete: false });
});

test('stores the refusal of a read of links completely or not at all', async () => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      await configureLinks(store.query, true);
      await waits(store.query, LINKS, { kind: 'read' });
      for (const number of [1, 2, 3])
        await differs(store.query, { ...link, entity: `${LINK}${number}` }, { not_before: NOW, awaits: 'links' });
      const prepared = { ...(await take(store.query)), isChecked: true };
      return () => store.commit((query) => settleFailure(query, prepared, INVALID, CONTEXT));
    },
    { isRepeatable: true },
  );
  expect(wrong).toEqual([]);
});

test.each([
  ['links of a cached task', true, LINKS, ABSENT],
  ['links, by a proxy', false, LINKS, ABSENT_ROUTE],
  ['a document', false, entityName.readDocument('d1'), ABSENT],
])('a 404 for %s requests the list of tasks: %j', async (_what, isListed, name, error) => {
  const { query, prepared } = await readInFlight(name);
  await saveTask(query, { taskId: 't1', key: 'BUG-1', title: '', status: 'open', source: 'api', updatedAt: '' }, 1);
  expect(await settleFailure(query, prepared, error, CONTEXT)).toBe('again');
  expect(await findChange(query, name)).toMatchObject({ state: 'pending', awaits: 'check' });
  expect((await findChange(query, entityName.readTasks)) !== undefined).toBe(isListed);
});
