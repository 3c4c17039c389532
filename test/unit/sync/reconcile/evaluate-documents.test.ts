import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { PLAIN_RULES, type Rules } from '../../../../src/sync/reconcile/item-rules.ts';
import { look } from '../../../support/evaluations.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull } from '../../../support/items.ts';

const URL = 'https://github.com/acme/api/pull/1';
const NAMING = pull({ url: URL, title: 'BUG-1: a change', description: 'https://app.example.com/workspace/docs/d1' });
const DOCUMENT = entity.document('d1');
const READ = entity.readDocument('d1');
const LOOSE = JSON.stringify({ taskId: null, isMissing: false });
const ATTACHED = JSON.stringify({ taskId: 't1', isMissing: false });

interface Before {
  readonly row?: Partial<EntityRow>;
  readonly change?: { readonly state: 'pending' | 'sending'; readonly sent: string | null };
}

async function claimed({ row, change }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  const task = { key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };
  await saveTask(query, { ...task, taskId: 't1' }, 1);
  await saveTask(query, { ...task, taskId: 't0', key: 'BUG-2' }, 1);
  if (row) await saveEntity(query, { ...blankEntity(DOCUMENT, 'document', { item_key: NAMING.key }), ...row });
  const times = { since: 1, due: 1, weight: 1, waiting: [] };
  if (change) {
    await addDifference(query, { entity: DOCUMENT, kind: 'document', lane: 'link', ...times });
    await updateChange(query, DOCUMENT, change);
    await addDifference(query, { entity: READ, kind: 'read', lane: 'link', ...times });
  }
  return store;
}

type Asked = readonly ('read' | 'attached')[];

async function asked({ query }: Store): Promise<Asked> {
  const [read, attached] = [await findChange(query, READ), await findChange(query, DOCUMENT)];
  return [...(read ? (['read'] as const) : []), ...(attached ? (['attached'] as const) : [])];
}

test.each<[what: string, expected: Asked, row?: Partial<EntityRow>, item?: Partial<typeof NAMING>, rules?: Rules]>([
  ['that nobody knows is read first', ['read']],
  ['that stands nowhere is attached', ['attached'], { known: LOOSE }],
  ['that stands at a task stays there', [], { known: ATTACHED }],
  ['that is missing cannot be', [], { known: JSON.stringify({ taskId: null, isMissing: true }) }],
  ['that a person moved is left alone', [], { known: LOOSE, hand: 'removed' }],
  ['that another item has claimed is left to that', [], { known: LOOSE, item_key: 'other' }],
  ['of an item without a task is not', [], undefined, { title: 'A change' }],
  ['is left alone where documents are switched off', [], { known: LOOSE }, {}, PLAIN_RULES],
])('a document %s', async (_what, expected, row, fields = {}, rules) => {
  const store = await claimed(row ? { row } : {});
  await look(store, { ...NAMING, ...fields }, rules && { rules });
  expect(await asked(store)).toEqual(expected);
});

test('it is attached to the first task of the item that nobody took away', async () => {
  const store = await claimed({});
  await look(store, { ...NAMING, title: 'BUG-1 and BUG-2: a change' });
  expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't0', item_key: NAMING.key });
  const link = await findEntity(store.query, entity.link(NAMING.key, 't0'));
  if (!link) throw new Error('no link is wanted');
  await saveEntity(store.query, { ...link, hand: 'removed' });
  await look(store, { ...NAMING, title: 'BUG-1 and BUG-2: a change' });
  expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't1' });
});

const CLAIMED = { task_id: 't1', desired: '{}' };
const WAITS = { state: 'pending', sent: null } as const;
const FLIES = { state: 'sending', sent: '{}' } as const;

test.each<[what: string, isLetGo: boolean, before: Before]>([
  ['that waits is let go', true, { row: { ...CLAIMED, known: LOOSE }, change: WAITS }],
  ['of which nothing is known is let go', true, { row: CLAIMED }],
  ['that is attached stays so', false, { row: { ...CLAIMED, known: ATTACHED }, change: WAITS }],
  ['that is being attached stays so', false, { row: { ...CLAIMED, known: LOOSE }, change: FLIES }],
])('a document that is named no more and %s', async (_what, isLetGo, before) => {
  for (const fields of [{ description: '' }, { title: 'A change' }]) {
    const store = await claimed(before);
    await look(store, { ...NAMING, ...fields });
    expect((await findEntity(store.query, DOCUMENT)) === undefined).toBe(isLetGo);
    expect(await asked(store)).toEqual(isLetGo || !before.change ? [] : ['read', 'attached']);
  }
});
