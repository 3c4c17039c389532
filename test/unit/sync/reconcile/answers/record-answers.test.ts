import { describe, expect, it, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { PullRequest } from '../../../../../src/model/item.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../../src/store/changes/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../../src/store/changes/outbox-rows.ts';
import { PULL_REQUESTS_READ, readMeta } from '../../../../../src/store/meta.ts';
import { saveRows } from '../../../../../src/store/unit-of-work/unit-of-work.ts';
import { noteListRefused, noteRecordsListed } from '../../../../../src/store/workspace/server-capabilities.ts';
import { type Answer, readAnswer } from '../../../../../src/store/workspace/workspace-reads.ts';
import {
  beginSweep,
  findRunningSweep,
  noteListed,
  type Sweep,
} from '../../../../../src/store/workspace/workspace-sweeps.ts';
import { json, type Store } from '../../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import { continueRecordEvaluation } from '../../../../../src/sync/reconcile/answers/record-answers.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { START } from '../../../../support/rows/batches.ts';
import { PULL_IDENTITY, pull } from '../../../../support/rows/items.ts';
import { openRecordsRoute } from '../../../../support/rows/records-route.ts';

/** The times of the requests and of the processing. */
const REQUESTED = START + 20_000;
const NOW = START + 30_000;

const ITEM = PULL_IDENTITY.key;
const NAME = entity.pullRequest('github', '5001', '1');
const RECORD = { provider: 'github', repoId: '5001', identifier: '1', title: 'Ours', url: 'https://example.com/1' };
const THEIRS = { ...RECORD, title: 'Theirs' };
const SPRING = '2026-03-01T00:00:00Z';
const SUMMER = '2026-06-01T00:00:00Z';

interface Before {
  readonly known?: object | null;
  readonly knownAt?: number;
  /** The stored request of the change of the record. Absent: there is no change. */
  readonly sent?: string | null;
  readonly hasItem?: boolean;
}

async function recorded({ known = null, knownAt = REQUESTED - 1, sent, hasItem = true }: Before): Promise<Store> {
  const store = await openTestStore();
  await openRecordsRoute(store.query);
  const row = { item_key: hasItem ? ITEM : null, known: known && JSON.stringify(known), known_at: knownAt };
  await saveEntity(store.query, blankEntity(NAME, 'pull_request', row));
  if (sent !== undefined) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(store.query, { entity: NAME, kind: 'pull_request', lane: 'mirror', ...times });
    await updateChange(store.query, NAME, { sent });
  }
  return store;
}

async function apply({ commit }: Store, action: Answer['action'], body: unknown, more: Partial<Answer> = {}) {
  return commit((query) =>
    applyAnswer(query, { action, entity: NAME, sentAt: REQUESTED, body, ...more }, { now: NOW, usedShare: 0 }),
  );
}

const known = async ({ query }: Store) => json((await findEntity(query, NAME))?.known ?? null);

/** The known record after the server returned it in its own spelling. */
async function spelled(record: object): Promise<object> {
  const store = await recorded({ known: record });
  await apply(store, 'saw-record', record);
  return (await known(store)) ?? {};
}

interface Expected {
  readonly title: string | undefined;
  readonly knownAt?: number;
  readonly isEvaluated?: boolean;
  readonly isEdited?: boolean;
}

const UNCHANGED = { title: 'Ours', knownAt: REQUESTED - 1 };
const EDITED = { title: 'Theirs', knownAt: NOW, isEvaluated: true, isEdited: true };

test.each<[what: string, expected: Expected, before: Before, record?: object]>([
  ['that is not known becomes known', { title: 'Theirs', isEvaluated: true }, {}],
  ['with other content was edited', EDITED, { known: RECORD }],
  ['with the known content was not edited', UNCHANGED, { known: RECORD }, RECORD],
  ['that became known after its request is outdated', { title: 'Ours' }, { known: RECORD, knownAt: REQUESTED + 1 }],
  ['whose request is in flight is unchanged until its answer', UNCHANGED, { known: RECORD, sent: '{}' }],
  ['whose change waits was edited', EDITED, { known: RECORD, sent: null }],
])('a record %s', async (_what, { title, knownAt, isEvaluated, isEdited }, before, record = THEIRS) => {
  const store = await recorded(before);
  const { reevaluate, edited } = await apply(store, 'saw-record-edit', record);
  expect(await known(store)).toMatchObject({ title });
  if (knownAt !== undefined) expect((await findEntity(store.query, NAME))?.known_at).toBe(knownAt);
  expect([reevaluate, edited]).toEqual([isEvaluated ? [ITEM] : [], isEdited ? [ITEM] : []]);
});

