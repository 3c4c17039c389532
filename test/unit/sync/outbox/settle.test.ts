import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { type EntityRow, findEntity, forgetEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { configureLinks, linksAreIdempotent, noteRouteAnswered } from '../../../../src/store/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { isWorkspaceRefusal } from '../../../../src/sync/outbox/breaker.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import type { FailureContext } from '../../../../src/sync/outbox/refusals.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { differs, waits } from '../../../support/changes.ts';
import {
  ABSENT,
  ABSENT_ROUTE,
  attachment,
  CONTEXT,
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
  wishMeanwhile,
} from '../../../support/in-flight.ts';
import { inboxOf, openTestStore } from '../../../support/intake.ts';

describe('a write that was answered', () => {
  it.each<[what: string, sent: EntityRow, now: Partial<EntityRow>, again: Partial<OutboxRow> | undefined]>([
    ['record that is still wanted so', record, {}, undefined],
    ['record that is wanted otherwise', record, { desired: '{"a":2}' }, { effect: null }],
    [
      'record that is to be closed by now',
      { ...record, desired: '{"state":"open"}' },
      { desired: '{"state":"closed"}' },
      { effect: 'removal' },
    ],
    ['record that nobody has an opinion on any more', record, { desired: null }, undefined],
    ['link that is still wanted', link, { desired: '{"url":"u","reason":"another"}' }, undefined],
    ['link that is not wanted any more', link, { desired: null }, { effect: 'removal' }],
    ['removal that is still wanted', removal, {}, undefined],
    ['removal of what is wanted again', removal, { desired: '{"url":"u"}' }, { effect: 'creation' }],
    ['task, which is never written again', newTask, { desired: '{"a":2}' }, undefined],
    ['document, which is never attached again', attachment, { desired: '{"a":2}' }, undefined],
  ])('of a %s', async (_what, sent, now, again) => {
    const { query, prepared } = await inFlight(sent, { attempts: 3, guard: 'confirmed', error: 'once' });
    await wishMeanwhile(query, { ...sent, ...now }, 1_500);
    await settle(query, prepared, {}, CONTEXT);
    const row = await findChange(query, sent.entity);
    if (!again) return expect(row).toBeUndefined();
    expect(row).toMatchObject({
      // From the moment at which the wish changed, and with the patience that any wish has.
      ...{ state: 'pending', since: 1_500, due: 1_500 + 2_400, waiting: '[{"id":9,"at":1500}]', next_since: null },
      ...{ sent: null, sent_at: null, attempts: 0, not_before: 0, error: null, guard: null },
      ...again,
    });
  });

  it.each([
    ['when the answer came, where nobody said when', 0, undefined, NOW + 2_400],
    ['later where the quota is used up', 0.5, undefined, NOW + 3_900],
    ['just before the end of what is promised', 0, 9_000, NOW + 8_500],
  ])('is due again by its patience from %s', async (_what, usedShare, visibility, due) => {
    const { query, prepared } = await inFlight(record);
    await saveEntity(query, { ...record, desired: '{"a":2}' });
    await settle(query, prepared, {}, { ...CONTEXT, usedShare, visibility });
    expect(await findChange(query, RECORD)).toMatchObject({ state: 'pending', since: NOW, due });
  });

  it.each([
    ['link', link, { desired: null }, NOW + MAX_TIME_IN_FLIGHT],
    ['record', record, { desired: '{"a":2}' }, 0],
  ])(
    'of a %s that was sent before is undone once the first request must have arrived',
    async (_what, sent, now, from) => {
      const { query, prepared } = await inFlight(sent);
      await wishMeanwhile(query, { ...sent, ...now }, 1_500);
      await settle(query, { ...prepared, open: true }, {}, CONTEXT);
      expect(await findChange(query, sent.entity)).toMatchObject({ state: 'pending', not_before: from });
      const { written } = (await findEntity(query, sent.entity)) ?? {};
      expect(JSON.parse(written ?? '')).toMatchObject({ answeredAt: NOW, isRepeat: true });
    },
  );

  it('is known from then on; the id of a removed link stays, so that a late event about it is recognised', async () => {
    const kept = await inFlight({ ...link, remote_id: 'w1' });
    await settle(kept.query, kept.prepared, {}, CONTEXT);
    const row = await findEntity(kept.query, LINK);
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

  it('tells when the deliveries came that waited for it, and leaves those that came later', async () => {
    const waiting = JSON.stringify([30, 40].map((at) => ({ id: at, at })));
    const { query, prepared } = await inFlight(record, { waiting });
    await wishMeanwhile(query, { ...record, desired: '{"a":2}' }, 1_500);
    expect(await settle(query, prepared, {}, CONTEXT)).toEqual([30, 40]);
    expect(await settle(query, { ...prepared, waiting: 1 }, {}, CONTEXT)).toEqual([1_500]);
  });

  it('changes nothing of what has gone meanwhile, and its answer is looked at all the same', async () => {
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

describe('a read that was answered', () => {
  it('is over, unless it was wished again while it was in flight', async () => {
    const { query, prepared } = await readInFlight(entityName.readTasks, { attempts: 2, not_before: 5, error: 'once' });
    const wish = { entity: entityName.readTasks, kind: 'read', lane: 'read', since: 1_500, due: 1_500 } as const;
    await addDifference(query, { ...wish, weight: 1, waiting: [] });
    await settle(query, prepared, { tasks: [] }, CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toMatchObject({
      ...{ state: 'pending', since: 1_500, next_since: null, sent: null, sent_at: null },
      ...{ attempts: 0, not_before: 0, error: null },
    });
    await settle(query, await take(query), { tasks: [] }, CONTEXT);
    expect(await findChange(query, entityName.readTasks)).toBeUndefined();
  });

  it('of several pages goes on where the page ended, to the last; each answer names its page', async () => {
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

const AT_FAULT = { atFault: true };
const OUTAGE = { outage: true };

/** Whether the request stands in the row: then nobody knows what became of it. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

type Case = [
  what: string,
  row: EntityRow,
  error: SyncError,
  judgement: Partial<Pick<FailureContext, 'outage' | 'atFault'>> & { attempts?: number },
  outcome: string,
  change: (Partial<OutboxRow> & { open?: boolean }) | undefined,
];

describe('a write that failed', () => {
  const waiting = { state: 'pending', sent_at: null } as const;
  it.each<Case>([
    [
      'link without an answer',
      link,
      LOST,
      {},
      'again',
      { ...waiting, open: true, attempts: 1, not_before: NOW + 2_000 },
    ],
    ['link after a failure of the server', link, failed('server_failed', 500, 'internal'), {}, 'again', { open: true }],
    ['link with an answer that says nothing', link, failed('answer_malformed', 201), {}, 'again', { open: true }],
    ['link with an answer too large', link, failed('answer_too_large', 200), {}, 'again', { open: true }],
    ['link that has to wait', link, LIMITED, {}, 'again', { ...waiting, open: false, attempts: 0, not_before: NOW }],
    ['link that was refused', link, REFUSED, {}, 'held', { state: 'held', open: false, attempts: 0, sent_at: null }],
    ['link that was never sent', link, NEVER_SENT, {}, 'held', { state: 'held', open: false }],
    ['link that something in front refused', link, ABSENT_ROUTE, {}, 'again', { ...waiting, open: false }],
    ['link to a task that is not there', link, ABSENT, {}, 'held', { state: 'held' }],
    ['removal that something in front refused', removal, ABSENT_ROUTE, {}, 'again', { ...waiting, open: false }],
    ['link that the workspace has no space for', link, FULL, {}, 'again', { ...waiting, open: false, attempts: 1 }],
    ['task that the workspace has no space for', newTask, FULL, {}, 'again', { ...waiting, open: false, attempts: 1 }],
    [
      'fifth that the workspace has no space for, while reads get through',
      link,
      FULL,
      { attempts: 4, ...AT_FAULT },
      'again',
      { ...waiting, attempts: 4, not_before: NOW + 30_000 },
    ],
    ['task without an answer', newTask, LOST, {}, 'unknown', { state: 'unknown', not_before: NOW + SETTLE_AFTER }],
    ['task that was refused', newTask, REFUSED, {}, 'held', { state: 'held' }],
    ['task that has to wait', newTask, LIMITED, {}, 'again', { ...waiting, open: false, attempts: 0 }],
    ['second failure', link, LOST, { attempts: 1 }, 'again', { attempts: 2, not_before: NOW + 4_000 }],
    ['third failure', link, LOST, { attempts: 2 }, 'again', { attempts: 3, not_before: NOW + 30_000 }],
    ['fourth, its own fault', link, LOST, { attempts: 3, ...AT_FAULT }, 'again', { ...waiting, attempts: 4 }],
    [
      'fifth, its own fault',
      link,
      LOST,
      { attempts: 4, ...AT_FAULT },
      'held',
      { state: 'held', attempts: 5, open: true },
    ],
    ['fifth, perhaps not its own fault', link, LOST, { attempts: 4 }, 'again', { ...waiting, attempts: 5 }],
    ['one in an outage', link, LOST, { attempts: 2, ...OUTAGE }, 'again', { attempts: 2, not_before: NOW }],
    ['fifth that was not sent', link, UNREACHABLE, { attempts: 4, ...AT_FAULT }, 'again', { ...waiting, attempts: 4 }],
    ['third that was not sent', link, UNREACHABLE, { attempts: 2 }, 'again', { attempts: 3, not_before: NOW + 30_000 }],
    [
      'fourth that was not sent',
      link,
      UNREACHABLE,
      { attempts: 3 },
      'again',
      { attempts: 3, not_before: NOW + 30_000 },
    ],
    [
      'fifth, its own fault also in an outage',
      link,
      LOST,
      { attempts: 4, ...OUTAGE, ...AT_FAULT },
      'held',
      { state: 'held' },
    ],
  ])('%s', async (_what, row, error, { attempts = 0, outage = false, atFault = false }, outcome, change) => {
    const { store, query, prepared } = await inFlight(row, { attempts });
    expect(await settleFailure(query, prepared, error, { ...CONTEXT, outage, atFault })).toBe(outcome);
    const left = await findChange(query, row.entity);
    if (!change) return expect(left).toBeUndefined();
    const { open, ...columns } = change;
    expect(left).toMatchObject({ ...columns, error: `${error.code}: why` });
    if (open !== undefined) expect(await isOpen(query, row.entity)).toBe(open);
    // Whoever waited for a change that is held waits no longer.
    const looks = (await inboxOf(store)).filter(({ event }) => event === 'look-again');
    expect(looks.map(({ body }) => JSON.parse(body ?? '').entity)).toEqual(outcome === 'held' ? [ITEM] : []);
  });

  it('stays open, where an earlier request of it may have been carried out', async () => {
    const { query, prepared } = await inFlight(link);
    for (const error of [LOST, LIMITED, ABSENT_ROUTE]) {
      await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: false });
      expect(await isOpen(query, LINK)).toBe(true);
      Object.assign(prepared, { open: true });
    }
  });

  it('goes out again where what it would send has changed while it was refused', async () => {
    const { store, query, prepared } = await inFlight(record, { attempts: 3 });
    await wishMeanwhile(query, { ...record, desired: '{"a":2}' }, 1_500);
    expect(await settleFailure(query, prepared, REFUSED, { ...CONTEXT, outage: false, atFault: true })).toBe('again');
    expect(await findChange(query, RECORD)).toMatchObject({ state: 'pending', attempts: 0, next_since: null });
    expect(await inboxOf(store)).toEqual([]);
  });

  it('of no item makes nobody look again', async () => {
    const { store, query, prepared } = await inFlight({ ...record, item_key: null });
    expect(await settleFailure(query, prepared, REFUSED, { ...CONTEXT, outage: false, atFault: false })).toBe('held');
    expect(await inboxOf(store)).toEqual([]);
  });

  it('of which nobody knows whether it made a task is settled by a list that is asked for late enough', async () => {
    const { query, prepared } = await inFlight(newTask);
    await settleFailure(query, prepared, LOST, { ...CONTEXT, outage: false, atFault: false });
    expect(await findChange(query, entityName.readTasks)).toMatchObject({
      ...{ state: 'pending', lane: 'triage', since: NOW, due: NOW + 2_400, not_before: NOW + SETTLE_AFTER },
    });
  });
});

describe('a read that failed', () => {
  const PAGE_GONE = failed('refused', 400, 'invalid_request');
  it.each<[what: string, entity: string, sent: object | null, error: SyncError, left: object | undefined]>([
    ['without an answer', entityName.readTasks, null, LOST, { state: 'pending', sent: '{}', attempts: 5 }],
    ['refused', entityName.readTasks, null, REFUSED, { state: 'pending', sent: '{}', attempts: 5 }],
    ['of a page', entityName.readPullRequests, { cursor: 'c' }, LOST, { sent: '{"cursor":"c"}', attempts: 5 }],
    ['of a page that is refused', entityName.readPullRequests, { cursor: 'c' }, PAGE_GONE, { sent: '{"restarts":1}' }],
    ['of a page for the third time', entityName.readTasks, { cursor: 'c', restarts: 2 }, PAGE_GONE, undefined],
    ['of links of a task that is not there', entityName.readLinks('t1'), null, ABSENT, undefined],
    ['of a document that is not there', entityName.readDocument('d1'), null, ABSENT, undefined],
    ['of one task that is not there', entityName.readTask('t1'), null, ABSENT, undefined],
    ['of one task, refused by something in front', entityName.readTask('t1'), null, failed('refused', 404), undefined],
    ['of one task, without an answer', entityName.readTask('t1'), null, LOST, { state: 'pending' }],
    ['of tasks that are not there', entityName.readTasks, null, ABSENT, { state: 'pending' }],
  ])('%s', async (_what, entity, sent, error, left) => {
    const { query, prepared } = await readInFlight(entity, { sent: sent && JSON.stringify(sent), attempts: 4 });
    const outcome = await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: true });
    expect(outcome).toBe(left ? 'again' : 'settled');
    const row = await findChange(query, entity);
    if (left) expect(row).toMatchObject(left);
    else expect(row).toBeUndefined();
  });

  it.each([
    [entityName.readLinks('t1'), { workItems: [] }],
    [entityName.readDocument('d1'), null],
    [entityName.readTask('t1'), null],
  ])('%s of what is not there says that there is none', async (entity, body) => {
    const { store, query, prepared } = await readInFlight(entity);
    // Another read of the kind succeeded lately: so this refusal concerns this one thing.
    for (const route of ['listWorkItems', 'getDocument', 'getTask'] as const)
      await noteRouteAnswered(query, route, NOW);
    await settleFailure(query, prepared, ABSENT, { ...CONTEXT, outage: false, atFault: false });
    expect((await inboxOf(store)).map((row) => JSON.parse(row.body ?? '').body)).toEqual([body]);
  });
});

test.each<[status: number | undefined, errorCode: string | undefined, isTheirs: boolean]>([
  [400, 'validation_failed', true],
  [499, 'validation_failed', true],
  [500, 'internal', false],
  [400, undefined, false],
  [undefined, 'internal', false],
])('an answer with status %s and code %s is the word of the workspace itself: %s', (status, errorCode, isTheirs) => {
  expect(isWorkspaceRefusal(failed('refused', status, errorCode))).toBe(isTheirs);
});

test('an error is remembered by its first 500 characters', async () => {
  const { query, prepared } = await inFlight(link);
  const error = new SyncError('server_failed', 'x'.repeat(600), { status: 500 });
  await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: false });
  expect((await findChange(query, LINK))?.error).toBe(`server_failed: ${'x'.repeat(485)}`);
});

test.each([0, 40_000])('what was in flight when the process died, untouched for %d ms more', async (untouched) => {
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
});
