import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, findEntities, saveEntity } from '../../../../src/store/entities.ts';
import { applyBatch } from '../../../../src/sync/reconcile/apply-batch.ts';
import { createBatchContexts, createRules, type RulesInput } from '../../../../src/sync/reconcile/context.ts';
import { createReevaluation } from '../../../../src/sync/reconcile/reevaluate.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { batchContext, SOURCES, START, saidOf, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const BEFORE: RulesInput = {
  trailers: ['Task'],
  links: [],
  users: { jira: { ben: 'u1' }, github: { ann: 'u2' } },
  grammars: [],
  addresses: ['https://app.example.com/workspace'],
  documents: true,
  triage: [{ when: { type: ['Bug'] }, create: 'bug', title: '{title}', labels: [], since: 0, sync: ['assignees'] }],
  workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 },
  connections: new Set(['code', 'tracker']),
  digest: 'before',
};

const MERGED = pull({
  url: 'https://github.com/acme/app/pull/1',
  ...{ title: 'Fixes BUG-1', state: 'merged', isPublic: false, baseBranch: 'main', defaultBranch: 'main' },
  ...{ createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T08:30:00Z', closedAt: '2026-01-05T08:30:00Z' },
});
/** In a public repository only users move tasks. */
const OF_ANN = pull({
  ...{ key: 'github:github.com:5001:pull:2', identifier: '2', url: 'https://github.com/acme/app/pull/2' },
  ...{ title: 'Fixes BUG-2', author: 'ann', isPublic: true, createdAt: '2026-01-05T08:00:00Z' },
});
const BUG = workItem({ key: 'jira:cloud-1:10001', identifier: 'ENG-1', type: 'Bug', assignees: ['ben'] });
/** A task was created for it before it had an assignee. */
const FOLLOWED = workItem({
  ...{ key: 'jira:cloud-1:10002', identifier: 'ENG-2', type: 'Bug', assignees: ['ben'] },
  url: 'https://jira.example.com/browse/ENG-2',
});
const DOCUMENT = 'https://app.example.com/workspace/docs/d1';

/** Returns the changes that the evaluation by other rules drops. @param held the changes that are held before */
async function droppedBy(other: Partial<RulesInput>, held: readonly string[], connections = SOURCES) {
  const store = await openTestStore();
  const task = { title: '', status: 'open', source: 'api', updatedAt: '' };
  const items = [{ ...MERGED, description: DOCUMENT }, OF_ANN, BUG, FOLLOWED].map((item) => saidOf(item));
  const created = { remote_id: 'BUG-3', desired: '{"title":"An issue"}', known: '{"title":"An issue"}' };
  await store.commit(async (query) => {
    for (const key of ['BUG-1', 'BUG-2']) await saveTask(query, { ...task, taskId: key, key }, START);
    await saveTask(query, { ...task, taskId: 'BUG-3', key: 'BUG-3', source: FOLLOWED.key }, START);
    const ofItem = { ...blankEntity(entity.task(FOLLOWED.key), 'task', { item_key: FOLLOWED.key }), ...created };
    await saveEntity(query, ofItem);
    const loose = JSON.stringify({ taskId: null, isMissing: false });
    const document = blankEntity(entity.document('d1'), 'document', { item_key: MERGED.key });
    await saveEntity(query, { ...document, known: loose });
    await applyBatch(query, items, batchContext(START, { rules: createRules(BEFORE) }));
  });
  const before = await changes(store);
  const names = [...before].flatMap(([name, what]) => (held.includes(what) ? [name] : []));
  await store.query
    .updateTable('outbox')
    .set({ state: 'held' })
    .where('entity', 'in', ['', ...names])
    .execute();
  const rules = createRules({ ...BEFORE, digest: 'after', ...other });
  const parts = { store, clock: createTravellingClock(), logger: silentLogger, rules };
  const contexts = createBatchContexts({ ...parts, sources: connections, usedShare: () => 0 });
  const reevaluation = createReevaluation({ ...parts, contexts, outbox: createWakeSignal() });
  expect(reevaluation.areChangesCurrent()).toBe(false);
  await reevaluation.reevaluate(new AbortController().signal);
  expect(reevaluation.areChangesCurrent()).toBe(true);
  const after = await changes(store);
  const left = [...after.values()];
  return [...before.values()].filter((what) => !left.includes(what)).sort();
}

/** Returns what each change writes, by its name: its kind and the task, or the kind and the assignee that it gives to a task. */
async function changes({ query }: Store): Promise<ReadonlyMap<string, string>> {
  const rows = await query.selectFrom('outbox').select(['entity', 'kind']).where('kind', '!=', 'read').execute();
  const entities = await findEntities(
    query,
    rows.map((row) => row.entity),
  );
  return new Map(
    entities.map(({ entity: name, kind, task_id, desired }) => {
      const assignee = /"assigneeIds":\["(\w+)"/.exec(desired ?? '')?.[1];
      return [name, [kind, task_id, assignee].filter((part) => part != null).join(' ')];
    }),
  );
}

const MOVES = ['task_update BUG-1', 'task_update BUG-2'];
const OF_CODE = ['document BUG-1', 'link BUG-1', 'link BUG-2', 'pull_request', 'pull_request', ...MOVES];
const WITHOUT_MIRROR = new Map([...SOURCES].map(([name, source]) => [name, { ...source, records: false }]));
const ONLY_TRACKER = new Map([[TRACKER.name, TRACKER]]);

test.each<[reason: string, dropped: readonly string[], other: Partial<RulesInput>, connections?: typeof SOURCES]>([
  ['nothing', [], {}],
  ['all rules for task states', MOVES, { workflow: undefined }],
  ['the preset', MOVES, { workflow: { ...BEFORE.workflow, preset: undefined } as never }],
  ['the rule for new tasks', ['task u1', 'task_update BUG-3 u1'], { triage: [] }],
  ['the user of an assignee', ['task u1', 'task_update BUG-3 u1'], { users: { github: { ann: 'u2' } } }],
  ['the user of an author', ['task_update BUG-2'], { users: { jira: { ben: 'u1' } } }],
  ['the setting for documents', ['document BUG-1'], { documents: false }],
  ['the mirror', ['pull_request', 'pull_request'], {}, WITHOUT_MIRROR],
  ['the connection', OF_CODE, { connections: new Set(['tracker']) }, ONLY_TRACKER],
])('drops the pending and held changes whose reason is gone: %s was removed', async (_reason, dropped, ...after) => {
  const [other, connections] = after;
  expect(await droppedBy(other, [], connections)).toEqual(dropped);
  expect(await droppedBy(other, dropped, connections)).toEqual(dropped);
});