test('a record that is older than the known one changes nothing', async () => {
  const before = await spelled({ ...RECORD, updatedAt: SUMMER });
  const titleAfter = async (updatedAt?: string) => {
    const store = await recorded({ known: before });
    await apply(store, 'saw-record-edit', { ...THEIRS, updatedAt });
    return (await known(store))?.['title'];
  };
  expect(await titleAfter(SPRING)).toBe('Ours');
  expect(await titleAfter(SUMMER)).toBe('Theirs');
  expect(await titleAfter()).toBe('Theirs');
});

test('our record stays as worksync wrote it in any spelling, and a new spelling is an edit', async () => {
  const store = await recorded({ known: RECORD });
  const theirs = { ...RECORD, title: 'OURS', updatedAt: SPRING };
  expect((await apply(store, 'record-pull-request', theirs)).reevaluate).toEqual([]);
  expect(await known(store)).toMatchObject({ title: 'Ours', changedAt: SPRING });
  const swapped = Object.fromEntries(Object.entries({ ...theirs, updatedAt: SUMMER }).toReversed());
  expect(await apply(store, 'saw-record-edit', swapped)).toMatchObject({ reevaluate: [], edited: [] });
  expect(await known(store)).toMatchObject({ title: 'Ours', changedAt: SUMMER });
  expect((await apply(store, 'saw-record-edit', THEIRS)).edited).toEqual([ITEM]);
});

test('the answer to our own write makes a record known, without an item too', async () => {
  const store = await recorded({});
  expect((await apply(store, 'record-pull-request', RECORD)).reevaluate).toEqual([ITEM]);
  expect(await known(store)).toMatchObject({ title: 'Ours' });
  const other = await openTestStore();
  expect((await apply(other, 'record-pull-request', RECORD)).reevaluate).toEqual([]);
  expect(await findEntity(other.query, NAME)).toMatchObject({ kind: 'pull_request', item_key: null, known_at: NOW });
});

test('an answer that was requested before our last write changes nothing before its answer', async () => {
  const store = await recorded({ known: RECORD, knownAt: REQUESTED + 1 });
  await apply(store, 'saw-record', RECORD);
  expect(await known(store)).toEqual(RECORD);
});

test.each<[what: string, taskIds: string[], row: Partial<EntityRow>]>([
  ['is not linked if its link was removed after the request', [], { known: null, revision: 5 }],
  ['is linked if its link was removed before the request', ['t1'], { known: null, revision: 4 }],
  ['is linked if its link became known after the request', ['t1'], { known: '{}', revision: 5 }],
])('a task that a record lists %s', async (_what, taskIds, row) => {
  const store = await recorded({ known: RECORD });
  const ids = { item_key: ITEM, task_id: 't1', ...row };
  await saveEntity(store.query, blankEntity(entity.link(ITEM, 't1'), 'link', ids));
  await apply(store, 'saw-record', { ...RECORD, taskIds: ['t1'] }, { asOf: 4 });
  expect(await known(store)).toMatchObject({ taskIds });
});

test.each<Answer['action']>(['saw-record', 'saw-records', 'saw-record-edit', 'read-records'])(
  'without the route for records, %s changes nothing',
  async (action) => {
    const store = await openTestStore();
    expect((await apply(store, action, RECORD)).reevaluate).toEqual([]);
    expect(await findEntity(store.query, NAME)).toBeUndefined();
  },
);

test('the first list after the route was closed starts a comparison of all records', async () => {
  const store = await openTestStore();
  const { query, commit } = store;
  await saveEntity(query, blankEntity(NAME, 'pull_request', { item_key: ITEM, known: JSON.stringify(RECORD) }));
  await noteListRefused(query, { status: 404, own: true, error: 'why' }, { now: 1, isWorkspaceRead: true });
  await noteRecordsListed(query, 2);
  await apply(store, 'read-pull-requests', { pullRequests: [], nextCursor: null });
  const steps = await query.selectFrom('inbox').select('event').execute();
  expect(steps).toEqual([{ event: 'evaluate-records' }]);
  const reevaluate = await commit((own) =>
    continueRecordEvaluation(own, { ...STEP, entity: '' }, { now: NOW, usedShare: 0 }),
  );
  expect(reevaluate).toEqual([ITEM]);
});

const STEP = { action: 'evaluate-records', sentAt: NOW, body: null } as const;

