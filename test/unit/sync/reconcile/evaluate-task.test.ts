import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { WorkItem } from '../../../../src/model/item.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { PLAIN_RULES } from '../../../../src/sync/reconcile/item-rules.ts';
import { look } from '../../../support/evaluations.ts';
import { openTestStore } from '../../../support/intake.ts';
import { workItem } from '../../../support/items.ts';

const BUG = workItem({ type: 'Bug' });
const NAME = entity.task(BUG.key);
const DESIRED = JSON.stringify({ kind: 'bug', title: 'An issue', source: BUG.key });
const WAITS = { state: 'pending', sent: null } as const;
const FLIES = { state: 'sending', sent: '{}' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  readonly change?: { readonly state: 'pending' | 'sending'; readonly sent: string | null };
  /** The key of a task of which the item is the source, or that it names. */
  readonly task?: object;
}

async function wanted({ row, change, task }: Before) {
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
  const made = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };
  if (task) await saveTask(query, { ...made, ...task }, 1);
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
  ['fits a rule', { kind: 'bug', title: 'An issue' }, PENDING, {}],
  ['has become another', { title: 'Other' }, PENDING, { row: { desired: DESIRED }, change: WAITS }, { title: 'Other' }],
  [
    'has a task that we made',
    { title: 'An issue' },
    undefined,
    { row: { desired: DESIRED, known: '{}' } },
    { title: 'Other' },
  ],
  ['has a task that somebody made', undefined, undefined, { task: { source: BUG.key } }],
  [
    'has got a task meanwhile',
    undefined,
    undefined,
    { row: { desired: DESIRED }, change: WAITS, task: { source: BUG.key } },
  ],
  [
    'names a task',
    undefined,
    undefined,
    { task: {} },
    { title: 'As BUG-1', url: 'https://acme.example.com/browse/ENG-1' },
  ],
  ['fits no rule', undefined, undefined, {}, { type: 'Story' }],
  ['fits no rule any more', undefined, undefined, { row: { desired: DESIRED }, change: WAITS }, { type: 'Story' }],
  [
    'fits no rule any more, while its task is made',
    null,
    FLIES,
    { row: { desired: DESIRED }, change: FLIES },
    { type: 'Story' },
  ],
])('a task for an item that %s', async (_what, desired, change, before, fields = {}) => {
  const store = await wanted(before);
  await look(store, { ...BUG, ...fields });
  const row = await findEntity(store.query, NAME);
  if (desired === undefined) expect(row).toBeUndefined();
  else if (desired === null) expect(row).toMatchObject({ desired: null });
  else expect(json(row?.desired ?? null)).toMatchObject(desired);
  const found = await findChange(store.query, NAME);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
});

test('where triage is switched off what was to be made is not, and nothing is remembered of others', async () => {
  const store = await wanted({ row: { desired: DESIRED }, change: WAITS });
  const other = { ...BUG, key: 'jira:cloud-1:10002' };
  for (const item of [BUG, other]) await look(store, item, { rules: PLAIN_RULES });
  for (const { key } of [BUG, other]) {
    expect(await findEntity(store.query, entity.task(key))).toBeUndefined();
    expect(await findChange(store.query, entity.task(key))).toBeUndefined();
  }
});

test('a change that waits is put off where the task becomes another, and only then', async () => {
  const due = async (fields: Partial<WorkItem>) => {
    const store = await wanted({});
    await look(store, BUG);
    await updateChange(store.query, NAME, { due: 1 });
    await look(store, { ...BUG, ...fields });
    return (await findChange(store.query, NAME))?.due;
  };
  expect(await due({})).toBe(1);
  expect(await due({ title: 'Other' })).toBeGreaterThan(1);
});

test('a request for old items does not confirm new tasks', async () => {
  const store = await openTestStore();
  await look(store, BUG, { cause: { isBackfill: true } });
  expect(await findChange(store.query, NAME)).toMatchObject({ lane: 'backfill', guard: null });
});
