import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { WorkItem } from '../../../../src/model/item.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../src/store/entities.ts';
import { itemsNamed } from '../../../../src/store/item-names.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { PLAIN_RULES } from '../../../../src/sync/reconcile/context.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { saidOf, takeBatch } from '../../../support/rows/batches.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { workItem } from '../../../support/rows/items.ts';

const BUG = workItem({ type: 'Bug' });
const NAME = entity.task(BUG.key);
const DESIRED = JSON.stringify({ kind: 'bug', title: 'An issue', source: BUG.key });
const WAITING = { state: 'pending', sent: null } as const;
const IN_FLIGHT = { state: 'sending', sent: '{}' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  readonly change?: { readonly state: 'pending' | 'sending'; readonly sent: string | null };
  /** A task whose source is the item, or that the item names. */
  readonly task?: object;
}

async function storeWith({ row, change, task }: Before) {
  const store = await openTestStore();
  const { query } = store;
  if (row) await saveEntity(query, { ...blankEntity(NAME, 'task', { item_key: BUG.key }), ...row });
  if (change) {
    await addDifference(query, {
      entity: NAME,
      kind: 'task',
      lane: 'triage',
      since: 1,
      due: 1,
      weight: 1,
      waiting: [],
    });
    await updateChange(query, NAME, change);
  }
  const other = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };
  if (task) await saveTask(query, { ...other, ...task }, 1);
  return store;
}

const PENDING = { state: 'pending', effect: 'creation', lane: 'triage' };

test.each<
  [
    what: string,
    desired: object | null | undefined,
    change: object | undefined,
    before: Before,
    item?: Partial<WorkItem>,
  ]
>([
  ['matches a rule', { kind: 'bug', title: 'An issue' }, PENDING, {}],
  ['has changed', { title: 'Other' }, PENDING, { row: { desired: DESIRED }, change: WAITING }, { title: 'Other' }],
  [
    'has a task that worksync created',
    { title: 'An issue' },
    undefined,
    { row: { desired: DESIRED, known: '{}' } },
    { title: 'Other' },
  ],
  ['has a task of another client', undefined, undefined, { task: { source: BUG.key } }],
  [
    'got a task meanwhile',
    undefined,
    undefined,
    { row: { desired: DESIRED }, change: WAITING, task: { source: BUG.key } },
  ],
  [
    'names a task',
    undefined,
    undefined,
    { task: {} },
    { title: 'As BUG-1', url: 'https://acme.example.com/browse/ENG-1' },
  ],
  ['matches no rule', undefined, undefined, {}, { type: 'Story' }],
  ['no longer matches a rule', undefined, undefined, { row: { desired: DESIRED }, change: WAITING }, { type: 'Story' }],
  [
    'no longer matches a rule while the creation is in flight',
    null,
    IN_FLIGHT,
    { row: { desired: DESIRED }, change: IN_FLIGHT },
    { type: 'Story' },
  ],
])('the task of an item that %s', async (_what, desired, change, before, fields = {}) => {
  const store = await storeWith(before);
  await look(store, { ...BUG, ...fields });
  const row = await findEntity(store.query, NAME);
  if (desired === undefined) expect(row).toBeUndefined();
  else if (desired === null) expect(row).toMatchObject({ desired: null });
  else expect(json(row?.desired ?? null)).toMatchObject(desired);
  const found = await findChange(store.query, NAME);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
});

test('without triage a waiting creation is cancelled, and nothing is stored', async () => {
  const store = await storeWith({ row: { desired: DESIRED }, change: WAITING });
  const other = { ...BUG, key: 'jira:cloud-1:10002' };
  for (const item of [BUG, other]) await look(store, item, { rules: PLAIN_RULES });
  for (const { key } of [BUG, other]) {
    expect(await findEntity(store.query, entity.task(key))).toBeUndefined();
    expect(await findChange(store.query, entity.task(key))).toBeUndefined();
  }
});

test('a waiting creation is postponed only if the task changes', async () => {
  const due = async (fields: Partial<WorkItem>) => {
    const store = await storeWith({});
    await look(store, BUG);
    await updateChange(store.query, NAME, { due: 1 });
    await look(store, { ...BUG, ...fields });
    return (await findChange(store.query, NAME))?.due;
  };
  expect(await due({})).toBe(1);
  expect(await due({ title: 'Other' })).toBeGreaterThan(1);
});

test('a backfill does not confirm new tasks', async () => {
  const store = await openTestStore();
  await look(store, BUG, { cause: { isBackfill: true } });
  expect(await findChange(store.query, NAME)).toMatchObject({ lane: 'backfill', guard: null });
});

test('a moved item passes its names and its task to the item in which it goes on', async () => {
  const moved = workItem({ type: 'Bug', identifier: 'ENG-1', url: 'https://a.example/browse/ENG-1' });
  const next = workItem({
    key: 'jira:cloud-1:10077',
    type: 'Bug',
    identifier: 'OPS-9',
    url: 'https://a.example/browse/OPS-9',
  });
  const { query, commit } = await openTestStore();
  const made = { known: '{}', desired: DESIRED, remote_id: 't1' };
  await saveEntity(query, { ...blankEntity(entity.task(moved.key), 'task', { item_key: moved.key }), ...made });
  await commit((transaction) => takeBatch(transaction, [saidOf(moved)], 1));
  await commit((transaction) => takeBatch(transaction, [saidOf({ ...moved, updatedAt: 2_000, movedTo: next.key })], 2));
  await commit((transaction) => takeBatch(transaction, [saidOf(next)], 3));
  const named = async (name: string) => (await itemsNamed(query, [name])).map(({ itemKey }) => itemKey);
  expect([await named('ENG-1'), await named('OPS-9')]).toEqual([[next.key], [next.key]]);
  expect(await findEntity(query, entity.task(next.key))).toMatchObject({ remote_id: 't1' });
  expect(await findChange(query, entity.task(next.key))).toBeUndefined();
});
