import { describe, expect, it, test } from 'vitest';
import { entity as entityName, SETTLE_AFTER } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { EntityRow } from '../../../../src/store/entities.ts';
import { findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { noteRouteAnswered } from '../../../../src/store/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import type { FailureContext } from '../../../../src/sync/outbox/refusals.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { inboxOf } from '../../../support/harness/intake.ts';
import {
  ABSENT,
  ABSENT_ROUTE,
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
  UNREACHABLE,
} from '../../../support/rows/in-flight.ts';

const AT_FAULT = { atFault: true };
const OUTAGE = { outage: true };

/** Whether the outcome of the change's request is unknown. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

type Case = [
  what: string,
  row: EntityRow,
  error: SyncError,
  cause: Partial<Pick<FailureContext, 'outage' | 'atFault' | 'othersAnswered'>> & { attempts?: number },
  outcome: string,
  change: (Partial<OutboxRow> & { open?: boolean }) | undefined,
];

describe('a failed write', () => {
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
    ['link with a malformed answer', link, failed('answer_malformed', 201), {}, 'again', { open: true }],
    ['link with an answer too large', link, failed('answer_too_large', 200), {}, 'again', { open: true }],
    ['link with a rate limit', link, LIMITED, {}, 'again', { ...waiting, open: false, attempts: 0, not_before: NOW }],
    ['link that was refused', link, REFUSED, {}, 'held', { state: 'held', open: false, attempts: 0, sent_at: null }],
    ['link that was never sent', link, NEVER_SENT, {}, 'held', { state: 'held', open: false }],
    ['link that a proxy refused', link, ABSENT_ROUTE, {}, 'again', { ...waiting, open: false }],
    ['link to a missing task', link, ABSENT, {}, 'held', { state: 'held' }],
    ['removal that a proxy refused', removal, ABSENT_ROUTE, {}, 'again', { ...waiting, open: false }],
    ['link in a full workspace', link, FULL, {}, 'again', { ...waiting, open: false, attempts: 1 }],
    ['task in a full workspace', newTask, FULL, {}, 'again', { ...waiting, open: false, attempts: 1 }],
    [
      'fifth attempt in a full workspace, while reads succeed',
      link,
      FULL,
      { attempts: 4, ...AT_FAULT },
      'again',
      { ...waiting, attempts: 4, not_before: NOW + 30_000 },
    ],
    ['task without an answer', newTask, LOST, {}, 'unknown', { state: 'unknown', not_before: NOW + SETTLE_AFTER }],
    ['task that was refused', newTask, REFUSED, {}, 'held', { state: 'held' }],
    ['task with a rate limit', newTask, LIMITED, {}, 'again', { ...waiting, open: false, attempts: 0 }],
    ['second failure', link, LOST, { attempts: 1 }, 'again', { attempts: 2, not_before: NOW + 4_000 }],
    ['third failure', link, LOST, { attempts: 2 }, 'again', { attempts: 3, not_before: NOW + 30_000 }],
    ['fourth failure, at fault', link, LOST, { attempts: 3, ...AT_FAULT }, 'again', { ...waiting, attempts: 4 }],
    [
      'fifth failure, at fault',
      link,
      LOST,
      { attempts: 4, ...AT_FAULT },
      'held',
      { state: 'held', attempts: 5, open: true },
    ],
    ['fifth failure, perhaps not at fault', link, LOST, { attempts: 4 }, 'again', { ...waiting, attempts: 5 }],
    [
      'seventh failure, while only reads succeed',
      link,
      LOST,
      { attempts: 6, othersAnswered: true },
      'again',
      { ...waiting, attempts: 7, not_before: NOW + 120_000 },
    ],
    ['failure in an outage', link, LOST, { attempts: 2, ...OUTAGE }, 'again', { attempts: 2, not_before: NOW }],
    [
      'fifth attempt that was not sent',
      link,
      UNREACHABLE,
      { attempts: 4, ...AT_FAULT },
      'again',
      { ...waiting, attempts: 4 },
    ],
    [
      'third attempt that was not sent',
      link,
      UNREACHABLE,
      { attempts: 2 },
      'again',
      { attempts: 3, not_before: NOW + 30_000 },
    ],
    [
      'fourth attempt that was not sent',
      link,
      UNREACHABLE,
      { attempts: 3 },
      'again',
      { attempts: 3, not_before: NOW + 30_000 },
    ],
    [
      'fifth failure, at fault in an outage',
      link,
      LOST,
      { attempts: 4, ...OUTAGE, ...AT_FAULT },
      'held',
      { state: 'held' },
    ],
  ])(
    '%s',
    async (_what, row, error, {
      attempts = 0,
      outage = false,
      atFault = false,
      othersAnswered = false,
    }, outcome, change) => {
      const { store, query, prepared } = await inFlight(row, { attempts });
      expect(await settleFailure(query, prepared, error, { ...CONTEXT, outage, atFault, othersAnswered })).toBe(
        outcome,
      );
      const left = await findChange(query, row.entity);
      if (!change) return expect(left).toBeUndefined();
      const { open, ...columns } = change;
      expect(left).toMatchObject({ ...columns, error: `${error.code}: why` });
      if (open !== undefined) expect(await isOpen(query, row.entity)).toBe(open);
      // A notice may wait for a change that is held now.
      const evaluations = (await inboxOf(store)).filter(({ event }) => event === 'look-again');
      expect(evaluations.map(({ body }) => JSON.parse(body ?? '').entity)).toEqual(outcome === 'held' ? [ITEM] : []);
    },
  );

  it('keeps its unknown outcome through later failures', async () => {
    const { query, prepared } = await inFlight(link);
    for (const error of [LOST, LIMITED, ABSENT_ROUTE]) {
      await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: false });
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
    expect(await settleFailure(query, prepared, REFUSED, { ...CONTEXT, outage: false, atFault: false })).toBe('held');
    expect(await inboxOf(store)).toEqual([]);
  });

  it('with an unknown creation requests a list of the tasks after SETTLE_AFTER', async () => {
    const { query, prepared } = await inFlight(newTask);
    await settleFailure(query, prepared, LOST, { ...CONTEXT, outage: false, atFault: false });
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
    await settleFailure(query, prepared, ABSENT, { ...CONTEXT, outage: false, atFault: false });
    expect((await inboxOf(store)).map((row) => JSON.parse(row.body ?? '').body)).toEqual([body]);
  });
});

test('stores the first 500 characters of an error', async () => {
  const { query, prepared } = await inFlight(link);
  const error = new SyncError('server_failed', 'x'.repeat(600), { status: 500 });
  await settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: false });
  expect((await findChange(query, LINK))?.error).toBe(`server_failed: ${'x'.repeat(485)}`);
});
