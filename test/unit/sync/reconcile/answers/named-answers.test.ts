import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import { saveTask } from '../../../../../src/store/cached-tasks.ts';
import { blankEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import type { Named } from '../../../../../src/sync/reconcile/answers/named-answers.ts';
import { openTestStore } from '../../../../support/intake.ts';

const NOW = 1_000_000;
const TASK = { taskId: 't1', key: 'BUG-1', title: 'A', status: 'open', source: 'api', createdAt: '', updatedAt: '' };
const LINK = { item_key: 'i', task_id: 't1', known: '{"url":"u"}', remote_id: 'w1' };
const link = blankEntity('link:i>t1', 'link', LINK);
const document = blankEntity(entity.document('d1'), 'document', { item_key: 'i', task_id: 't1' });

test.each<[what: string, named: Named, reads: string[]]>([
  ['a task', { taskIds: ['t1', 't2'] }, ['read:task:t1', 'read:task:t2']],
  ['a new task only if it is not known', { taskIds: ['t1', 't2'], isNew: true }, ['read:task:t2']],
  ['more than three tasks by one list', { taskIds: ['a', 'b', 'c', 'd'] }, ['read:tasks']],
  ['the links of a task', { linkTaskIds: ['t1', 't2'] }, ['read:links:t1', 'read:links:t2']],
  ['no link that is known', { linkTaskIds: ['t1'], workItemId: 'w1' }, []],
  ['a link that is not known', { linkTaskIds: ['t1'], workItemId: 'w2' }, ['read:links:t1']],
  ['only documents that an item names', { documentIds: ['d1', 'd2'] }, ['read:document:d1']],
])('an event that names resources reads %s', async (_what, named, reads) => {
  const { query, commit } = await openTestStore();
  await saveTask(query, TASK, NOW);
  await saveEntity(query, link);
  await saveEntity(query, document);
  const answer = { action: 'named', entity: '', sentAt: NOW, body: named } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: NOW, usedShare: 0 }));
  const rows = await query.selectFrom('outbox').select('entity').orderBy('entity').execute();
  expect(rows.map((row) => row.entity)).toEqual(reads);
});

test('a single task that is not there requests the list and is not forgotten', async () => {
  const { query, commit } = await openTestStore();
  await saveTask(query, TASK, NOW);
  const answer = { action: 'read-task', entity: entity.readTask('t1'), sentAt: NOW, body: null } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: NOW, usedShare: 0 }));
  expect(await query.selectFrom('outbox').select('entity').execute()).toEqual([{ entity: 'read:tasks' }]);
  expect(await query.selectFrom('tasks').select('key').execute()).toEqual([{ key: 'BUG-1' }]);
});
