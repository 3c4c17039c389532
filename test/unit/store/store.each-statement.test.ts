import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import type { RunMemory } from '../../../src/platform/lib/scheduler.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import { forgetTasks, prefetchTasksOfSources, saveTask } from '../../../src/store/cached-tasks.ts';
import { forgetOtherSweeps, recordSweep, recordSweepFailure } from '../../../src/store/connection-sweeps.ts';
import { deleteDeliveries, purgeBodies } from '../../../src/store/deletions.ts';
import { blankEntity, forgetEntity, saveEntity } from '../../../src/store/entities.ts';
import { applyGuard, releaseHeld } from '../../../src/store/held-changes.ts';
import { countAttempt, quarantineParts, retryQuarantined, settleDeliveries } from '../../../src/store/inbox.ts';
import type { Installation } from '../../../src/store/installation.ts';
import { INSTALLATION_ID, readInstallationId } from '../../../src/store/installation.ts';
import { saveItemNames, saveMentions } from '../../../src/store/item-names.ts';
import { saveEvaluatedTasks, saveItem } from '../../../src/store/items.ts';
import { installationRuns, jobRuns } from '../../../src/store/job-runs.ts';
import { addLedgerRow, endLedgerRow, forgetLedgerRows, updateLedgerTimes } from '../../../src/store/ledger.ts';
import { markAllUnverified } from '../../../src/store/mark-unverified.ts';
import { forgetMeta, recordTriageStarts, setTriagedConnections, writeMeta } from '../../../src/store/meta.ts';
import { prefetchNotices } from '../../../src/store/notices.ts';
import { addDifference, dropDifference, expedite, saveChange, updateChange } from '../../../src/store/outbox-rows.ts';
import { clearFailures, recordPollFailure, savePollState } from '../../../src/store/poll-states.ts';
import { addRequest, deleteRequests } from '../../../src/store/requests.ts';
import { loadNames, restartUnits, saveName } from '../../../src/store/scope-names.ts';
import { SWEEP_START as FIRST, writeSweepPosition } from '../../../src/store/sweep-position.ts';
import {
  delayCreations,
  markTasksUnverified,
  markTasksVerified,
  resumeCreations,
} from '../../../src/store/task-creations.ts';
import { beginUnitOfWork, flushRows, saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import {
  dropOrphanFetches,
  postponeFetch,
  prefetchFetches,
  requestFetch,
  settleFetch,
} from '../../../src/store/wanted-fetches.ts';
import { enqueueInitialReads, enqueueReads, enqueueTaskListRead } from '../../../src/store/workspace-reads.ts';
import type { Scope, Sql } from '../../../src/store/workspace-scope.ts';
import {
  addFindings,
  beginList,
  beginSweep,
  noteListed,
  recordsSwept,
  type Sweep,
  tasksSwept,
} from '../../../src/store/workspace-sweeps.ts';
import { wrongWhereStatementsFail } from '../../support/faults/each-statement-fails.ts';
import { answered, START, saidOf, takeBatch } from '../../support/rows/batches.ts';
import { itemRow, pull, workItem } from '../../support/rows/items.ts';

/** A failing statement is reported to the writer, and its transaction leaves nothing half written. */

const NOW = START + 60_000;
const PULL = pull({ title: 'BUG-1: a change', url: 'https://github.com/acme/api/pull/1' });
const BUG = workItem({ type: 'Bug' });
const TASK = {
  taskId: 't1',
  key: 'BUG-1',
  title: 'A task',
  status: 'open',
  source: 'api',
  createdAt: '',
  updatedAt: '',
};
const LINK = entity.link(PULL.key, 't1');
const UNIT = { connection: 'code', unit: 'one' };
const REFERENCE = { kind: 'work_item', key: BUG.key, locator: {} } as const;
const FETCH = { key: JSON.stringify(REFERENCE), reference: REFERENCE, connection: 'tracker', deliveryId: 1 };
const CHANGE = { entity: LINK, kind: 'link', lane: 'link', since: 1, due: 1, weight: 1, waiting: [] } as const;
const DELIVERY = { connection: 'code', source: 'webhook', event: 'e', body: Buffer.from('{}') } as const;
const NAME = { entry: 'acme', id: '1', called: 'acme', elsewhere: null, askedAt: null };
const REBOUND = { now: NOW, reason: 'scope_rebound: bound again' };
const LEDGER = { id: 1, boot: 'boot', lane: 'read', caller: 'daemon', started: 1 } as const;
const SWEEP: Sweep = {
  id: 2,
  started_at: START,
  tasks_at: START,
  tasks: 1,
  list_began_at: START,
  records: 1,
  records_at: START,
  finished_at: null,
};
const SAVED = {
  ...CHANGE,
  waiting: '[]',
  effect: null,
  guard: null,
  not_before: 0,
  state: 'pending',
  attempts: 0,
  sent: null,
  sent_at: null,
  next_since: null,
  awaits: null,
  error: null,
} as const;
const ITEM = itemRow('k', { connection: 'tracker' });
const REQUEST = {
  entity: LINK,
  kind: 'link',
  item_key: PULL.key,
  task_id: 't1',
  action: 'add-link',
  lane: 'link',
  since: 1,
  due: 1,
  asked_at: 1,
  slot_at: 1,
  sent_at: 1,
  completed_at: 1,
  status: 201,
  error: null,
  outcome: 'answered',
  attempt: 1,
  deliveries: '[]',
  answer: null,
} as const;
const many = (count: number) => Array.from({ length: count }, (_, at) => `name ${at}`);
const findings = (names: readonly string[]) => names.map((name) => ({ what: 'task-changed' as const, entity: name }));

/** Adds some of all rows that the operations below change. */
async function fill(query: Scope): Promise<void> {
  await takeBatch(query, [answered('saw-task', TASK), saidOf(PULL), saidOf(BUG)], 1);
  await appendDeliveries(
    query,
    ['a', 'b'].map((key) => ({ ...DELIVERY, key })),
    1,
  );
  await settleDeliveries(query, [{ id: 1, state: 'quarantined', reason: 'over_budget: much' }], 1);
  await settleDeliveries(query, [{ id: 2, state: 'applied' }], 1);
  await requestFetch(query, { ...FETCH, now: 1 });
  await recordSweep(query, UNIT, { at: 1, listed: 1, asked: 1 });
  await savePollState(query, UNIT.connection, UNIT.unit, {});
  await recordPollFailure(query, UNIT.connection, '*', 'no', 1);
  await saveName(query, UNIT.connection, NAME);
  await addLedgerRow(query, LEDGER);
  await addRequest(query, REQUEST);
  await saveRows(query, 'workspace_sweeps', [{ ...SWEEP, id: 1, finished_at: 1 }, SWEEP]);
  await addFindings(query, findings(['one']), 1);
  await noteListed(query, ['one']);
  for (const name of ['unsure', 'triage.since.tracker']) await writeMeta(query, name, '1');
  await markTasksUnverified(query, 1);
}

async function createId(query: Sql): Promise<void> {
  await query.deleteFrom('installation').where('name', '=', INSTALLATION_ID).execute();
  await readInstallationId(query, systemRandom(), 'a file');
}

const quarantined = [
  { page: { ...DELIVERY, receivedAt: 1 }, parts: [{ content: 'c', body: Buffer.from('[]'), reason: 'no' }] },
];
const read = { now: NOW, usedShare: 0, lane: 'read', notBefore: 0 } as const;
const heldState = { state: 'held', guard: 'held' } as const;
const ledgerRow = { ...LEDGER, workspace: 1, completed: 5, status: 200 };

test.each<[what: string, write: (query: Scope) => Promise<unknown>]>([
  ['append deliveries', (query) => appendDeliveries(query, [{ ...DELIVERY, key: 'c' }], NOW)],
  [
    'settle deliveries',
    (query) =>
      settleDeliveries(
        query,
        [1, 2].map((id) => ({ id, state: 'ignored', reason: `${id}` })),
        NOW,
      ),
  ],
  ['count attempts', (query) => countAttempt(query, [1])],
  ['quarantine parts of a page', (query) => quarantineParts(query, quarantined, NOW)],
  ['purge bodies', (query) => purgeBodies(query, NOW, 9)],
  ['delete deliveries', (query) => deleteDeliveries(query, NOW, 9)],
  ['save a task', (query) => saveTask(query, { ...TASK, key: 'BUG-9' }, NOW)],
  ['forget tasks', (query) => forgetTasks(query, ['t1'], NOW)],
  ['save an entity', (query) => saveEntity(query, blankEntity('link:a>b', 'link'))],
  ['forget an entity', (query) => forgetEntity(query, LINK)],
  [
    'save the names of an item',
    (query) =>
      saveItemNames(query, BUG.key, {
        names: ['ENG-9'].map((name) => ({ name, place: null, container: null })),
        former: [],
        now: 1,
      }),
  ],
  ['save mentions', (query) => saveMentions(query, PULL.key, [{ name: 'BUG-9', reason: {} }], 1)],
  ['save the evaluated tasks of an item', (query) => saveEvaluatedTasks(query, BUG.key, ['t1'])],
  ['add a difference', (query) => addDifference(query, CHANGE)],
  ['drop a difference', (query) => dropDifference(query, LINK)],
  ['save a change', (query) => saveChange(query, SAVED)],
  ['save an item', (query) => saveItem(query, ITEM, 1)],
  ['delete requests', (query) => deleteRequests(query, NOW, 9)],
  ['update a change', (query) => updateChange(query, LINK, { attempts: 1 })],
  ['expedite changes', (query) => expedite(query, [LINK])],
  ['apply the guard', (query) => applyGuard(query, 'creation', 1, 'no')],
  ['delay creations', (query) => delayCreations(query, [BUG.key], NOW)],
  ['resume creations', (query) => resumeCreations(query, NOW, NOW)],
  ['mark tasks unverified', (query) => markTasksUnverified(query, NOW)],
  ['mark tasks verified', (query) => markTasksVerified(query, NOW)],
  ['enqueue reads', (query) => enqueueReads(query, [entity.readTasks, entity.readLinks('t1')], NOW)],
  ['enqueue the initial reads', (query) => enqueueInitialReads(query, NOW, true)],
  ['enqueue the read of the task list', (query) => enqueueTaskListRead(query, read)],
  ['write a fact', (query) => writeMeta(query, 'fact', '1')],
  ['forget a fact', (query) => forgetMeta(query, 'unsure')],
  ['replace the triaged connections', (query) => setTriagedConnections(query, ['code'], NOW)],
  [
    'record the start of triage',
    ({ whole, workspace }) => recordTriageStarts(whole, [{ workspace, connections: ['code'] }], NOW),
  ],
  ['request a fetch', (query) => requestFetch(query, { ...FETCH, now: NOW })],
  ['settle a fetch', (query) => settleFetch(query, { ...FETCH, asks: 1 })],
  ['settle a fetch that was requested again', (query) => settleFetch(query, { ...FETCH, asks: 0 })],
  ['postpone a fetch', (query) => postponeFetch(query, { ...FETCH, asks: 1 }, 'no', NOW)],
  ['drop fetches of removed connections', (query) => dropOrphanFetches(query, ['code'])],
  ['record a sweep', (query) => recordSweep(query, UNIT, { at: 2, listed: 2, asked: 2 })],
  ['record a failed sweep', (query) => recordSweepFailure(query, UNIT, 'no', NOW)],
  ['forget the sweeps of removed units', (query) => forgetOtherSweeps(query, 'code', ['two'])],
  ['save the state of a poll', (query) => savePollState(query, 'code', 'one', { watermark: 'w' }, NOW)],
  ['record a failed poll', (query) => recordPollFailure(query, 'code', 'one', 'no', NOW)],
  ['clear failures of polls', (query) => clearFailures(query, 'code', ['one'])],
  ['load names', (query) => loadNames(query, 'code', ['other'])],
  ['save a name', (query) => saveName(query, 'code', { ...NAME, id: '2' })],
  ['restart units', (query) => restartUnits(query, 'code', ['one'], REBOUND)],
  ['add a ledger row', (query) => addLedgerRow(query, { ...LEDGER, id: 2 })],
  ['end a ledger row', (query) => endLedgerRow(query, 1, 5, 200)],
  ['update the times of a ledger row', (query) => updateLedgerTimes(query, ledgerRow)],
  ['forget ledger rows', (query) => forgetLedgerRows(query, 5, [1])],
  ['begin a workspace sweep', (query) => beginSweep(query, START - 1)],
  ['end the task list of a workspace sweep', (query) => tasksSwept(query, SWEEP, 5, NOW)],
  ['begin the record list of a workspace sweep', (query) => beginList(query, SWEEP, NOW)],
  ['note listed records', (query) => noteListed(query, ['two'])],
  ['end the record list of a workspace sweep', (query) => recordsSwept(query, SWEEP, NOW)],
  ['add findings', (query) => addFindings(query, findings(['two']), NOW)],
  [
    'write the sweep position',
    (query) => writeSweepPosition(query, { startedAt: 1, endedAt: null, readAt: 1, read: 1, after: FIRST }),
  ],
  ['mark all workspaces unverified', ({ whole }) => markAllUnverified(whole)],
  ['create the installation id', ({ whole }) => createId(whole)],
  ['prefetch tasks', (query) => prefetchTasksOfSources(query, [BUG.key])],
  ['prefetch fetches', (query) => prefetchFetches(query, [REFERENCE])],
  ['prefetch notices', (query) => prefetchNotices(query, [BUG.key])],
  [
    'save many rows',
    (query) =>
      saveRows(
        query,
        'meta',
        many(70).map((name) => ({ name, value: '' })),
      ),
  ],
  [
    'flush a unit of work',
    async (query) => {
      const rows = beginUnitOfWork(query);
      await forgetEntity(rows, LINK);
      await saveEntity(rows, blankEntity('link:a>b', 'link'));
      await flushRows(rows);
    },
  ],
])('rolls back completely if any statement fails: %s', async (_what, write) => {
  const wrong = await wrongWhereStatementsFail(
    async ({ commit }) => {
      await commit(fill);
      return () => commit(write);
    },
    { isRepeatable: true },
  );
  expect(wrong).toEqual([]);
});

test.each<[what: string, write: (store: Parameters<typeof releaseHeld>[0]) => Promise<unknown>]>([
  ['release held changes', (store) => releaseHeld(store, { classes: ['creations'], entities: [LINK] })],
  ['retry all quarantined deliveries', (store) => retryQuarantined(store, 'all')],
  ['retry quarantined deliveries by id', (store) => retryQuarantined(store, [1])],
])('rejects if any statement fails: %s', async (_what, write) => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      await store.commit(async (query) => {
        await fill(query);
        await updateChange(query, LINK, heldState);
      });
      return () => write(store);
    },
    { inParts: true },
  );
  expect(wrong).toEqual([]);
});

const jobs = [
  ['note', (runs) => runs.note('sweep', 2)],
  ['replace', (runs) => runs.replace(new Map([['sweep', 2]]))],
] satisfies [what: string, write: (runs: RunMemory) => Promise<void>][];

test.each(jobs)(
  'rolls back completely if any statement fails: %s runs of jobs of a workspace',
  async (_what, write) => {
    const wrong = await wrongWhereStatementsFail(async (store) => {
      const runs = jobRuns(store);
      await runs.note('sweep', 1);
      return () => write(runs);
    });
    expect(wrong).toEqual([]);
  },
);

test.each(jobs)(
  'rolls back completely if any statement fails: %s runs of jobs of the installation',
  async (_what, write) => {
    const wrong = await wrongWhereStatementsFail(async ({ query: { whole: query }, commit }) => {
      const whole = { query, commit: (work: (all: Sql) => Promise<void>) => commit((scope) => work(scope.whole)) };
      const runs = installationRuns(whole as unknown as Installation);
      await runs.note('sweep', 1);
      return () => write(runs);
    });
    expect(wrong).toEqual([]);
  },
);
