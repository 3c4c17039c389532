import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import { forgetTasks, saveTask } from '../../../src/store/cached-tasks.ts';
import { forgetOtherSweeps, recordSweep, recordSweepFailure } from '../../../src/store/connection-sweeps.ts';
import { deleteDeliveries, purgeBodies } from '../../../src/store/deletions.ts';
import { blankEntity, forgetEntity, saveEntity } from '../../../src/store/entities.ts';
import { applyGuard, releaseHeld } from '../../../src/store/held-changes.ts';
import { countAttempt, quarantineParts, retryQuarantined, settleDeliveries } from '../../../src/store/inbox.ts';
import { saveItemNames, saveMentions } from '../../../src/store/item-names.ts';
import { saveItem } from '../../../src/store/items.ts';
import { jobRuns } from '../../../src/store/job-runs.ts';
import {
  localTime,
  register,
  releaseLeases,
  takeLeases,
  unregister,
  updateReplica,
} from '../../../src/store/leases.ts';
import { addLedgerRow, endLedgerRow, forgetLedgerRows } from '../../../src/store/ledger.ts';
import { markAllUnverified } from '../../../src/store/mark-unverified.ts';
import { recordTriageStarts, setTriagedConnections, writeMeta } from '../../../src/store/meta.ts';
import { addDifference, dropDifference, expedite, updateChange } from '../../../src/store/outbox-rows.ts';
import { clearFailures, recordPollFailure, savePollState } from '../../../src/store/poll-states.ts';
import { addRequest, deleteRequests } from '../../../src/store/requests.ts';
import { loadNames, restartUnits, saveName } from '../../../src/store/scope-names.ts';
import {
  delayCreations,
  markTasksUnverified,
  markTasksVerified,
  resumeCreations,
} from '../../../src/store/task-creations.ts';
import { beginUnitOfWork, flushRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { dropOrphanFetches, postponeFetch, requestFetch } from '../../../src/store/wanted-fetches.ts';
import { enqueueInitialReads, enqueueReads } from '../../../src/store/workspace-reads.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { addFindings, beginSweep, noteListed } from '../../../src/store/workspace-sweeps.ts';
import { wrongWhereStatementsFail } from '../../support/faults/each-statement-fails.ts';
import { itemRow } from '../../support/rows/items.ts';

const NOW = 1_000_000;
const LINK = entity.link('k', 't1');
const CHANGE = { entity: LINK, kind: 'link', lane: 'link', since: 1, due: 1, weight: 1, waiting: [] } as const;
const UNIT = { connection: 'code', unit: 'one' };
const DELIVERY = { connection: 'code', source: 'webhook', event: 'e', body: Buffer.from('{}') } as const;
const PAGE = { page: { ...DELIVERY, receivedAt: 1 }, parts: [{ content: 'c', body: Buffer.from('[]'), reason: 'no' }] };
const LEDGER = { boot: 'boot', lane: 'read', caller: 'daemon', started: 1 } as const;
const REQUEST: Parameters<typeof addRequest>[1] = {
  ...{ entity: LINK, kind: 'link', item_key: 'k', task_id: 't1', action: 'add-link', lane: 'link', since: 1, due: 1 },
  ...{ asked_at: 1, slot_at: 1, sent_at: 1, completed_at: 1, status: 201, error: null, outcome: 'answered' },
  ...{ attempt: 1, deliveries: '[]', answer: null },
};
const REPLICA = { id: 'a', incarnation: 'a', address: 'http://a', about: '{}' };
const FETCH = {
  reference: { kind: 'work_item', key: 'k', locator: {} },
  connection: 'tracker',
  deliveryId: 1,
} as const;
const NAMES = { names: [{ name: 'ENG-9', place: null, container: null }], former: [], now: 1 };
const TASK = { taskId: 't1', key: 'BUG-1', title: '', status: 'open', source: 'api', createdAt: '', updatedAt: '' };

/** Adds rows that the writes below change. */
async function fill(query: Scope): Promise<void> {
  await appendDeliveries(
    query,
    [1, 2].map((key) => ({ ...DELIVERY, key: `${key}` })),
    1,
  );
  await settleDeliveries(query, [{ id: 1, state: 'quarantined', reason: 'over_budget: much' }], 1);
  await saveTask(query, TASK, 1);
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: 'k', task_id: 't1' }));
  await addDifference(query, CHANGE);
  await addDifference(query, { ...CHANGE, entity: entity.task('k'), kind: 'task', lane: 'triage' });
  await recordSweep(query, UNIT, { at: 1, listed: 1, asked: 1 });
  await recordPollFailure(query, UNIT.connection, '*', 'no', 1);
  await addLedgerRow(query, { ...LEDGER, id: 1 });
  await writeMeta(query, 'triage.since.tracker', '1');
}

