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
import { answered, START, saidOf, takeBatch } from '../../support/batches.ts';
import { wrongWhereStatementsFail } from '../../support/each-statement-fails.ts';
import { itemRow, pull, workItem } from '../../support/items.ts';

/** Whoever writes is told of each statement that fails, and nothing is half written. */

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
const AGAIN = { now: NOW, reason: 'scope_rebound: bound again' };
const LEDGER = { id: 1, boot: 'boot', lane: 'read', caller: 'daemon', started: 1 } as const;
const SWEEP: Sweep = {
  ...{ id: 2, started_at: START, tasks_at: START, tasks: 1, list_began_at: START },
  ...{ records: 1, records_at: START, finished_at: null },
};
const SAVED = {
  ...CHANGE,
  ...({ waiting: '[]', effect: null, guard: null, not_before: 0, state: 'pending', attempts: 0 } as const),
  ...{ sent: null, sent_at: null, next_since: null, error: null },
};
const ITEM = itemRow('k', { connection: 'tracker' });
const REQUEST = {
  ...({ entity: LINK, kind: 'link', item_key: PULL.key, task_id: 't1', action: 'add-link', lane: 'link' } as const),
  ...({ since: 1, due: 1, asked_at: 1, slot_at: 1, sent_at: 1, completed_at: 1, status: 201 } as const),
  ...({ error: null, outcome: 'answered', attempt: 1, deliveries: '[]', answer: null } as const),
};
const many = (count: number) => Array.from({ length: count }, (_, at) => `name ${at}`);
const findings = (names: readonly string[]) => names.map((name) => ({ what: 'task-changed' as const, entity: name }));

/** A little of everything that the operations below change. */
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

async function makeId(query: Sql): Promise<void> {
  await query.deleteFrom('installation').where('name', '=', INSTALLATION_ID).execute();
  await readInstallationId(query, systemRandom(), 'a file');
}

const ofQuarantined = [
  { page: { ...DELIVERY, receivedAt: 1 }, parts: [{ content: 'c', body: Buffer.from('[]'), reason: 'no' }] },
];
const wish = { now: NOW, usedShare: 0, lane: 'read', notBefore: 0 } as const;
const held = { state: 'held', guard: 'held' } as const;
const ledgerRow = { ...LEDGER, workspace: 1, completed: 5, status: 200 };

