import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { applyAnswer } from '../../../../src/sync/reconcile/answers/apply-answer.ts';
import { PLAIN_RULES, type Rules } from '../../../../src/sync/reconcile/context.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { pull } from '../../../support/rows/items.ts';

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

async function storeWith({ row, change }: Before): Promise<Store> {
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

type Requested = readonly ('read' | 'attached')[];

async function requested({ query }: Store): Promise<Requested> {
  const [read, attached] = [await findChange(query, READ), await findChange(query, DOCUMENT)];
  return [...(read ? (['read'] as const) : []), ...(attached ? (['attached'] as const) : [])];
}

test.each<[what: string, expected: Requested, row?: Partial<EntityRow>, item?: Partial<typeof NAMING>, rules?: Rules]>([
  ['that is not known is read first', ['read']],
  ['without a task is attached', ['attached'], { known: LOOSE }],
  ['with a task stays there', [], { known: ATTACHED }],
  ['that is missing is not attached', [], { known: JSON.stringify({ taskId: null, isMissing: true }) }],
  ['that a person moved stays there', [], { known: LOOSE, hand: 'removed' }],
  ['that another item has claimed is not attached', [], { known: LOOSE, item_key: 'other' }],
  ['of an item without a task is not attached', [], undefined, { title: 'A change' }],
  ['is not attached if documents are switched off', [], { known: LOOSE }, {}, PLAIN_RULES],
])('a document %s', async (_what, expected, row, fields = {}, rules) => {
  const store = await storeWith(row ? { row } : {});
  await look(store, { ...NAMING, ...fields }, rules && { rules });
  expect(await requested(store)).toEqual(expected);
});

test('a document is attached to the first task of the item whose link was not removed', async () => {
  const store = await storeWith({});
  await look(store, { ...NAMING, title: 'BUG-1 and BUG-2: a change' });
  expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't0', item_key: NAMING.key });
  const link = await findEntity(store.query, entity.link(NAMING.key, 't0'));
  if (!link) throw new Error('there is no link');
  await saveEntity(store.query, { ...link, hand: 'removed' });
  await look(store, { ...NAMING, title: 'BUG-1 and BUG-2: a change' });
  expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't1' });
});

const CLAIMED = { task_id: 't1', desired: '{}' };
const WAITS = { state: 'pending', sent: null } as const;
const IN_FLIGHT = { state: 'sending', sent: '{}' } as const;

test.each<[what: string, isCancelled: boolean, before: Before]>([
  ['that waits is cancelled', true, { row: { ...CLAIMED, known: LOOSE }, change: WAITS }],
  ['that is not known is cancelled', true, { row: CLAIMED }],
  ['that is attached stays attached', false, { row: { ...CLAIMED, known: ATTACHED }, change: WAITS }],
  ['whose request is in flight is attached', false, { row: { ...CLAIMED, known: LOOSE }, change: IN_FLIGHT }],
])('a document that is no longer named and %s', async (_what, isCancelled, before) => {
  for (const fields of [{ description: '' }, { title: 'A change' }]) {
    const store = await storeWith(before);
    await look(store, { ...NAMING, ...fields });
    expect((await findEntity(store.query, DOCUMENT)) === undefined).toBe(isCancelled);
    expect(await requested(store)).toEqual(isCancelled || !before.change ? [] : ['read', 'attached']);
  }
});

const REQUESTED = 20_000;
const at = (second: number) => `2026-01-05T09:00:0${second}.000Z`;
const KNOWN = { taskId: 't1', isMissing: false, updatedAt: at(5) };
const DETACHED = { taskId: null, isMissing: false };

test.each<[what: string, reported: object, known: object, hand: 'removed' | null]>([
  ['older than the attachment is ignored', { taskId: null, updatedAt: at(4) }, KNOWN, null],
  [
    'older than the attachment, with a numeric time, is ignored',
    { taskId: null, updatedAt: Date.parse(at(4)) },
    KNOWN,
    null,
  ],
  [
    'of a removal by a person is applied',
    { taskId: null, updatedAt: at(6) },
    { ...DETACHED, updatedAt: at(6) },
    'removed',
  ],
  ['of a deletion is applied at any time', { updatedAt: at(4), isMissing: true }, { isMissing: true }, 'removed'],
  ['of the same time causes a read', { taskId: null, updatedAt: at(5) }, KNOWN, null],
  ['without a time causes a read', { taskId: null }, KNOWN, null],
  ['with an unreadable time causes a read', { taskId: null, updatedAt: 'soon' }, KNOWN, null],
  ['with a time of another type causes a read', { taskId: null, updatedAt: {} }, KNOWN, null],
])('an event about an attached document, %s', async (what, reported, known, hand) => {
  const { query, commit } = await openTestStore();
  const row = {
    item_key: 'github:github.com:5001:pull:1',
    task_id: 't1',
    known: JSON.stringify(KNOWN),
    known_at: 1,
  };
  await saveEntity(query, blankEntity(DOCUMENT, 'document', { ...row, desired: '{"documentId":"d1"}' }));
  const body = { documents: [{ documentId: 'd1', ...reported }] };
  const answer = { action: 'saw-documents', entity: '', sentAt: REQUESTED, body } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: REQUESTED + 1, usedShare: 0 }));
  const after = await findEntity(query, DOCUMENT);
  expect([JSON.parse(after?.known ?? ''), after?.hand]).toEqual([expect.objectContaining(known), hand]);
  const isRead = (await findChange(query, entity.readDocument('d1'))) !== undefined;
  expect(isRead).toBe(what.endsWith('causes a read'));
});