test('a record without a list of tasks keeps the known list', async () => {
  const store = await recorded({ known: { ...RECORD, taskIds: ['t1'] } });
  await apply(store, 'saw-record-edit', THEIRS);
  expect(await known(store)).toMatchObject({ title: 'Theirs', taskIds: ['t1'] });
});

test('all records count as read after the last page', async () => {
  const store = await recorded({ known: RECORD });
  const page = { began: REQUESTED, isEnd: false, isComplete: false };
  await apply(store, 'read-pull-requests', { pullRequests: [RECORD], nextCursor: 'more' }, { page });
  expect(await readMeta(store.query, PULL_REQUESTS_READ)).toBeUndefined();
  expect(await apply(store, 'read-pull-requests', { pullRequests: [THEIRS], nextCursor: null })).toMatchObject({
    reevaluate: [ITEM],
    isSweep: false,
  });
  expect(await readMeta(store.query, PULL_REQUESTS_READ)).toBe(String(NOW));
});

describe('a sweep round', () => {
  const PULLS = ['1', '2', '3'].map((identifier) =>
    pull({
      ...{ key: `github:github.com:5001:pull:${identifier}`, identifier, updatedAt: START },
      url: `https://github.com/acme/api/pull/${identifier}`,
    }),
  ) as [PullRequest, PullRequest, PullRequest];
  const recordOf = ({ identifier, url, title, headBranch, baseBranch, state }: PullRequest, fields = {}) => ({
    ...{ provider: 'github', repoId: '5001', identifier, url, title, headBranch, baseBranch, state, taskIds: [] },
    ...fields,
  });

  /** A store with an open round with these fields, which has listed one record. */
  async function round(fields: Partial<Sweep> = {}): Promise<Store> {
    const store = await openTestStore();
    const { sweep } = await beginSweep(store.query, REQUESTED);
    await saveRows(store.query, 'workspace_sweeps', [{ ...sweep, ...fields }]);
    await noteListed(store.query, ['before']);
    return store;
  }

  const PAGE = { pullRequests: [recordOf(PULLS[0])], nextCursor: null };
  /** A page that is not the last one of a list that began when this one was requested. */
  const MORE = { page: { began: REQUESTED, isEnd: false, isComplete: false } };
  const LATER = { cursor: 'c', ...MORE };
  const LAST = { cursor: 'c' };
  const BEGAN = { list_began_at: REQUESTED };
  const COMPARISON = { action: 'compare-records', entity: '', sentAt: REQUESTED, body: null };

  const comparisons = async ({ query }: Store) =>
    (await query.selectFrom('inbox').selectAll().where('event', '=', 'compare-records').execute()).map(({ body }) =>
      readAnswer(body ?? Buffer.alloc(0)),
    );

  type Next = 'compares' | 'requests' | 'waits';

  it.each<[what: string, listed: string[], next: Next, sweep: Partial<Sweep>, answer: Partial<Answer>]>([
    ['the first page', ['new'], 'waits', {}, MORE],
    ['the only page', ['new'], 'compares', {}, {}],
    ['a later page', ['before', 'new'], 'waits', BEGAN, LATER],
    ['the last page', ['before', 'new'], 'compares', BEGAN, LAST],
    ['a page of a list that began before the round', ['before'], 'waits', {}, LATER],
    ['the last page of a list that began before the round', ['before'], 'requests', {}, LAST],
    ['a page that was requested before the round', ['before'], 'waits', {}, { sentAt: REQUESTED - 1 }],
    ['a page after the records were compared', ['before'], 'waits', { records_at: REQUESTED }, {}],
  ])('handles %s: it has listed %j, and %s', async (_what, listed, next, sweep, more) => {
    const store = await round(sweep);
    await apply(store, 'read-pull-requests', PAGE, { entity: '', ...more });
    const rows = await store.query.selectFrom('workspace_listed').select('entity').orderBy('entity').execute();
    expect(rows.map((row) => (row.entity === NAME ? 'new' : row.entity))).toEqual(listed);
    expect(await comparisons(store)).toEqual(next === 'compares' ? [COMPARISON] : []);
    const read = await findChange(store.query, entity.readPullRequests);
    if (next === 'requests') expect(read).toMatchObject({ lane: 'backfill', due: NOW });
    else expect(read).toBeUndefined();
  });

  it('compares nothing at the end of an incomplete list', async () => {
    const store = await round();
    await apply(store, 'read-pull-requests', PAGE, { page: { ...MORE.page, isEnd: true } });
    expect(await comparisons(store)).toEqual([]);
    expect((await findRunningSweep(store.query))?.records_at).toBe(NOW);
  });
});
