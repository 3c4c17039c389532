import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { Item } from '../../../../src/model/item.ts';
import type { Store } from '../../../../src/store/database.ts';
import { findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { explainItem } from '../../../../src/sync/reconcile/explain.ts';
import { answered, RULES, SOURCES, saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';

const STORY = workItem({ type: 'Story', url: 'https://acme.example.com/browse/ENG-1' });
const TASK = { taskId: 't1', key: 'BUG-1', title: 'An issue', status: 'open', source: STORY.key };
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
const changes = async ({ query }: Store) =>
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

/** The link of `OLD` stands in the workspace; then the story is moved. */
async function moved(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [answered('saw-tasks', { tasks: [TASK] })], 1));
  await take(store, STORY, OLD);
  const row = (await findEntity(store.query, LINK))!;
  await saveEntity(store.query, { ...row, known: row.desired, known_at: 1, remote_id: 'w1' });
  await store.query.deleteFrom('outbox').execute();
  const later = { updatedAt: STORY.updatedAt + 1_000, containerId: '9', containerName: 'OPS' };
  await take(store, { ...STORY, ...later, identifier: 'OPS-3', url: 'https://acme.example.com/browse/OPS-3' });
  return store;
}

const TOUCHED = { ...OLD, labels: ['api'], updatedAt: OLD.updatedAt + 500 };

test('an item that was moved keeps its links, and takes new ones by its former name', async () => {
  const store = await moved();
  await take(store, TOUCHED);
  expect(await changes(store)).toEqual([]);
  await take(store, LATE);
  expect(await changes(store)).toEqual([entity.link(LATE.key, 't1')]);
  const [link] = (await explained(store, LATE))?.links ?? [];
  expect(link?.reason).toMatchObject({ text: 'ENG-1', via: STORY.key, isFormerName: true });
});

test('a name that another item takes removes no link, and makes none that waits', async () => {
  const store = await moved();
  await take(store, LATE);
  const other = { key: `${STORY.key}0`, updatedAt: STORY.updatedAt + 2_000 };
  await take(store, workItem({ ...STORY, ...other, title: 'Another' }));
  await take(store, TOUCHED);
  expect(await changes(store)).toEqual([]);
  expect((await explained(store, OLD))?.links).toMatchObject([{ taskId: 't1', state: 'linked' }]);
  expect((await explained(store, LATE))?.links).toEqual([]);
});

test('the text that no longer has the name removes the link as ever', async () => {
  const store = await moved();
  await take(store, { ...OLD, title: 'Fixes nothing', updatedAt: OLD.updatedAt + 1_000 });
  expect(await changes(store)).toEqual([LINK]);
});