test.each<[what: string, write: (query: Scope) => Promise<unknown>]>([
  ['deliveries are appended', (query) => appendDeliveries(query, [{ ...DELIVERY, key: 'c' }], NOW)],
  [
    'deliveries are settled',
    (query) =>
      settleDeliveries(
        query,
        [1, 2].map((id) => ({ id, state: 'ignored', reason: `${id}` })),
        NOW,
      ),
  ],
  ['attempts are counted', (query) => countAttempt(query, [1])],
  ['parts are put into quarantine', (query) => quarantineParts(query, ofQuarantined, NOW)],
  ['bodies are purged', (query) => purgeBodies(query, NOW, 9)],
  ['deliveries are deleted', (query) => deleteDeliveries(query, NOW, 9)],
  ['a task is saved', (query) => saveTask(query, { ...TASK, key: 'BUG-9' }, NOW)],
  ['tasks are forgotten', (query) => forgetTasks(query, ['t1'], NOW)],
  ['an entity is saved', (query) => saveEntity(query, blankEntity('link:a>b', 'link'))],
  ['an entity is forgotten', (query) => forgetEntity(query, LINK)],
  [
    'names of an item are saved',
    (query) =>
      saveItemNames(query, BUG.key, {
        names: ['ENG-9'].map((name) => ({ name, place: null, container: null })),
        former: [],
        now: 1,
      }),
  ],
  ['mentions are saved', (query) => saveMentions(query, PULL.key, [{ name: 'BUG-9', reason: {} }], 1)],
  ['the tasks of an item are saved', (query) => saveEvaluatedTasks(query, BUG.key, ['t1'])],
  ['a change is added', (query) => addDifference(query, CHANGE)],
  ['a change is dropped', (query) => dropDifference(query, LINK)],
  ['a change is saved', (query) => saveChange(query, SAVED)],
  ['an item is saved', (query) => saveItem(query, ITEM, 1)],
  ['requests are deleted', (query) => deleteRequests(query, NOW, 9)],
  ['a change is updated', (query) => updateChange(query, LINK, { attempts: 1 })],
  ['changes are hurried', (query) => expedite(query, [LINK])],
  ['fresh changes are decided on', (query) => applyGuard(query, 'creation', 1, 'no')],
  ['creates are held', (query) => delayCreations(query, [BUG.key], NOW)],
  ['creates are released', (query) => resumeCreations(query, NOW, NOW)],
  ['tasks are doubted', (query) => markTasksUnverified(query, NOW)],
  ['tasks are trusted', (query) => markTasksVerified(query, NOW)],
  ['reads are wished for', (query) => enqueueReads(query, [entity.readTasks, entity.readLinks('t1')], NOW)],
  ['the first reads are wished for', (query) => enqueueInitialReads(query, NOW, true)],
  ['the list of tasks is wished for', (query) => enqueueTaskListRead(query, wish)],
  ['a fact is written', (query) => writeMeta(query, 'fact', '1')],
  ['a fact is forgotten', (query) => forgetMeta(query, 'unsure')],
  ['triage is switched', (query) => setTriagedConnections(query, ['code'], NOW)],
  [
    'triage is switched on',
    ({ whole, workspace }) => recordTriageStarts(whole, [{ workspace, connections: ['code'] }], NOW),
  ],
  ['an object is to be fetched', (query) => requestFetch(query, { ...FETCH, now: NOW })],
  ['a fetch is settled', (query) => settleFetch(query, { ...FETCH, attempts: 0, asks: 1 })],
  ['a fetch that was asked for again is settled', (query) => settleFetch(query, { ...FETCH, attempts: 0, asks: 0 })],
  ['a fetch is postponed', (query) => postponeFetch(query, { ...FETCH, asks: 1 }, 'no', NOW)],
  ['fetches of nobody are dropped', (query) => dropOrphanFetches(query, ['code'])],
  ['a sweep is recorded', (query) => recordSweep(query, UNIT, { at: 2, listed: 2, asked: 2 })],
  ['a sweep that failed is recorded', (query) => recordSweepFailure(query, UNIT, 'no', NOW)],
  ['sweeps of units are forgotten', (query) => forgetOtherSweeps(query, 'code', ['two'])],
  ['a poll is saved', (query) => savePollState(query, 'code', 'one', { watermark: 'w' }, NOW)],
  ['a poll that failed is recorded', (query) => recordPollFailure(query, 'code', 'one', 'no', NOW)],
  ['failures of polls are cleared', (query) => clearFailures(query, 'code', ['one'])],
  ['names are loaded', (query) => loadNames(query, 'code', ['other'])],
  ['a name is saved', (query) => saveName(query, 'code', { ...NAME, id: '2' })],
  ['units begin again', (query) => restartUnits(query, 'code', ['one'], AGAIN)],
  ['a request is added to the ledger', (query) => addLedgerRow(query, { ...LEDGER, id: 2 })],
  ['a request ends', (query) => endLedgerRow(query, 1, 5, 200)],
  ['a request gets other times', (query) => updateLedgerTimes(query, ledgerRow)],
  ['requests are forgotten', (query) => forgetLedgerRows(query, 5, [1])],
  ['a round of the sweep begins', (query) => beginSweep(query, START - 1)],
  ['a round has listed tasks', (query) => tasksSwept(query, SWEEP, 5, NOW)],
  ['a round begins its list', (query) => beginList(query, SWEEP, NOW)],
  ['a round lists records', (query) => noteListed(query, ['two'])],
  ['a round has listed records', (query) => recordsSwept(query, SWEEP, NOW)],
  ['a round finds something', (query) => addFindings(query, findings(['two']), NOW)],
  [
    'the turn goes on',
    (query) => writeSweepPosition(query, { startedAt: 1, endedAt: null, readAt: 1, read: 1, after: FIRST }),
  ],
  ['everything is doubted', ({ whole }) => markAllUnverified(whole)],
  ['the id of an installation is made', ({ whole }) => makeId(whole)],
  ['tasks are read ahead', (query) => prefetchTasksOfSources(query, [BUG.key])],
  ['fetches are read ahead', (query) => prefetchFetches(query, [REFERENCE])],
  ['notices are read ahead', (query) => prefetchNotices(query, [BUG.key])],
  [
    'many rows are saved',
    (query) =>
      saveRows(
        query,
        'meta',
        many(70).map((name) => ({ name, value: '' })),
      ),
  ],
  [
    'rows that were kept are written, and others removed',
    async (query) => {
      const rows = beginUnitOfWork(query);
      await forgetEntity(rows, LINK);
      await saveEntity(rows, blankEntity('link:a>b', 'link'));
      await flushRows(rows);
    },
  ],
])('whatever statement fails, nothing is left half done where %s', async (_what, write) => {
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
  ['held changes are released', (store) => releaseHeld(store, { classes: ['creations'], entities: [LINK] })],
  ['deliveries in quarantine are tried again', (store) => retryQuarantined(store, 'all')],
  ['named ones are', (store) => retryQuarantined(store, [1])],
])('whatever statement fails, whoever waits is told where %s', async (_what, write) => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      await store.commit(async (query) => {
        await fill(query);
        await updateChange(query, LINK, held);
      });
      return () => write(store);
    },
    { inParts: true },
  );
  expect(wrong).toEqual([]);
});

const jobs = [
  ['noted', (runs) => runs.note('sweep', 2)],
  ['replaced', (runs) => runs.replace(new Map([['sweep', 2]]))],
] satisfies [what: string, write: (runs: RunMemory) => Promise<void>][];

test.each(jobs)(
  'whatever statement fails, nothing is left half done where runs of jobs are %s',
  async (_what, write) => {
    const wrong = await wrongWhereStatementsFail(async (store) => {
      const runs = jobRuns(store);
      await runs.note('sweep', 1);
      return () => write(runs);
    });
    expect(wrong).toEqual([]);
  },
);

test.each(jobs)('the same where runs of jobs of the installation are %s', async (_what, write) => {
  const wrong = await wrongWhereStatementsFail(async ({ query: { whole: query }, commit }) => {
    const whole = { query, commit: (work: (all: Sql) => Promise<void>) => commit((scope) => work(scope.whole)) };
    const runs = installationRuns(whole as unknown as Installation);
    await runs.note('sweep', 1);
    return () => write(runs);
  });
  expect(wrong).toEqual([]);
});
