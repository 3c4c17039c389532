import { expect, it } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { TaskUpdate } from '../../../../../src/model/task.ts';
import type { WrittenStatus } from '../../../../../src/model/written-status.ts';
import { blankEntity, findEntity, json, saveEntity } from '../../../../../src/store/changes/entities.ts';
import {
  addDifference,
  findChange,
  type OutboxRow,
  updateChange,
} from '../../../../../src/store/changes/outbox-rows.ts';
import { saveTask } from '../../../../../src/store/tasks/cached-tasks.ts';
import { createRules, PLAIN_RULES } from '../../../../../src/sync/reconcile/context.ts';
import { evaluateTaskUpdate, releaseTaskStatus } from '../../../../../src/sync/reconcile/workflow/evaluate-task.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { SOURCES, START } from '../../../../support/rows/batches.ts';

const NAME = entity.taskUpdate('t1');
const TASK = { taskId: 't1', key: 'BUG-1', title: '', source: 'api', status: 'open', updatedAt: '' };
const CHANGE = { entity: NAME, kind: 'task_update', lane: 'status', since: 1, due: 1, weight: 1, waiting: [] } as const;
const CONTEXT = { now: START, usedShare: 0, rules: PLAIN_RULES, sources: SOURCES };
const WITHOUT_PRESET = createRules({
  ...{ trailers: [], links: [], addresses: [], users: {}, grammars: [], documents: false, triage: [] },
  workflow: {
    rules: [{ when: { pullRequest: ['open'] }, set: { status: 'review' } }],
    several: 'all',
    bots: 'names',
    since: 0,
  },
});
const UNKNOWN = { sent: JSON.stringify({ body: { status: 'review', from: 'open' } }) };

it.each<[claim: string, isKept: boolean, change: Partial<OutboxRow>]>([
  ['withdraws an update that waits', false, { state: 'pending' }],
  ['withdraws a held update', false, { state: 'held' }],
  ['keeps an update in flight', true, { state: 'sending', ...UNKNOWN }],
  ['keeps an update whose outcome is unknown', true, UNKNOWN],
])('%s if nothing wants it any more, or if the task is gone', async (_claim, isKept, change) => {
  for (const isGone of [false, true]) {
    const { query, commit } = await openTestStore();
    if (!isGone) await saveTask(query, TASK, START);
    await addDifference(query, CHANGE);
    await updateChange(query, NAME, change);
    await commit((own) => evaluateTaskUpdate(CONTEXT, own, 't1'));
    expect((await findChange(query, NAME)) !== undefined).toBe(isKept);
  }
});

const MOVE: TaskUpdate = { status: 'review', from: 'open' };
const LABELS: TaskUpdate = { addLabels: ['wip'], from: 'open' };

it.each<[claim: string, desired: object | undefined, status: string, ...sent: TaskUpdate[]]>([
  ['is confirmed if it may have moved the task', { from: 'open' }, 'open', MOVE],
  ['is confirmed if an earlier attempt may have moved the task', { from: 'open' }, 'open', MOVE, LABELS],
  ['is not confirmed if the task has its status', undefined, 'review', MOVE],
  ['is not confirmed if it sets no status', undefined, 'open', LABELS],
])('an unwanted update whose outcome is unknown %s', async (_claim, desired, status, ...attempted) => {
  const { query, commit } = await openTestStore();
  await saveTask(query, { ...TASK, status }, START);
  const row = blankEntity(NAME, 'task_update', { task_id: 't1' });
  await saveEntity(query, { ...row, known: '{}', desired: JSON.stringify(MOVE) });
  await addDifference(query, CHANGE);
  await updateChange(query, NAME, { sent: JSON.stringify({ body: attempted.pop(), attempted }) });
  await commit((own) => evaluateTaskUpdate({ ...CONTEXT, rules: WITHOUT_PRESET }, own, 't1'));
  const stored = await findEntity(query, NAME);
  expect(json<TaskUpdate>(stored?.desired ?? null)).toEqual(desired);
  // A task with the status of an attempt was moved by it.
  expect(json<WrittenStatus>(stored?.known ?? null)?.status).toBe(status === 'review' ? 'review' : undefined);
});

it('releases no status of a task that is gone', async () => {
  const { commit } = await openTestStore();
  expect(await commit((own) => releaseTaskStatus(own, PLAIN_RULES.workflow, 't1', START))).toBe(false);
});
