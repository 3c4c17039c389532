import { describe, expect, it, test } from 'vitest';
import { entity as entityName, SETTLE_AFTER } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { type EntityRow, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { TASKS_READ, writeMeta } from '../../../../src/store/meta.ts';
import { findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import {
  noteRouteAnswered,
  noteRouteRefused,
  readRecordsRoute,
  routeOffUntil,
} from '../../../../src/store/server-capabilities.ts';
import { writeServerFact } from '../../../../src/store/server-facts.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { MAX_BLOCK } from '../../../../src/sync/outbox/claim.ts';
import type { FailureContext } from '../../../../src/sync/outbox/refusals.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { inboxOf } from '../../../support/harness/intake.ts';
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
  TASK,
  take,
  UNREACHABLE,
} from '../../../support/rows/in-flight.ts';

const FAILING = { ...CONTEXT, outage: false, atFault: false };
const AT_FAULT = { atFault: true };
const OUTAGE = { outage: true };
const RECORDS = entityName.readPullRequests;
const LINKS = entityName.readLinks('t1');
const refuse = async (query: Scope, error: SyncError, now = NOW) =>
  settleFailure(query, await take(query), error, { ...FAILING, now });

/** Whether the outcome of the change's request is unknown. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

type Columns = Partial<OutboxRow> & { readonly open?: boolean };
const again = (columns: Columns = {}) => ['again', { state: 'pending', sent_at: null, ...columns }] as const;
const held = (columns: Columns = {}) => ['held', { state: 'held', ...columns }] as const;
const unknown = (columns: Columns) => ['unknown', { state: 'unknown', ...columns }] as const;
const dueIn = (ms: number) => ({ not_before: NOW + ms });

type Case = [
  what: string,
  row: EntityRow,
  error: SyncError,
  cause: Partial<Pick<FailureContext, 'outage' | 'atFault' | 'othersAnswered'>> & { readonly attempts?: number },
  expected: readonly [outcome: string, change: Columns],
];

describe('a failed write', () => {
  it.each<Case>([
    ['link without an answer', link, LOST, {}, again({ open: true, attempts: 1, ...dueIn(2_000) })],
    ['link after a failure of the server', link, failed('server_failed', 500, 'internal'), {}, again({ open: true })],
    ['link with a malformed answer', link, failed('answer_malformed', 201), {}, again({ open: true })],
    ['link with an answer too large', link, failed('answer_too_large', 200), {}, again({ open: true })],
    ['link with a rate limit', link, LIMITED, {}, again({ open: false, attempts: 0, ...dueIn(0) })],
    ['link that was refused', link, REFUSED, {}, held({ open: false, attempts: 0, sent_at: null })],
    ['link that was never sent', link, NEVER_SENT, {}, held({ open: false })],
    ['link that a proxy refused', link, ABSENT_ROUTE, {}, again({ open: false })],
    ['link to a missing task', link, ABSENT, {}, held()],
    ['removal that a proxy refused', removal, ABSENT_ROUTE, {}, again({ open: false })],
    ['link in a full workspace', link, FULL, {}, again({ open: false, attempts: 1 })],
    ['task in a full workspace', newTask, FULL, {}, again({ open: false, attempts: 1 })],
    [
      'fifth attempt in a full workspace',
      link,
      FULL,
      { attempts: 4, ...AT_FAULT },
      again({ attempts: 4, ...dueIn(30_000) }),
    ],
    ['task without an answer', newTask, LOST, {}, unknown(dueIn(SETTLE_AFTER))],
    ['task that was refused', newTask, REFUSED, {}, held()],
    ['task with a rate limit', newTask, LIMITED, {}, again({ open: false, attempts: 0 })],
    ['second failure', link, LOST, { attempts: 1 }, again({ attempts: 2, ...dueIn(4_000) })],
    ['third failure', link, LOST, { attempts: 2 }, again({ attempts: 3, ...dueIn(30_000) })],
    ['fourth failure, at fault', link, LOST, { attempts: 3, ...AT_FAULT }, again({ attempts: 4 })],
    ['fifth failure, at fault', link, LOST, { attempts: 4, ...AT_FAULT }, held({ attempts: 5, open: true })],
    ['fifth failure, perhaps not at fault', link, LOST, { attempts: 4 }, again({ attempts: 5 })],
    [
      'seventh, while reads succeed',
      link,
      LOST,
      { attempts: 6, othersAnswered: true },
      again({ attempts: 7, ...dueIn(120_000) }),
    ],
    ['seventh, while nothing succeeds', link, LOST, { attempts: 6 }, again({ attempts: 7, ...dueIn(30_000) })],
    ['failure in an outage', link, LOST, { attempts: 2, ...OUTAGE }, again({ attempts: 2, ...dueIn(0) })],
    ['third attempt that was not sent', link, UNREACHABLE, { attempts: 2 }, again({ attempts: 3, ...dueIn(30_000) })],
    ['fourth attempt that was not sent', link, UNREACHABLE, { attempts: 3 }, again({ attempts: 3, ...dueIn(30_000) })],
    ['fifth attempt that was not sent', link, UNREACHABLE, { attempts: 4, ...AT_FAULT }, again({ attempts: 4 })],
    ['fifth failure, at fault in an outage', link, LOST, { attempts: 4, ...OUTAGE, ...AT_FAULT }, held()],
  ])('%s', async (_what, row, error, { attempts = 0, ...cause }, [outcome, change]) => {
    const { store, query, prepared } = await inFlight(row, { attempts });
    expect(await settleFailure(query, prepared, error, { ...FAILING, ...cause })).toBe(outcome);
    const { open, ...columns } = change;
    expect(await findChange(query, row.entity)).toMatchObject({ ...columns, error: `${error.code}: why` });
    if (open !== undefined) expect(await isOpen(query, row.entity)).toBe(open);
    // A notice may wait for a change that is held now.
    const evaluations = (await inboxOf(store)).filter(({ event }) => event === 'look-again');
    expect(evaluations.map(({ body }) => JSON.parse(body ?? '').entity)).toEqual(outcome === 'held' ? [ITEM] : []);
  });

  it('keeps its unknown outcome through later failures', async () => {
    const { query, prepared } = await inFlight(link);
    for (const error of [LOST, LIMITED, ABSENT_ROUTE]) {
      await settleFailure(query, prepared, error, FAILING);
      expect(await isOpen(query, LINK)).toBe(true);
      Object.assign(prepared, { open: true });
    }
  });

  it('is pending again if its desired state changed before the refusal', async () => {
    const { store, query, prepared } = await inFlight(record, { attempts: 3 });
    await changeMeanwhile(query, { ...record, desired: '{"a":2}' }, 1_500);
    expect(await settleFailure(query, prepared, REFUSED, { ...CONTEXT, outage: false, atFault: true })).toBe('again');
    expect(await findChange(query, RECORD)).toMatchObject({ state: 'pending', attempts: 0, next_since: null });
    expect(await inboxOf(store)).toEqual([]);
  });

  it('without an item requests no evaluation', async () => {
    const { store, query, prepared } = await inFlight({ ...record, item_key: null });
    expect(await settleFailure(query, prepared, REFUSED, FAILING)).toBe('held');
    expect(await inboxOf(store)).toEqual([]);
  });

  it('with an unknown creation requests a list of the tasks after SETTLE_AFTER', async () => {
    const { query, prepared } = await inFlight(newTask);
    await settleFailure(query, prepared, LOST, FAILING);
    expect(await findChange(query, entityName.readTasks)).toMatchObject({
      ...{ state: 'pending', lane: 'triage', since: NOW, due: NOW + 2_400, not_before: NOW + SETTLE_AFTER },
    });
  });
});

describe('a failed read', () => {
  const PAGE_GONE = failed('refused', 400, 'invalid_request');
  it.each<[what: string, entity: string, sent: object | null, error: SyncError, left: object | undefined]>([
    ['without an answer', entityName.readTasks, null, LOST, { state: 'pending', sent: '{}', attempts: 5 }],
    ['refused', entityName.readTasks, null, REFUSED, { state: 'pending', sent: '{}', attempts: 5 }],
    ['of a page', entityName.readPullRequests, { cursor: 'c' }, LOST, { sent: '{"cursor":"c"}', attempts: 5 }],
    ['of a refused page', entityName.readPullRequests, { cursor: 'c' }, PAGE_GONE, { sent: '{"restarts":1}' }],
    [
      'of a page that is refused for the third time',
      entityName.readTasks,
      { cursor: 'c', restarts: 2 },
      PAGE_GONE,
      undefined,
    ],
    ['of links of a missing task', entityName.readLinks('t1'), null, ABSENT, undefined],
    ['of a missing document', entityName.readDocument('d1'), null, ABSENT, undefined],
    ['of a missing task', entityName.readTask('t1'), null, ABSENT, undefined],
    ['of one task, refused by a proxy', entityName.readTask('t1'), null, failed('refused', 404), undefined],
    ['of one task, without an answer', entityName.readTask('t1'), null, LOST, { state: 'pending' }],
    ['of the tasks, answered with 404', entityName.readTasks, null, ABSENT, { state: 'pending' }],
  ])('%s', async (_what, entity, sent, error, left) => {
    const { query, prepared } = await readInFlight(entity, {
      sent: sent && JSON.stringify(sent),
      attempts: 4,
      awaits: 'check',
    });
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
  ])('%s of a missing thing is settled by an empty answer', async (entity, body) => {
    const { store, query, prepared } = await readInFlight(entity);
    // Another read of this kind succeeded recently, so this refusal concerns this one thing.
    for (const route of ['listWorkItems', 'getDocument', 'getTask'] as const)
      await noteRouteAnswered(query, route, NOW);
    await settleFailure(query, prepared, ABSENT, FAILING);
    expect((await inboxOf(store)).map((row) => JSON.parse(row.body ?? '').body)).toEqual([body]);
  });
});

test('stores the first 500 characters of an error', async () => {
  const { query, prepared } = await inFlight(link);
  const error = new SyncError('server_failed', 'x'.repeat(600), { status: 500 });
  await settleFailure(query, prepared, error, FAILING);
  expect((await findChange(query, LINK))?.error).toBe(`server_failed: ${'x'.repeat(485)}`);
});

describe('a refused list of records', () => {
  it.each<[what: string, error: SyncError, state: string]>([
    ['404 by the workspace', ABSENT, 'closed'],
    ['403 by the workspace', failed('forbidden', 403, 'forbidden'), 'closed'],
    ['501 by the workspace', failed('server_failed', 501, 'not_implemented'), 'closed'],
    ['409 by the workspace', failed('conflict', 409, 'conflict'), 'unknown'],
    ['412 by the workspace', failed('conflict', 412, 'precondition_failed'), 'unknown'],
    ['404 as HTML of a proxy', ABSENT_ROUTE, 'unknown'],
    ['401', failed('unauthorized', 401, 'unauthorized'), 'unknown'],
    ['503', failed('server_failed', 503, 'internal'), 'unknown'],
    ['no answer', LOST, 'unknown'],
  ])('with %s leaves the route %s', async (_what, error, state) => {
    const { query, prepared } = await readInFlight(RECORDS);
    await writeMeta(query, TASKS_READ, '1');
    await differs(query, record);
    const outcome = await settleFailure(query, prepared, error, FAILING);
    expect((await readRecordsRoute(query)).state).toBe(state);
    const isClosed = state === 'closed';
    expect([outcome === 'settled', (await findChange(query, RECORDS)) === undefined]).toEqual([isClosed, isClosed]);
    // Pending records are dropped only if they can never be sent.
    expect((await findChange(query, RECORD)) === undefined).toBe(isClosed);
  });

  it('with 403 before the tasks were read shows nothing about the route', async () => {
    const { query, prepared } = await readInFlight(RECORDS);
    await settleFailure(query, prepared, failed('forbidden', 403, 'forbidden'), FAILING);
    expect((await readRecordsRoute(query)).state).toBe('unknown');
    expect(await findChange(query, entityName.readTasks)).toBeDefined();
  });
});

test('three records in a row refused with 404 close the route and drop all pending records', async () => {
  const { query, prepared } = await inFlight(record);
  await writeServerFact(query, 'records', { state: 'open', since: 0 });
  await differs(query, { ...record, entity: `${RECORD}1` });
  await differs(query, { ...record, entity: `${RECORD}2` });
  await differs(query, { ...record, entity: `${RECORD}3` });
  expect(await settleFailure(query, prepared, ABSENT, FAILING)).toBe('held');
  expect(await refuse(query, ABSENT)).toBe('held');
  expect((await readRecordsRoute(query)).state).toBe('open');
  expect(await refuse(query, ABSENT)).toBe('settled');
  expect((await readRecordsRoute(query)).state).toBe('closed');
  expect(await query.selectFrom('outbox').select('entity').execute()).toEqual([]);
});

describe('a refused link', () => {
  const CONFLICT = failed('conflict', 409, 'conflict');
  it.each([
    ['an addition with 409', link, CONFLICT],
    ['a removal with 404', removal, ABSENT],
  ])(
    '%s after four failures requests a read of the links, and is held at the next refusal',
    async (_what, row, error) => {
      const { query, prepared } = await inFlight(row, { attempts: 4 });
      expect(await settleFailure(query, prepared, error, FAILING)).toBe('again');
      expect(await findChange(query, LINK)).toMatchObject({
        state: 'pending',
        attempts: 5,
        awaits: 'check',
        not_before: NOW + MAX_BLOCK,
      });
      expect(await findChange(query, LINKS)).toMatchObject({ state: 'pending', not_before: 0 });
      expect(await settleFailure(query, { ...prepared, isChecked: true }, error, FAILING)).toBe('held');
    },
  );

  it('is settled after an unknown outcome if the link became known meanwhile', async () => {
    const { query, prepared } = await inFlight(link);
    await saveEntity(query, { ...link, known: '{"url":"u"}' });
    const repeated = { ...prepared, isChecked: true, open: true };
    expect(await settleFailure(query, repeated, CONFLICT, FAILING)).toBe('settled');
    expect(await findChange(query, LINK)).toBeUndefined();
    expect(await findEntity(query, LINK)).toMatchObject({ known: link.desired, hand: null, remote_id: null });
  });

  it('settles the removal of a missing link if links cannot be read', async () => {
    const { query, prepared } = await inFlight(removal);
    for (const resource of ['a', 'b']) await noteRouteRefused(query, 'listWorkItems', { status: 405, resource }, NOW);
    expect(await settleFailure(query, prepared, ABSENT, FAILING)).toBe('settled');
    expect(await findChange(query, LINK)).toBeUndefined();
    expect(await findChange(query, LINKS)).toBeUndefined();
  });

  it('of a proxy in front of the workspace requests a read too', async () => {
    const { query, prepared } = await inFlight(removal);
    await settleFailure(query, prepared, ABSENT_ROUTE, FAILING);
    expect(await findChange(query, LINKS)).toMatchObject({ state: 'pending' });
  });
});

describe('a refused read of the links of a task', () => {
  it('for two tasks switches the route off and delays the links that wait for it', async () => {
    const { query, prepared } = await readInFlight(LINKS);
    const METHOD = failed('refused', 400, 'validation_failed');
    expect(await settleFailure(query, prepared, METHOD, FAILING)).toBe('again');
    expect(await routeOffUntil(query, 'listWorkItems', NOW)).toBeUndefined();
    await waits(query, entityName.readLinks('t2'), { kind: 'read' });
    expect(await refuse(query, METHOD)).toBe('settled');
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
    const error = failed('refused', 400, 'validation_failed');
    expect(await settleFailure(query, prepared, error, FAILING)).toBe('again');
    await settleFailure(query, { ...prepared, isChecked: true }, error, FAILING);
    expect(await findChange(query, LINKS)).toBeUndefined();
    expect(await findChange(query, LINK)).toMatchObject({ state: 'held', error: 'refused: why' });
    expect(await findChange(query, pausing.entity)).toMatchObject({ state: 'pending', error: null });
  });
});

describe.each([409, 412])('a conflict with %i', (status) => {
  it.each([
    ['a record', record],
    ['the removal of a link', removal],
    ['the attachment of a document', attachment],
  ])('of %s is repeated with pauses, and held after five in a row', async (_what, row) => {
    const { query, prepared } = await inFlight(row, { attempts: 4 });
    const conflict = failed('conflict', status, 'conflict');
    expect(await settleFailure(query, prepared, conflict, FAILING)).toBe('again');
    expect(await findChange(query, row.entity)).toMatchObject({ attempts: 1, not_before: NOW + 2_000 });
    const last = { ...prepared, isConflicted: true };
    expect(await settleFailure(query, last, conflict, FAILING)).toBe('held');
  });
});

describe('a refused creation', () => {
  const BODY = { title: 'a', description: 'b', labels: ['ui'], priority: 'p1' };
  const INVALID = failed('refused', 400, 'validation_failed');
  const task = { ...newTask, desired: JSON.stringify(BODY) };

  it('is repeated without the optional fields, and held if it is refused again', async () => {
    const { query, prepared } = await inFlight(task);
    expect(prepared.body).toEqual(BODY);
    expect(await settleFailure(query, prepared, INVALID, FAILING)).toBe('again');
    expect(await findChange(query, TASK)).toMatchObject({
      ...{ state: 'pending', attempts: 0, sent: null },
      error: 'refused: why; sent again without labels, priority',
    });
    await query.updateTable('outbox').set({ not_before: 0 }).execute();
    const again = await take(query);
    expect(again.body).toEqual({ title: 'a', description: 'b' });
    expect(await settleFailure(query, again, INVALID, FAILING)).toBe('held');
    expect(await findChange(query, TASK)).toMatchObject({ state: 'held', error: 'refused: why' });
  });

  it('is checked in a list of the tasks after 409, and repeated without fields only then', async () => {
    const { query, prepared } = await inFlight(task);
    const conflict = failed('conflict', 409, 'conflict');
    expect(await settleFailure(query, prepared, conflict, FAILING)).toBe('again');
    expect(await findChange(query, TASK)).toMatchObject({ awaits: 'check', error: 'conflict: why' });
    expect(await findChange(query, entityName.readTasks)).toMatchObject({ state: 'pending' });
    expect(await settleFailure(query, { ...prepared, isChecked: true }, conflict, FAILING)).toBe('again');
    expect((await findChange(query, TASK))?.error).toBe('conflict: why; sent again without labels, priority');
  });

  it.each([
    ['with 403', failed('forbidden', 403, 'forbidden')],
    ['with 413', failed('refused', 413, 'payload_too_large')],
  ])('%s shows nothing about its fields', async (_what, error) => {
    const { query, prepared } = await inFlight(task);
    await settleFailure(query, prepared, error, FAILING);
    expect((await findChange(query, TASK))?.error).not.toContain('sent again without');
  });

  it('allows the next creation', async () => {
    const { query, prepared } = await inFlight(task);
    await differs(query, { ...task, entity: `${TASK}2` }, { not_before: NOW + 1 });
    await settleFailure(query, prepared, failed('refused', 422, 'validation_failed'), FAILING);
    expect(await findChange(query, `${TASK}2`)).toMatchObject({ state: 'pending', not_before: 0 });
  });
});

test('a refused read of a task is settled by an empty answer, which requests the list of tasks', async () => {
  const { store, query, prepared } = await readInFlight(entityName.readTask('t1'));
  expect(await settleFailure(query, prepared, ABSENT_ROUTE, FAILING)).toBe('settled');
  expect((await inboxOf(store)).map(({ body }) => JSON.parse(body ?? '').body)).toEqual([null]);
});

test('a refused page with a limit ends the list as incomplete', async () => {
  const { store, query, prepared } = await readInFlight(entityName.readTasks);
  const tasks = Array.from({ length: 50 }, (_, index) => ({ taskId: `t${index}` }));
  await settle(query, prepared, { tasks }, CONTEXT);
  expect(await refuse(query, failed('refused', 400, 'validation_failed'))).toBe('settled');
  const pages = (await inboxOf(store)).map(({ body }) => JSON.parse(body ?? '').page);
  expect(pages.at(-1)).toMatchObject({ isEnd: true, isComplete: false });
});
