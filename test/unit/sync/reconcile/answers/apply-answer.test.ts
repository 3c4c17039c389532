import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import { saveTask } from '../../../../../src/store/cached-tasks.ts';
import { blankEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { readMeta, WORKSPACE_ID } from '../../../../../src/store/meta.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import type { NamedResources } from '../../../../../src/sync/reconcile/answers/shapes.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';

const LINK = entity.link('item', 't1');
const TASK = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api' };

async function apply(answer: Partial<Answer>) {
  const { query, commit } = await openTestStore();
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: 'item' }));
  await saveEntity(query, blankEntity('link:loose', 'link'));
  await saveEntity(query, blankEntity(entity.task('item'), 'task', { item_key: 'item' }));
  const whole = { action: 'attach-document', entity: '', sentAt: 1, body: null, ...answer } as const;
  const applied = await commit((transaction) => applyAnswer(transaction, whole, { now: 2, usedShare: 0 }));
  return { ...applied, workspace: await readMeta(query, WORKSPACE_ID) };
}

test.each<[what: string, reevaluate: string[], answer: Partial<Answer>]>([
  ['the removal of a link', ['item'], { action: 'remove-link', entity: LINK }],
  ['the removal of a link without an item', [], { action: 'remove-link', entity: 'link:loose' }],
  ['the removal of an unknown link', [], { action: 'remove-link', entity: 'link:forgotten' }],
  ['the action of a person on an item', ['item'], { action: 'look-again', entity: 'item' }],
  ['the creation of a task', ['item'], { action: 'create-task', entity: entity.task('item'), body: TASK }],
  ['the creation of a task for an unknown item', [], { action: 'create-task', entity: 'task:forgotten', body: TASK }],
  ['the attachment of a document', [], { action: 'attach-document' }],
])('%s causes the evaluation of %j', async (_what, reevaluate, answer) => {
  expect(await apply(answer)).toMatchObject({ reevaluate });
});

test.each<[what: string, workspace: string | undefined, answer: Partial<Answer>]>([
  ['beside an answer', 'w1', { workspaceId: 'w1' }],
  ['in a task', 'w1', { action: 'saw-task', body: { ...TASK, workspaceId: 'w1' } }],
  ['in a created task', 'w1', { action: 'create-task', body: { ...TASK, workspaceId: 'w1' } }],
  ['in a list of tasks', 'w1', { action: 'read-tasks', body: { tasks: [{ ...TASK, workspaceId: 'w1' }] } }],
  [
    'not in tasks of other clients',
    undefined,
    { action: 'saw-tasks', body: { tasks: [{ ...TASK, workspaceId: 'w1' }] } },
  ],
  ['not in an empty list', undefined, { action: 'read-tasks', body: { tasks: [] } }],
])('the id of the workspace is stored: %s', async (_what, workspace, answer) => {
  expect((await apply(answer)).workspace).toBe(workspace);
});

const NOW = 1_000_000;
const CACHED = { taskId: 't1', key: 'BUG-1', title: 'A', status: 'open', source: 'api', createdAt: '', updatedAt: '' };
const KNOWN_LINK = { item_key: 'i', task_id: 't1', known: '{"url":"u"}', remote_id: 'w1' };
const link = blankEntity('link:i>t1', 'link', KNOWN_LINK);
const document = blankEntity(entity.document('d1'), 'document', { item_key: 'i', task_id: 't1' });

test.each<[what: string, named: NamedResources, reads: string[]]>([
  ['a task', { taskIds: ['t1', 't2'] }, ['read:task:t1', 'read:task:t2']],
  ['a new task only if it is unknown', { taskIds: ['t1', 't2'], isNew: true }, ['read:task:t2']],
  ['more than three tasks by one list', { taskIds: ['a', 'b', 'c', 'd'] }, ['read:tasks']],
  ['the links of a task', { linkTaskIds: ['t1', 't2'] }, ['read:links:t1', 'read:links:t2']],
  ['no known link', { linkTaskIds: ['t1'], workItemId: 'w1' }, []],
  ['an unknown link', { linkTaskIds: ['t1'], workItemId: 'w2' }, ['read:links:t1']],
  ['only documents that an item names', { documentIds: ['d1', 'd2'] }, ['read:document:d1']],
])('an event that names resources causes a read of %s', async (_what, named, reads) => {
  const { query, commit } = await openTestStore();
  await saveTask(query, CACHED, NOW);
  await saveEntity(query, link);
  await saveEntity(query, document);
  const answer = { action: 'named', entity: '', sentAt: NOW, body: named } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: NOW, usedShare: 0 }));
  const rows = await query.selectFrom('outbox').select('entity').orderBy('entity').execute();
  expect(rows.map((row) => row.entity)).toEqual(reads);
});

test('a missing task causes a read of the list, and stays cached until then', async () => {
  const { query, commit } = await openTestStore();
  await saveTask(query, CACHED, NOW);
  const answer = { action: 'read-task', entity: entity.readTask('t1'), sentAt: NOW, body: null } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: NOW, usedShare: 0 }));
  expect(await query.selectFrom('outbox').select('entity').execute()).toEqual([{ entity: 'read:tasks' }]);
  expect(await query.selectFrom('tasks').select('key').execute()).toEqual([{ key: 'BUG-1' }]);
});
