import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../../src/store/entities.ts';
import { readMeta } from '../../../../../src/store/meta.ts';
import { addDifference, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { noteListRefused, noteRecordsListed } from '../../../../../src/store/server-capabilities.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { PULL_REQUESTS_READ } from '../../../../../src/store/workspace-reads.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { continueRecordEvaluation } from '../../../../../src/sync/reconcile/answers/record-answers.ts';
import { openTestStore } from '../../../../support/intake.ts';
import { PULL_IDENTITY } from '../../../../support/items.ts';
import { openRecordsRoute } from '../../../../support/records-route.ts';

/** When the answers were asked for, and when they are processed. */
const ASKED = 20_000;
const NOW = 30_000;

const ITEM = PULL_IDENTITY.key;
const NAME = entity.pullRequest('github', '5001', '1');
const RECORD = { provider: 'github', repoId: '5001', identifier: '1', title: 'Ours', url: 'https://example.com/1' };
const THEIRS = { ...RECORD, title: 'Theirs' };
const SPRING = '2026-03-01T00:00:00Z';
const SUMMER = '2026-06-01T00:00:00Z';

interface Before {
  readonly known?: object | null;
  readonly knownAt?: number;
  /** What is sent of a change of the record; absent: there is none. */
  readonly sent?: string | null;
  readonly ofItem?: boolean;
}

async function recorded({ known = null, knownAt = ASKED - 1, sent, ofItem = true }: Before): Promise<Store> {
  const store = await openTestStore();
  await openRecordsRoute(store.query);
  const row = { item_key: ofItem ? ITEM : null, known: known && JSON.stringify(known), known_at: knownAt };
  await saveEntity(store.query, blankEntity(NAME, 'pull_request', row));
  if (sent !== undefined) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(store.query, { entity: NAME, kind: 'pull_request', lane: 'mirror', ...times });
    await updateChange(store.query, NAME, { sent });
  }
  return store;
}

async function tell({ commit }: Store, action: Answer['action'], body: unknown, more: Partial<Answer> = {}) {
  return commit((query) =>
    applyAnswer(query, { action, entity: NAME, sentAt: ASKED, body, ...more }, { now: NOW, usedShare: 0 }),
  );
}

const known = async ({ query }: Store) => json((await findEntity(query, NAME))?.known ?? null);

/** As the server spells it, once it has told it. */
async function spelled(record: object): Promise<object> {
  const store = await recorded({ known: record });
  await tell(store, 'saw-record', record);
  return (await known(store)) ?? {};
}

interface Sees {
  readonly title: string | undefined;
  readonly knownAt?: number;
  readonly isAgain?: boolean;
  readonly isEdited?: boolean;
}

const NOTHING = { title: 'Ours', knownAt: ASKED - 1 };
const EDIT = { title: 'Theirs', knownAt: NOW, isAgain: true, isEdited: true };

test.each<[what: string, sees: Sees, before: Before, record?: object]>([
  ['that nobody knew becomes known', { title: 'Theirs', isAgain: true }, {}],
  ['that nobody knew, of no item, becomes known', { title: 'Theirs' }, { ofItem: false }],
  ['that is another one was edited', EDIT, { known: RECORD }],
  ['of no item that is another one was edited', { title: 'Theirs', knownAt: NOW }, { known: RECORD, ofItem: false }],
  ['as it was known is no edit', NOTHING, { known: RECORD }, RECORD],
  ['that became known when it was asked for was edited since', EDIT, { known: RECORD, knownAt: ASKED }],
  ['that became known after it was asked for is outdated', { title: 'Ours' }, { known: RECORD, knownAt: ASKED + 1 }],
  ['whose request is under way is left to its answer', NOTHING, { known: RECORD, sent: '{}' }],
  ['whose change waits was edited all the same', EDIT, { known: RECORD, sent: null }],
])('a record %s', async (_what, { title, knownAt, isAgain, isEdited }, before, record = THEIRS) => {
  const store = await recorded(before);
  const { reevaluate, edited } = await tell(store, 'saw-record-edit', record);
  expect(await known(store)).toMatchObject({ title });
  if (knownAt !== undefined) expect((await findEntity(store.query, NAME))?.known_at).toBe(knownAt);
  expect([reevaluate, edited]).toEqual([isAgain ? [ITEM] : [], isEdited ? [ITEM] : []]);
});

test('a record that the workspace changed before what is known changes nothing', async () => {
  const before = await spelled({ ...RECORD, updatedAt: SUMMER });
  const told = async (updatedAt?: string) => {
    const store = await recorded({ known: before });
    await tell(store, 'saw-record-edit', { ...THEIRS, updatedAt });
    return (await known(store))?.['title'];
  };
  expect(await told(SPRING)).toBe('Ours');
  expect(await told(SUMMER)).toBe('Theirs');
  expect(await told()).toBe('Theirs');
});

