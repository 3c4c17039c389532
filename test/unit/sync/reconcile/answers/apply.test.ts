import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import { blankEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { readMeta, WORKSPACE_ID } from '../../../../../src/store/meta.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { openTestStore } from '../../../../support/intake.ts';

const LINK = entity.link('item', 't1');
const TASK = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api' };

async function tell(answer: Partial<Answer>) {
  const { query, commit } = await openTestStore();
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: 'item' }));
  await saveEntity(query, blankEntity('link:nobody', 'link'));
  await saveEntity(query, blankEntity(entity.task('item'), 'task', { item_key: 'item' }));
  const whole = { action: 'attach-document', entity: '', sentAt: 1, body: null, ...answer } as const;
  const taken = await commit((transaction) => applyAnswer(transaction, whole, { now: 2, usedShare: 0 }));
  return { ...taken, workspace: await readMeta(query, WORKSPACE_ID) };
}

test.each<[what: string, again: string[], answer: Partial<Answer>]>([
  ['a link of it was taken away', ['item'], { action: 'remove-link', entity: LINK }],
  ['a link of no item was', [], { action: 'remove-link', entity: 'link:nobody' }],
  ['a link that nobody knows was', [], { action: 'remove-link', entity: 'link:forgotten' }],
  ['a person did something with it', ['item'], { action: 'look-again', entity: 'item' }],
  ['a task was made for it', ['item'], { action: 'create-task', entity: entity.task('item'), body: TASK }],
  ['a task was made for what nobody knows', [], { action: 'create-task', entity: 'task:forgotten', body: TASK }],
  ['a document was attached', [], { action: 'attach-document' }],
])('where %s these are looked at: %j', async (_what, again, answer) => {
  expect(await tell(answer)).toMatchObject({ again });
});

test.each<[what: string, workspace: string | undefined, answer: Partial<Answer>]>([
  ['told beside an answer', 'w1', { workspaceId: 'w1' }],
  ['told by a task', 'w1', { action: 'saw-task', body: { ...TASK, workspaceId: 'w1' } }],
  ['told by a task that was made', 'w1', { action: 'create-task', body: { ...TASK, workspaceId: 'w1' } }],
  ['told by a list of tasks', 'w1', { action: 'read-tasks', body: { tasks: [{ ...TASK, workspaceId: 'w1' }] } }],
  [
    'of some task that others saw',
    undefined,
    { action: 'saw-tasks', body: { tasks: [{ ...TASK, workspaceId: 'w1' }] } },
  ],
  ['of a list without tasks', undefined, { action: 'read-tasks', body: { tasks: [] } }],
])('the id of the workspace is remembered: %s', async (_what, workspace, answer) => {
  expect((await tell(answer)).workspace).toBe(workspace);
});
