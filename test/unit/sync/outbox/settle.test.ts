import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, forgetEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, type OutboxRow, removeChange } from '../../../../src/store/outbox-rows.ts';
import { type RequestRow, requestsOfItems } from '../../../../src/store/requests.ts';
import { configureLinks, linksAreIdempotent } from '../../../../src/store/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import type { PreparedRequest } from '../../../../src/sync/outbox/request.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
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
  failed,
  ITEM,
  inFlight,
  LIMITED,
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

describe('a list', () => {
  const page = (length: number, more: object = {}) => ({
    tasks: Array.from({ length }, (_, index) => ({ taskId: `t${index}` })),
    ...more,
  });
  const pagesIn = async (store: Parameters<typeof inboxOf>[0]) =>
    (await inboxOf(store)).map(({ body }) => JSON.parse(body ?? '').page);

  it('of exactly 50 elements is read a second time with a limit', async () => {
    const { store, query, prepared } = await readInFlight(entityName.readTasks);
    await settle(query, prepared, page(50), CONTEXT);
    const second = await take(query);
    expect(second.body).toMatchObject({ limit: 5_000, first: 50 });
    await settle(query, second, page(50), CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toBeUndefined();
    expect((await pagesIn(store)).map(({ isComplete }) => isComplete)).toEqual([false, true]);
  });

  it('ends as incomplete at a repeated cursor', async () => {
    const { store, query, prepared } = await readInFlight(entityName.readTasks);
    await settle(query, prepared, page(2, { nextCursor: 'b' }), CONTEXT);
    await settle(query, await take(query), page(2, { nextCursor: 'b' }), CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toBeUndefined();
    expect((await pagesIn(store)).at(-1)).toMatchObject({ isEnd: true, isComplete: false });
  });

  it('continues after the process died between two pages', async () => {
    const { query, prepared } = await readInFlight(entityName.readTasks);
    await settle(query, prepared, page(2, { nextCursor: 'b' }), CONTEXT);
    const { body } = await take(query);
    await recover(query, CONTEXT);
    expect((await take(query)).body).toEqual(body);
  });
});

const HISTORY_CONTEXT = { now: 500, random: systemRandom(), usedShare: 0 };

/** Claims the addition of a link. Returns its request, and a function that reads the history. */
async function requestWithHistory() {
  const store = await openTestStore();
  const { query } = store;
  await configureLinks(query, true);
  const desired = JSON.stringify({ url: 'https://tracker.example/1' });
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: ITEM, task_id: 't1', desired }));
  const waiting = [7, 8].map((id) => ({ id, at: 100 }));
  await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', since: 100, due: 200, weight: 1, waiting });
  const request = await prepareNext(query, { now: 400, onlyReads: false }, undefined, { askedAt: 300, slotAt: 399 });
  if (!request) throw new Error('nothing is to be sent');
  const history = async (): Promise<readonly Partial<RequestRow>[]> => requestsOfItems(query, [ITEM], 9);
  return { query, request, history };
}

test('stores an answered request in the history, with its deliveries and the time of each step', async () => {
  const { query, request, history } = await requestWithHistory();
  const answer = { workItemId: 'w', url: 'https://tracker.example/1' };
  await settle(query, request, answer, { ...HISTORY_CONTEXT, status: 201 });
  expect(await history()).toMatchObject([
    {
      ...{ entity: LINK, item_key: ITEM, task_id: 't1', action: 'add-link', lane: 'link', deliveries: '[7,8]' },
      ...{ since: 100, due: 200, asked_at: 300, slot_at: 399, sent_at: 400, completed_at: 500 },
      ...{ status: 201, outcome: 'answered', error: null, attempt: 1 },
    },
  ]);
  const [row] = await history();
  const stored = await query.selectFrom('inbox').select('delivery_key').executeTakeFirstOrThrow();
  expect(stored.delivery_key).toBe(`answer:${row?.answer}`);
});

test.each([
  ['refused', 400, 'invalid_request', 'held'],
  ['outcome_unknown', undefined, undefined, 'again'],
] as const)('stores a request that failed with %s in the history', async (code, status, errorCode, outcome) => {
  const { query, request, history } = await requestWithHistory();
  const error = new SyncError(code, 'why it failed', { status, errorCode, own: errorCode !== undefined });
  expect(await settleFailure(query, request, error, { ...HISTORY_CONTEXT, outage: false, atFault: false })).toBe(
    outcome,
  );
  expect(await history()).toMatchObject([{ outcome, status: status ?? null, error: `${code}: why it failed` }]);
});

describe('stores nothing and rejects when any statement fails for', () => {
  type Work = (query: Scope, prepared: PreparedRequest) => Promise<unknown>;
  const withFailure =
    (error: SyncError): Work =>
    (query, prepared) =>
      settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: true });
  const answered: Work = (query, prepared) =>
    settle(query, prepared, { tasks: [], pullRequests: [], nextCursor: 'two' }, CONTEXT);
  const nothing = async () => undefined;
  const gone = (entity: string) => (query: Scope) => forgetEntity(query, entity);
  const changed = (row: EntityRow) => (query: Scope) => changeMeanwhile(query, row, 1_500);
  const page = { ...blankEntity(entityName.readPullRequests, 'read') };
  const links = { ...blankEntity(entityName.readLinks('t1'), 'read') };
  const list = { ...blankEntity(entityName.readTasks, 'read') };

  it.each<[what: string, row: EntityRow, meanwhile: (query: Scope) => Promise<unknown>, work: Work]>([
    ['an answer', record, nothing, answered],
    ['an answer to a changed entity', record, changed({ ...record, desired: '{"a":2}' }), answered],
    ['an answer to a removed entity', link, gone(LINK), answered],
    ['an answer to a removed change', link, (query) => removeChange(query, LINK), answered],
    ['an answer with a further page', page, nothing, answered],
    ['an answer with a list', list, nothing, answered],
    ['an answer with a list that was requested again', list, changed(list), answered],
    ['no answer', link, nothing, withFailure(LOST)],
    ['no answer to a creation', newTask, nothing, withFailure(LOST)],
    ['a refusal', link, nothing, withFailure(REFUSED)],
    ['the removal of a missing link', removal, nothing, withFailure(ABSENT)],
    ['a refused creation', newTask, nothing, withFailure(failed('refused', 400, 'validation_failed'))],
    ['a refused list of records', page, nothing, withFailure(ABSENT)],
    ['a refused read of links', links, nothing, withFailure(ABSENT_ROUTE)],
    ['a rate limit', link, nothing, withFailure(LIMITED)],
    ['the last attempt', { ...link, entity: `${LINK}0` }, nothing, withFailure(ABSENT_ROUTE)],
    ['a start with a creation in flight', newTask, changed({ ...newTask }), (query) => recover(query, CONTEXT)],
    ['a start with a link in flight', link, nothing, (query) => recover(query, CONTEXT, 1)],
  ])('%s', async (_what, row, meanwhile, work) => {
    const getReady = async (store: Store) => {
      await configureLinks(store.query, true);
      if (row.kind === 'read') await waits(store.query, row.entity, { kind: 'read' });
      else await differs(store.query, row, { attempts: row.entity === `${LINK}0` ? 4 : 0 });
      const prepared = await take(store.query);
      await meanwhile(store.query);
      return () => store.commit((query) => work(query, prepared));
    };
    expect(await wrongWhereStatementsFail(getReady)).toEqual([]);
  });
});
