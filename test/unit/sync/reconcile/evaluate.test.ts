import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { Item } from '../../../../src/model/item.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { answered, saidOf, takeBatch } from '../../../support/batches.ts';
import { look } from '../../../support/evaluations.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';

const PULL = pull({ title: 'Fixes ENG-1', url: 'https://github.com/acme/api/pull/1' });
const BUG = workItem({ type: 'Bug', url: 'https://acme.example.com/browse/ENG-1' });
const STORY = { ...BUG, type: 'Story' };
const TASK = { taskId: 't1', key: 'BUG-1', title: 'An issue', status: 'open', source: BUG.key };

async function taken(items: readonly Item[], tasks: readonly object[] = []): Promise<Store> {
  const store = await openTestStore();
  const list = tasks.length > 0 ? [answered('saw-tasks', { tasks })] : [];
  await store.commit((query) => takeBatch(query, [...list, ...items.map((item) => saidOf(item))], 1));
  return store;
}

const changes = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('kind', '!=', 'read').orderBy('entity').execute()).map(
    (row) => row.entity,
  );

test('those who name a work item are looked at when its tasks have become others, and once for each time', async () => {
  const store = await taken([STORY, PULL]);
  expect((await look(store, STORY)).again).toEqual([]);
  await saveEntity(store.query, {
    ...blankEntity(entity.task(BUG.key), 'task', { item_key: BUG.key }),
    ...{ known: '{}', remote_id: 't1' },
  });
  await store.query
    .insertInto('tasks')
    .values({ ...ROW, task_id: 't1' })
    .execute();
  expect((await look(store, STORY)).again).toEqual([PULL.key]);
  expect((await look(store, STORY)).again).toEqual([]);
});

const ROW = { key: 'BUG-1', source: 'api', status: 'open', fields: JSON.stringify(TASK), seen_at: 1 };

test.each<[what: string, isTold: boolean, tasks: readonly object[], item: Partial<typeof STORY>]>([
  ['a name that has a task', true, [TASK], { identifier: 'ENG-2' }],
  ['a name, and has no task', false, [], { identifier: 'ENG-2' }],
  ['a title', false, [TASK], { title: 'Other' }],
])('those who name a work item that gets another: %s', async (_what, isTold, tasks, fields) => {
  const names = { ...PULL, title: 'Fixes ENG-1, fixes ENG-2' };
  const store = await taken([STORY, names], tasks);
  expect((await look(store, { ...STORY, ...fields })).again).toEqual(isTold ? [PULL.key] : []);
});

test('what a text names and nobody knows is told: keys each time, ids when they come into the text', async () => {
  const id = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';
  const text = { ...PULL, title: 'BUG-7 and BUG-1', description: `https://app.example.com/workspace/tasks/${id}` };
  const store = await taken([PULL], [TASK]);
  expect(await look(store, text)).toEqual({ unknownKeys: ['BUG-7'], unknownIds: [`id:${id}`], again: [] });
  expect(await look(store, text)).toEqual({ unknownKeys: ['BUG-7'], unknownIds: [], again: [] });
});

test('of the ids that a text may mean, the one that is a task counts, and no list is read for the others', async () => {
  const store = await taken([PULL], [{ ...TASK, taskId: 'tsk_a1', key: 'tsk_a1' }]);
  const named = {
    ...PULL,
    headBranch: 'tsk_a1-fix-door',
    title: 'tsk_a1_b2 and tsk_c3-d4, see task_name and tsk_name',
  };
  const { unknownIds } = await look(store, named);
  expect(unknownIds).toEqual(['id:tsk_c3-d4']);
  const links = await store.query.selectFrom('entities').select('task_id').where('kind', '=', 'link').execute();
  expect(links).toEqual([{ task_id: 'tsk_a1' }]);
  expect((await look(store, named)).unknownIds).toEqual([]);
});

test('of what is gone nothing more is written, and what stands stays', async () => {
  const named = { ...PULL, title: 'BUG-1: a change' };
  const store = await taken([BUG, named], [{ ...TASK, source: 'api' }]);
  const link = entity.link(PULL.key, 't1');
  const record = entity.pullRequest('github', '5001', '1');
  expect(await changes(store)).toEqual([link, record, entity.task(BUG.key)]);
  expect(await look(store, { ...named, gone: true })).toEqual({ unknownKeys: [], unknownIds: [], again: [] });
  expect(await changes(store)).toEqual([entity.task(BUG.key)]);
  await look(store, { ...BUG, gone: true });
  expect(await changes(store)).toEqual([]);
  for (const name of [link, record, entity.task(BUG.key)]) expect(await findEntity(store.query, name)).toBeDefined();
});