test('what is ours stays as we wrote it, however the server spells it: only another spelling is an edit', async () => {
  const store = await recorded({ known: RECORD });
  const theirs = { ...RECORD, title: 'OURS', updatedAt: SPRING };
  expect((await tell(store, 'record-pull-request', theirs)).reevaluate).toEqual([]);
  expect(await known(store)).toMatchObject({ title: 'Ours', changedAt: SPRING });
  const swapped = Object.fromEntries(Object.entries({ ...theirs, updatedAt: SUMMER }).toReversed());
  expect(await tell(store, 'saw-record-edit', swapped)).toMatchObject({ reevaluate: [], edited: [] });
  expect(await known(store)).toMatchObject({ title: 'Ours', changedAt: SUMMER });
  expect((await tell(store, 'saw-record-edit', THEIRS)).edited).toEqual([ITEM]);
});

test('our own record becomes known where nothing of it was, also where it is of no item yet', async () => {
  const store = await recorded({});
  expect((await tell(store, 'record-pull-request', RECORD)).reevaluate).toEqual([ITEM]);
  expect(await known(store)).toMatchObject({ title: 'Ours' });
  const other = await openTestStore();
  expect((await tell(other, 'record-pull-request', RECORD)).reevaluate).toEqual([]);
  expect(await findEntity(other.query, NAME)).toMatchObject({ kind: 'pull_request', item_key: null, known_at: NOW });
});

test('an answer from before our last write tells nothing of what is written and was not answered yet', async () => {
  const store = await recorded({ known: RECORD, knownAt: ASKED + 1 });
  await tell(store, 'saw-record', RECORD);
  expect(await known(store)).toEqual(RECORD);
});

test.each<[what: string, taskIds: string[], row: Partial<EntityRow>]>([
  ['is not linked if its link was removed after the request', [], { known: null, revision: 5 }],
  ['is linked if its link was removed before the request', ['t1'], { known: null, revision: 4 }],
  ['is linked if its link became known after the request', ['t1'], { known: '{}', revision: 5 }],
])('a task that a record names %s', async (_what, taskIds, row) => {
  const store = await recorded({ known: RECORD });
  const ids = { item_key: ITEM, task_id: 't1', ...row };
  await saveEntity(store.query, blankEntity(entity.link(ITEM, 't1'), 'link', ids));
  await tell(store, 'saw-record', { ...RECORD, taskIds: ['t1'] }, { asOf: 4 });
  expect(await known(store)).toMatchObject({ taskIds });
});

test.each<[action: Answer['action']]>([['saw-record'], ['saw-records'], ['saw-record-edit'], ['read-records']])(
  'without the route for records, %s changes nothing',
  async (action) => {
    const store = await openTestStore();
    expect((await tell(store, action, RECORD)).reevaluate).toEqual([]);
    expect(await findEntity(store.query, NAME)).toBeUndefined();
  },
);

test('the first list after the route was closed compares the mirror with the workspace', async () => {
  const store = await openTestStore();
  const { query, commit } = store;
  await saveEntity(query, blankEntity(NAME, 'pull_request', { item_key: ITEM, known: JSON.stringify(RECORD) }));
  await noteListRefused(query, { status: 404, own: true, error: 'why' }, { now: 1, isWorkspaceRead: true });
  await noteRecordsListed(query, 2);
  await tell(store, 'read-pull-requests', { pullRequests: [], nextCursor: null });
  const parts = await query.selectFrom('inbox').select('event').execute();
  expect(parts).toEqual([{ event: 'evaluate-records' }]);
  const reevaluate = await commit((own) =>
    continueRecordEvaluation(own, { ...PART, entity: '' }, { now: NOW, usedShare: 0 }),
  );
  expect(reevaluate).toEqual([ITEM]);
});

const PART = { action: 'evaluate-records', sentAt: NOW, body: null } as const;

test('a record that names no tasks keeps those that it was known to have', async () => {
  const store = await recorded({ known: { ...RECORD, taskIds: ['t1'] } });
  await tell(store, 'saw-record-edit', THEIRS);
  expect(await known(store)).toMatchObject({ title: 'Theirs', taskIds: ['t1'] });
});

test('all records were read when the last page has come', async () => {
  const store = await recorded({ known: RECORD });
  const page = { began: ASKED, isEnd: false, isComplete: false };
  await tell(store, 'read-pull-requests', { pullRequests: [RECORD], nextCursor: 'more' }, { page });
  expect(await readMeta(store.query, PULL_REQUESTS_READ)).toBeUndefined();
  expect(await tell(store, 'read-pull-requests', { pullRequests: [THEIRS], nextCursor: null })).toMatchObject({
    reevaluate: [ITEM],
    isSweep: false,
  });
  expect(await readMeta(store.query, PULL_REQUESTS_READ)).toBe(String(NOW));
});
