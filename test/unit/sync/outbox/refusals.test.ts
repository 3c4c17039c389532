import { describe, expect, it, test } from 'vitest';
import { entity as entityName } from '../../../../src/model/change.ts';
import type { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { TASKS_READ, writeMeta } from '../../../../src/store/meta.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import { noteRouteRefused, readRecordsRoute, routeOffUntil } from '../../../../src/store/server-capabilities.ts';
import { writeServerFact } from '../../../../src/store/server-facts.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { MAX_BLOCK } from '../../../../src/sync/outbox/claim.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { inboxOf } from '../../../support/harness/intake.ts';
import { differs, waits } from '../../../support/rows/changes.ts';
import {
  ABSENT,
  ABSENT_ROUTE,
  attachment,
  CONTEXT,
  failed,
  inFlight,
  LINK,
  LOST,
  link,
  NOW,
  newTask,
  RECORD,
  readInFlight,
  record,
  removal,
  TASK,
  take,
} from '../../../support/rows/in-flight.ts';

const FAILING = { ...CONTEXT, outage: false, atFault: false };
const RECORDS = entityName.readPullRequests;
const LINKS = entityName.readLinks('t1');
const refuse = async (query: Scope, error: SyncError, now = NOW) =>
  settleFailure(query, await take(query), error, { ...FAILING, now });

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

describe('a refused page', () => {
  const page = (length: number, more: object = {}) => ({
    tasks: Array.from({ length }, (_, index) => ({ taskId: `t${index}` })),
    ...more,
  });
  const pagesIn = async (store: Parameters<typeof inboxOf>[0]) =>
    (await inboxOf(store)).map(({ body }) => JSON.parse(body ?? '').page);

  it('with a limit ends the list as incomplete', async () => {
    const { store, query, prepared } = await readInFlight(entityName.readTasks);
    await settle(query, prepared, page(50), CONTEXT);
    expect(await refuse(query, failed('refused', 400, 'validation_failed'))).toBe('settled');
    expect((await pagesIn(store)).at(-1)).toMatchObject({ isEnd: true, isComplete: false });
  });
});
