import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../src/model/change.ts';
import { type EntityRow, findEntity, forgetEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { requestsOfItems } from '../../../../src/store/requests.ts';
import { configureLinks, linksAreIdempotent } from '../../../../src/store/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { type ListAnswer, type ListPosition, nextListStep } from '../../../../src/sync/outbox/list-pages.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { CAME, DUE, differs, waits } from '../../../support/rows/changes.ts';
import {
  attachment,
  CONTEXT,
  changeMeanwhile,
  ITEM,
  inFlight,
  LINK,
  LOST,
  link,
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
} from '../../../support/rows/in-flight.ts';

describe('an answered write', () => {
  it.each<[what: string, sent: EntityRow, desired: Partial<EntityRow>, again: Partial<OutboxRow> | undefined]>([
    ['record that is still desired', record, {}, undefined],
    ['record whose desired state changed', record, { desired: '{"a":2}' }, { effect: null }],
    [
      'record that is desired to be closed',
      { ...record, desired: '{"state":"open"}' },
      { desired: '{"state":"closed"}' },
      { effect: 'removal' },
    ],
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
    ['the answer', 0, undefined, NOW + 2_400],
    ['the answer, later with a used quota', 0.5, undefined, NOW + 3_900],
    ['the answer, just before the end of the promised visibility', 0, 9_000, NOW + 8_500],
  ])('is debounced again from %s', async (_what, usedShare, visibility, due) => {
    const { query, prepared } = await inFlight(record);
    await saveEntity(query, { ...record, desired: '{"a":2}' });
    await settle(query, prepared, {}, { ...CONTEXT, usedShare, visibility });
    expect(await findChange(query, RECORD)).toMatchObject({ state: 'pending', since: NOW, due });
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
    [false, 'worksync never added the link before', null, 'w1'],
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

  it('returns the receipt times of its deliveries, and keeps later deliveries pending', async () => {
    const waiting = JSON.stringify([30, 40].map((at) => ({ id: at, at })));
    const { query, prepared } = await inFlight(record, { waiting });
    await changeMeanwhile(query, { ...record, desired: '{"a":2}' }, 1_500);
    expect(await settle(query, prepared, {}, CONTEXT)).toEqual([30, 40]);
    expect(await settle(query, { ...prepared, waiting: 1 }, {}, CONTEXT)).toEqual([1_500]);
  });

  it('restores no entity that was removed meanwhile, and still appends its answer', async () => {
    const { store, query, prepared } = await inFlight(link);
    await forgetEntity(query, LINK);
    await settle(query, prepared, {}, CONTEXT);
    expect(await findChange(query, LINK)).toBeUndefined();
    expect(await settle(query, prepared, {}, CONTEXT)).toEqual([]);
    expect(await findEntity(query, LINK)).toBeUndefined();
    expect((await inboxOf(store)).map(({ event, received_at }) => [event, received_at])).toEqual(
      Array(2).fill(['add-link', NOW]),
    );
  });
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

  it('of several pages continues to the last page, and each answer names its page', async () => {
    const { store, query, prepared } = await readInFlight(entityName.readPullRequests, { attempts: 2, error: 'once' });
    await settle(query, prepared, { pullRequests: [], nextCursor: 'two' }, CONTEXT);
    const row = await findChange(query, entityName.readPullRequests);
    expect(row).toMatchObject({ state: 'pending', attempts: 0, error: null });
    expect(JSON.parse(row?.sent ?? '')).toMatchObject({ cursor: 'two', began: SENT_AT });
    await settle(query, await take(query), { pullRequests: [], nextCursor: null }, CONTEXT);
    expect(await findChange(query, entityName.readPullRequests)).toBeUndefined();
    const pages = (await inboxOf(store)).map(({ body }) => JSON.parse(body ?? ''));
    expect(pages.map(({ cursor, page }) => [cursor, page])).toEqual([
      [undefined, { began: SENT_AT, isEnd: false, isComplete: false }],
      ['two', { began: SENT_AT, isEnd: true, isComplete: true }],
    ]);
  });
});

test('an answer that names no task leaves the outcome of the creation unknown', async () => {
  const { store, query, prepared } = await inFlight(newTask);
  await settle(query, prepared, undefined, { ...CONTEXT, status: 202 });
  expect(await findChange(query, TASK)).toMatchObject({ state: 'unknown' });
  expect(await findChange(query, entityName.readTasks)).toBeDefined();
  expect(await inboxOf(store)).toEqual([]);
});

test('a list continues after the process died between two pages', async () => {
  const { query, prepared } = await readInFlight(entityName.readTasks);
  await settle(query, prepared, { tasks: [], nextCursor: 'b' }, CONTEXT);
  const { body } = await take(query);
  await recover(query, CONTEXT);
  expect((await take(query)).body).toEqual(body);
});

test('stores an answered request in the history, with its deliveries and the time of each step', async () => {
  const { query, prepared } = await inFlight(link, { waiting: '[{"id":7,"at":100},{"id":8,"at":100}]' });
  await settle(query, prepared, { workItemId: 'w', url: 'u' }, { ...CONTEXT, status: 201 });
  const rows = await requestsOfItems(query, [ITEM], 9);
  expect(rows).toMatchObject([
    {
      ...{ entity: LINK, item_key: ITEM, task_id: 't1', action: 'add-link', lane: 'link', deliveries: '[7,8]' },
      ...{ since: CAME, due: DUE, asked_at: SENT_AT, slot_at: SENT_AT, sent_at: SENT_AT, completed_at: NOW },
      ...{ status: 201, outcome: 'answered', error: null, attempt: 1 },
    },
  ]);
  const stored = await query.selectFrom('inbox').select('delivery_key').executeTakeFirstOrThrow();
  expect(stored.delivery_key).toBe(`answer:${rows[0]?.answer}`);
});

test.each([
  ['refused', REFUSED, 'held', 422],
  ['outcome_unknown', LOST, 'again', null],
])('stores a request that failed with %s in the history', async (code, error, outcome, status) => {
  const { query, prepared } = await inFlight(link);
  expect(await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: false })).toBe(outcome);
  const rows = await requestsOfItems(query, [ITEM], 9);
  expect(rows).toMatchObject([{ outcome, status, error: `${code}: why`, attempt: 1 }]);
});

const page = (answer: ListAnswer, length: number, place: ListPosition = {}) =>
  nextListStep({ body: { ...place }, sentAt: SENT_AT }, answer, length);

const ended = (isComplete: boolean, began = SENT_AT) => ({ page: { began, isEnd: true, isComplete } });
const notLast = { began: SENT_AT, isEnd: false, isComplete: false };
const SECOND = { limit: 5_000, first: 50, began: 500 };

describe('a page without a cursor', () => {
  it.each<[what: string, answer: ListAnswer, length: number, place: ListPosition, expected: object]>([
    ['of an unusual length is complete', {}, 7, {}, ended(true)],
    ['that says that it is the last is complete, whatever its length', { isLast: true }, 50, {}, ended(true)],
    ['that says that it is not the last is incomplete', { isLast: false }, 7, {}, ended(false)],
    ['with an unreadable element is incomplete', { isLast: true, unreadable: 1 }, 7, {}, ended(false)],
    [
      'of exactly 50 that does not say that it is the last is read a second time with a limit',
      { isLast: null },
      50,
      {},
      { page: notLast, next: { limit: 5_000, first: 50, began: SENT_AT } },
    ],
    ['read a second time with as many elements is complete', {}, 50, SECOND, ended(true, 500)],
    ['read a second time with more elements is complete', {}, 73, SECOND, ended(true, 500)],
    ['read a second time and cut at another limit is incomplete', {}, 1_000, SECOND, ended(false, 500)],
    ['at the end of several pages is complete', { nextCursor: null }, 3, { cursor: 'b', began: 500 }, ended(true, 500)],
    [
      'at the end of several pages that may be cut itself is incomplete',
      {},
      50,
      { cursor: 'b', began: 500 },
      ended(false, 500),
    ],
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

/** Whether the outcome of the change's request is unknown. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

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
