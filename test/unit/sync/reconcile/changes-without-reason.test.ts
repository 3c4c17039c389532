import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
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
  users: {},
  grammars: [],
  addresses: ['https://app.example.com/workspace'],
  documents: false,
  triage: [{ when: { type: ['Bug'] }, create: 'bug', title: '{title}', labels: [], since: 0 }],
  workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 },
  connections: new Set(['code', 'tracker']),
  digest: 'before',
};

const MERGED = pull({
  url: 'https://github.com/acme/app/pull/1',
  ...{ title: 'Fixes BUG-1', state: 'merged', isPublic: false, baseBranch: 'main', defaultBranch: 'main' },
  ...{ createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T08:30:00Z', closedAt: '2026-01-05T08:30:00Z' },
});
const BUG = workItem({ key: 'jira:cloud-1:10001', identifier: 'ENG-1', type: 'Bug' });

/** Returns the kinds of changes that the evaluation by other rules drops. @param kinds the kinds that are held before */
async function droppedBy(other: Partial<RulesInput>, kinds: readonly string[], connections = SOURCES) {
  const store = await openTestStore();
  const task = { taskId: 't1', key: 'BUG-1', title: '', status: 'open', source: 'api', updatedAt: '' };
  const items = [MERGED, BUG].map((item) => saidOf(item));
  await store.commit(async (query) => {
    await saveTask(query, task, START);
    await applyBatch(query, items, batchContext(START, { rules: createRules(BEFORE) }));
  });
  const held = store.query.updateTable('outbox').set({ state: 'held' });
  await held
    .where('kind', 'in', ['read', ...kinds] as never)
    .where('kind', '!=', 'read')
    .execute();
  const before = await changes(store);
  const rules = createRules({ ...BEFORE, digest: 'after', ...other });
  const parts = { store, clock: createTravellingClock(), logger: silentLogger, rules };
  const contexts = createBatchContexts({ ...parts, sources: connections, usedShare: () => 0 });
  const reevaluation = createReevaluation({ ...parts, contexts, outbox: createWakeSignal() });
  expect(reevaluation.areChangesCurrent()).toBe(false);
  await reevaluation.reevaluate(new AbortController().signal);
  expect(reevaluation.areChangesCurrent()).toBe(true);
  const after = await changes(store);
  return before.filter((name) => !after.includes(name));
}

async function changes({ query }: Store): Promise<string[]> {
  const rows = await query.selectFrom('outbox').select('kind').where('kind', '!=', 'read').orderBy('kind').execute();
  return rows.map(({ kind }) => kind);
}

const ONLY_TRACKER = new Map([[TRACKER.name, TRACKER]]);

test.each<[reason: string, dropped: readonly string[], other: Partial<RulesInput>, connections?: typeof SOURCES]>([
  ['nothing', [], {}],
  ['all rules for task states', ['task_update'], { workflow: undefined }],
  ['the preset', ['task_update'], { workflow: { ...BEFORE.workflow, preset: undefined } as never }],
  ['the rule for new tasks', ['task'], { triage: [] }],
  ['the connection', ['link', 'pull_request', 'task_update'], { connections: new Set(['tracker']) }, ONLY_TRACKER],
])('drops the pending and held changes whose reason is gone: %s was removed', async (_reason, dropped, ...after) => {
  const [other, connections] = after;
  expect(await droppedBy(other, [], connections)).toEqual(dropped);
  expect(await droppedBy(other, dropped, connections)).toEqual(dropped);
});