/** One write of each part of the store. */
const WRITES: readonly ((query: Scope) => Promise<unknown>)[] = [
  (query) => appendDeliveries(query, [{ ...DELIVERY, key: 'c' }], NOW),
  (query) => settleDeliveries(query, [{ id: 2, state: 'ignored', reason: 'x' }], NOW),
  (query) => quarantineParts(query, [PAGE], NOW),
  (query) => saveItem(query, itemRow('k'), 1),
  (query) => saveItemNames(query, 'k', NAMES),
  (query) => saveMentions(query, 'k', [{ name: 'BUG-9', reason: {} }], 1),
  (query) => addDifference(query, { ...CHANGE, weight: 2 }),
  (query) => expedite(query, [LINK]),
  (query) => applyGuard(query, 'creation', 1, 'no'),
  (query) => delayCreations(query, ['k'], NOW),
  (query) => resumeCreations(query, NOW, NOW),
  (query) => markTasksUnverified(query, NOW),
  (query) => enqueueInitialReads(query, NOW, true),
  (query) => setTriagedConnections(query, ['code'], NOW),
  (query) => requestFetch(query, { ...FETCH, now: NOW }),
  (query) => saveName(query, 'code', { entry: 'acme', id: '1', called: 'acme', elsewhere: null, askedAt: null }),
  (query) => restartUnits(query, 'code', ['one'], { now: NOW, reason: 'scope_rebound: bound again' }),
  (query) => endLedgerRow(query, 1, 5, 200),
  (query) => addRequest(query, REQUEST),
  (query) => beginSweep(query, NOW),
  (query) => noteListed(query, ['two']),
  (query) => addFindings(query, [{ what: 'task-changed', entity: 'two' }], NOW),
  (query) => countAttempt(query, [1]),
  (query) => purgeBodies(query, NOW, 9),
  (query) => deleteDeliveries(query, NOW, 9),
  (query) => deleteRequests(query, NOW, 9),
  (query) => markTasksVerified(query, NOW),
  (query) => enqueueReads(query, [entity.readTasks, entity.readLinks('t1')], NOW),
  ({ whole, workspace }) => recordTriageStarts(whole, [{ workspace, connections: ['code'] }], NOW),
  (query) => postponeFetch(query, { ...FETCH, key: JSON.stringify(FETCH.reference), asks: 1 }, 'no', NOW),
  (query) => dropOrphanFetches(query, ['code']),
  (query) => recordSweepFailure(query, UNIT, 'no', NOW),
  (query) => forgetOtherSweeps(query, 'code', ['two']),
  (query) => savePollState(query, 'code', 'one', { watermark: 'w' }, NOW),
  (query) => clearFailures(query, 'code', ['one']),
  (query) => loadNames(query, 'code', ['other']),
  (query) => forgetLedgerRows(query, 5, [1]),
  (query) => updateChange(query, LINK, { attempts: 1 }),
  (query) => forgetTasks(query, ['t1'], NOW),
  (query) => forgetEntity(query, LINK),
  (query) => dropDifference(query, LINK),
  ({ whole }) => markAllUnverified(whole),
  ({ whole }) => register(whole, REPLICA, localTime({ now: () => NOW }), 3_000),
  ({ whole, workspace }) => takeLeases(whole, REPLICA.incarnation, [workspace]),
  ({ whole, workspace }) => releaseLeases(whole, REPLICA.incarnation, [workspace]),
  ({ whole }) => updateReplica(whole, { ...REPLICA, about: '{"new":1}' }),
  ({ whole }) => unregister(whole, REPLICA.incarnation),
];

test('a transaction with a write of each part of the store rolls back completely if any statement fails', async () => {
  const wrong = await wrongWhereStatementsFail(
    async ({ commit }) => {
      await commit(fill);
      return () =>
        commit(async (query) => {
          for (const write of WRITES) await write(query);
        });
    },
    { isRepeatable: true },
  );
  expect(wrong).toEqual([]);
});

test('rejects, and keeps the parts that were done, if a statement of a release or a retry fails', async () => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      await store.commit(async (query) => {
        await fill(query);
        await updateChange(query, LINK, { state: 'held', guard: 'held' });
      });
      return async () => {
        await releaseHeld(store, { classes: ['creations'], entities: [LINK] });
        await retryQuarantined(store, 'all');
        await retryQuarantined(store, [1]);
      };
    },
    { inParts: true },
  );
  expect(wrong).toEqual([]);
});

test('rolls back completely if a statement of a unit of work or of the runs of jobs fails', async () => {
  const flush = await wrongWhereStatementsFail(async ({ commit }) => {
    await commit(fill);
    return () =>
      commit(async (query) => {
        const rows = beginUnitOfWork(query);
        await forgetEntity(rows, LINK);
        await saveEntity(rows, blankEntity('link:a>b', 'link'));
        await flushRows(rows);
      });
  });
  const runs = await wrongWhereStatementsFail(async (store) => {
    await jobRuns(store).note('sweep', 1);
    return () => jobRuns(store).replace(new Map([['sweep', 2]]));
  });
  expect([...flush, ...runs]).toEqual([]);
});
