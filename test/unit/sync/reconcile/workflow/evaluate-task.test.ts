import { expect, it } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import { saveTask } from '../../../../../src/store/cached-tasks.ts';
import { addDifference, findChange, type OutboxRow, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { PLAIN_RULES } from '../../../../../src/sync/reconcile/context.ts';
import { evaluateTaskUpdate, releaseTaskStatus } from '../../../../../src/sync/reconcile/workflow/evaluate-task.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { SOURCES, START } from '../../../../support/rows/batches.ts';

const NAME = entity.taskUpdate('t1');
const TASK = { taskId: 't1', key: 'BUG-1', title: '', source: 'api', status: 'open', updatedAt: '' };
const UNKNOWN = { sent: JSON.stringify({ body: { status: 'review', from: 'open' } }) };

it.each<[claim: string, isKept: boolean, change: Partial<OutboxRow>]>([
  ['withdraws an update that waits', false, { state: 'pending' }],
  ['withdraws a held update', false, { state: 'held' }],
  ['keeps an update in flight', true, { state: 'sending', ...UNKNOWN }],
  ['keeps an update whose outcome is unknown', true, UNKNOWN],
])('%s if nothing wants it any more, or if the task is gone', async (_claim, isKept, change) => {
  const context = { now: START, usedShare: 0, rules: PLAIN_RULES, sources: SOURCES };
  for (const isGone of [false, true]) {
    const { query, commit } = await openTestStore();
    if (!isGone) await saveTask(query, TASK, START);
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: NAME, kind: 'task_update', lane: 'status', ...times });
    await updateChange(query, NAME, change);
    await commit((own) => evaluateTaskUpdate(context, own, 't1'));
    expect((await findChange(query, NAME)) !== undefined).toBe(isKept);
  }
});

it('releases no status of a task that is gone', async () => {
  const { commit } = await openTestStore();
  expect(await commit((own) => releaseTaskStatus(own, PLAIN_RULES.workflow, 't1', START))).toBe(false);
});
