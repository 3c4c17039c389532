import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { Item } from '../../../../src/model/item.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { explainItem } from '../../../../src/sync/reconcile/explain.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { answered, RULES, SOURCES, saidOf, takeBatch } from '../../../support/rows/batches.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const PULL = pull({ title: 'Fixes ENG-1', url: 'https://github.com/acme/api/pull/1' });
const BUG = workItem({ type: 'Bug', url: 'https://acme.example.com/browse/ENG-1' });
const STORY = { ...BUG, type: 'Story' };
const TASK = { taskId: 't1', key: 'BUG-1', title: 'An issue', status: 'open', source: BUG.key };

async function storeWith(items: readonly Item[], tasks: readonly object[] = []): Promise<Store> {
  const store = await openTestStore();
  const list = tasks.length > 0 ? [answered('saw-tasks', { tasks })] : [];
  await store.commit((query) => takeBatch(query, [...list, ...items.map((item) => saidOf(item))], 1));
  return store;
}

const changes = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('kind', '!=', 'read').orderBy('entity').execute()).map(
    (row) => row.entity,
  );

test('the items that name a work item are dependents once after each change of its tasks', async () => {
  const store = await storeWith([STORY, PULL]);
  expect((await look(store, STORY)).dependents).toEqual([]);
  await saveEntity(store.query, {
    ...blankEntity(entity.task(BUG.key), 'task', { item_key: BUG.key }),
    ...{ known: '{}', remote_id: 't1' },
  });
  await store.query
    .insertInto('tasks')
    .values({ ...ROW, task_id: 't1' })
    .execute();
  expect((await look(store, STORY)).dependents).toEqual([PULL.key]);
  expect((await look(store, STORY)).dependents).toEqual([]);
});

const ROW = { key: 'BUG-1', source: 'api', status: 'open', fields: JSON.stringify(TASK), seen_at: 1 };

test.each<[what: string, isDependent: boolean, tasks: readonly object[], item: Partial<typeof STORY>]>([
  ['name, with a task', true, [TASK], { identifier: 'ENG-2' }],
  ['name, without a task', false, [], { identifier: 'ENG-2' }],
  ['title', false, [TASK], { title: 'Other' }],
])('the items that name a work item with a new %s', async (_what, isDependent, tasks, fields) => {
  const names = { ...PULL, title: 'Fixes ENG-1, fixes ENG-2' };
  const store = await storeWith([STORY, names], tasks);
  expect((await look(store, { ...STORY, ...fields })).dependents).toEqual(isDependent ? [PULL.key] : []);
});

test('returns unknown keys each time, and unknown ids when the text contains them first', async () => {
  const id = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';
  const text = { ...PULL, title: 'BUG-7 and BUG-1', description: `https://app.example.com/workspace/tasks/${id}` };
  const store = await storeWith([PULL], [TASK]);
  expect(await look(store, text)).toEqual({
    unknownKeys: ['BUG-7'],
    unknownIds: [`id:${id}`],
    dependents: [],
    tasks: [],
  });
  expect(await look(store, text)).toEqual({ unknownKeys: ['BUG-7'], unknownIds: [], dependents: [], tasks: [] });
});

test('only the existing reading of an id counts, and the others are not returned as unknown', async () => {
  const store = await storeWith([PULL], [{ ...TASK, taskId: 'tsk_a1', key: 'tsk_a1' }]);
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

test('a gone item withdraws its waiting changes, and its records, links and tasks stay', async () => {
  const named = { ...PULL, title: 'BUG-1: a change' };
  const store = await storeWith([BUG, named], [{ ...TASK, source: 'api' }]);
  const link = entity.link(PULL.key, 't1');
  const record = entity.pullRequest('github', '5001', '1');
  expect(await changes(store)).toEqual([link, record, entity.task(BUG.key)]);
  expect(await look(store, { ...named, gone: true })).toEqual({
    unknownKeys: [],
    unknownIds: [],
    dependents: [],
    tasks: [],
  });
  expect(await changes(store)).toEqual([entity.task(BUG.key)]);
  await look(store, { ...BUG, gone: true });
  expect(await changes(store)).toEqual([]);
  for (const name of [link, record, entity.task(BUG.key)]) expect(await findEntity(store.query, name)).toBeDefined();
});

const NAMED = workItem({ type: 'Story', url: 'https://acme.example.com/browse/ENG-1' });
const NAMED_TASK = { taskId: 't1', key: 'BUG-1', title: 'An issue', status: 'open', source: NAMED.key };
const OLD = pull({ title: 'Fixes ENG-1', url: 'https://github.com/acme/api/pull/1' });
const LATE = pull({ ...OLD, key: `${OLD.key}2`, identifier: '2', url: 'https://github.com/acme/api/pull/2' });
const LINK = entity.link(OLD.key, 't1');

let seconds = 1;
const take = (store: Store, ...items: readonly Item[]) =>
  store.commit((query) =>
    takeBatch(
      query,
      items.map((item) => saidOf(item)),
      ++seconds,
    ),
  );
const linkChanges = async ({ query }: Store) =>
  (
    await query
      .selectFrom('outbox')
      .select('entity')
      .where('entity', 'like', 'link:github%')
      .orderBy('entity')
      .execute()
  ).map((row) => row.entity);
const explained = (store: Store, { key }: Item) =>
  explainItem(store.query, key, { sources: SOURCES, rules: RULES, now: 1 });

/** The link of `OLD` exists in the workspace, and then the work item is moved to another project. */
async function moved(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [answered('saw-tasks', { tasks: [NAMED_TASK] })], 1));
  await take(store, NAMED, OLD);
  const row = (await findEntity(store.query, LINK))!;
  await saveEntity(store.query, { ...row, known: row.desired, known_at: 1, remote_id: 'w1' });
  await store.query.deleteFrom('outbox').execute();
  const later = { updatedAt: NAMED.updatedAt + 1_000, containerId: '9', containerName: 'OPS' };
  await take(store, { ...NAMED, ...later, identifier: 'OPS-3', url: 'https://acme.example.com/browse/OPS-3' });
  return store;
}

const TOUCHED = { ...OLD, labels: ['api'], updatedAt: OLD.updatedAt + 500 };

test('a moved item keeps its links, and gets new ones by its former name', async () => {
  const store = await moved();
  await take(store, TOUCHED);
  expect(await linkChanges(store)).toEqual([]);
  await take(store, LATE);
  expect(await linkChanges(store)).toEqual([entity.link(LATE.key, 't1')]);
  const [link] = (await explained(store, LATE))?.links ?? [];
  expect(link?.reason).toMatchObject({ text: 'ENG-1', via: NAMED.key, isFormerName: true });
});

test('a name that another item takes over removes no existing link, and cancels a waiting one', async () => {
  const store = await moved();
  await take(store, LATE);
  const other = { key: `${NAMED.key}0`, updatedAt: NAMED.updatedAt + 2_000 };
  await take(store, workItem({ ...NAMED, ...other, title: 'Another' }));
  await take(store, TOUCHED);
  expect(await linkChanges(store)).toEqual([]);
  expect((await explained(store, OLD))?.links).toMatchObject([{ taskId: 't1', state: 'linked' }]);
  expect((await explained(store, LATE))?.links).toEqual([]);
});

test('a text without the former name removes the link', async () => {
  const store = await moved();
  await take(store, { ...OLD, title: 'Fixes nothing', updatedAt: OLD.updatedAt + 1_000 });
  expect(await linkChanges(store)).toEqual([LINK]);
});
