import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { PullRequest } from '../../../../../src/model/item.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { findChange, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { saveRows } from '../../../../../src/store/unit-of-work/unit-of-work.ts';
import { type Answer, readAnswer } from '../../../../../src/store/workspace-answers.ts';
import { beginSweep, findRunningSweep, noteListed, type Sweep } from '../../../../../src/store/workspace-sweeps.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { answered, START, saidOf, takeBatch } from '../../../../support/rows/batches.ts';
import { pull } from '../../../../support/rows/items.ts';
import { openRecords } from '../../../../support/rows/records-route.ts';

const PULLS = [1, 2, 3].map((number) =>
  pull({
    ...{ key: `github:github.com:5001:pull:${number}`, identifier: String(number), updatedAt: START },
    url: `https://github.com/acme/api/pull/${number}`,
  }),
);
const nameOf = ({ identifier }: PullRequest) => entity.pullRequest('github', '5001', identifier);
const recordOf = ({ identifier, url, title, headBranch, baseBranch, state }: PullRequest) => ({
  ...{ provider: 'github', repoId: '5001', identifier, url, title, headBranch, baseBranch, state, taskIds: [] },
});
const WITHOUT_ITEM = entity.pullRequest('github', '5001', '9');

/** A store with three recorded pull requests, another record, and an open sweep round. */
async function swept(): Promise<Store> {
  const store = await openTestStore();
  await openRecords(store.query);
  await store.commit((query) =>
    takeBatch(
      query,
      PULLS.map((each) => saidOf(each)),
      1,
    ),
  );
  const { query } = store;
  for (const each of PULLS) {
    const row = await findEntity(query, nameOf(each));
    if (!row) throw new Error('there is no record');
    await saveEntity(query, { ...row, known: row.desired, known_at: START + 1_000 });
  }
  await saveEntity(query, { ...blankEntity(WITHOUT_ITEM, 'pull_request'), known: '{}', known_at: START + 1_000 });
  await query.deleteFrom('outbox').execute();
  await store.commit((transaction) => beginSweep(transaction, START + 10_000));
  return store;
}

/** Applies a list of these records, and compares all known records with it. */
async function list(store: Store, listed: readonly PullRequest[]): Promise<void> {
  const page = answered(
    'read-pull-requests',
    { pullRequests: listed.map(recordOf), nextCursor: null },
    { seconds: 20 },
  );
  await store.commit((query) => takeBatch(query, [page], 21));
  await store.commit((query) => takeBatch(query, [answered('compare-records', null, { seconds: 20 })], 22));
}

test('a record that the list lacks is written again, or removed if it has no item', async () => {
  const store = await swept();
  const [there, gone, also] = PULLS as [PullRequest, PullRequest, PullRequest];
  await list(store, [there, also]);
  expect(await findEntity(store.query, nameOf(gone))).toMatchObject({ known: null, known_at: START + 22_000 });
  expect(await findChange(store.query, nameOf(gone))).toMatchObject({ state: 'pending' });
  expect((await findEntity(store.query, nameOf(there)))?.known).not.toBeNull();
  expect(await findChange(store.query, nameOf(there))).toBeUndefined();
  expect(await findEntity(store.query, WITHOUT_ITEM)).toBeUndefined();
  const [round] = await store.query.selectFrom('workspace_sweeps').select(['records_at', 'finished_at']).execute();
  expect(round).toEqual({ records_at: START + 22_000, finished_at: null });
});

test('a missing record with a request in flight stays known until the answer', async () => {
  const store = await swept();
  const [there, gone] = PULLS as [PullRequest, PullRequest];
  await store.commit((query) => takeBatch(query, [saidOf({ ...gone, title: 'Other', updatedAt: START + 15_000 })], 15));
  await updateChange(store.query, nameOf(gone), { state: 'sending', sent: '{}' });
  await list(store, [there]);
  expect((await findEntity(store.query, nameOf(gone)))?.known).not.toBeNull();
});

const REQUESTED = START + 20_000;
const NOW = START + 30_000;

async function apply({ commit }: Store, answer: Partial<Answer>) {
  const whole = { action: 'read-pull-requests', entity: '', sentAt: REQUESTED, body: null, ...answer } as const;
  return commit((query) => applyAnswer(query, whole, { now: NOW, usedShare: 0 }));
}

const pageOf = (numbers: readonly number[], nextCursor: string | null = null) => ({
  pullRequests: PULLS.filter(({ identifier }) => numbers.includes(Number(identifier))).map(recordOf),
  nextCursor,
});

/** A store with an open round with these fields. */
async function round(fields: Partial<Sweep> = {}): Promise<Store> {
  const store = await openTestStore();
  const { sweep } = await beginSweep(store.query, REQUESTED);
  await saveRows(store.query, 'workspace_sweeps', [{ ...sweep, ...fields }]);
  await noteListed(store.query, ['before']);
  return store;
}

/** A page that is not the last one of a list that began when this one was requested. */
const MORE = { began: REQUESTED, isEnd: false, isComplete: false };

const comparisons = async ({ query }: Store) =>
  (await query.selectFrom('inbox').selectAll().where('event', '=', 'compare-records').execute()).map(({ body }) =>
    readAnswer(body ?? Buffer.alloc(0)),
  );

const listed = async ({ query }: Store) =>
  (await query.selectFrom('workspace_listed').select('entity').orderBy('entity').execute()).map((row) => row.entity);

const FIRST = PULLS[0] as PullRequest;

test.each<
  [
    what: string,
    expected: string[],
    compared: boolean,
    isRequested: boolean,
    sweep: Partial<Sweep>,
    answer: Partial<Answer>,
  ]
>([
  ['the first page', [nameOf(FIRST)], false, false, {}, { body: pageOf([1], 'more'), page: MORE }],
  ['the only page', [nameOf(FIRST)], true, false, {}, { body: pageOf([1]) }],
  [
    'a later page',
    ['before', nameOf(FIRST)],
    false,
    false,
    { list_began_at: REQUESTED },
    { body: pageOf([1], 'm'), cursor: 'c', page: MORE },
  ],
  [
    'the last page',
    ['before', nameOf(FIRST)],
    true,
    false,
    { list_began_at: REQUESTED },
    { body: pageOf([1]), cursor: 'c' },
  ],
  [
    'a page of a list that began before the round',
    ['before'],
    false,
    false,
    {},
    { body: pageOf([1], 'm'), cursor: 'c', page: MORE },
  ],
  [
    'the last page of a list that began before the round',
    ['before'],
    false,
    true,
    {},
    { body: pageOf([1]), cursor: 'c' },
  ],
  [
    'a page that was requested before the round',
    ['before'],
    false,
    false,
    {},
    { body: pageOf([1]), sentAt: REQUESTED - 1 },
  ],
  [
    'a page after the records were compared',
    ['before'],
    false,
    false,
    { records_at: REQUESTED },
    { body: pageOf([1]) },
  ],
])('a round handles %s', async (_what, expected, compared, isRequested, sweep, answer) => {
  const store = await round(sweep);
  await apply(store, answer);
  expect(await listed(store)).toEqual(expected);
  const began = { action: 'compare-records', entity: '', sentAt: REQUESTED, body: null };
  expect(await comparisons(store)).toEqual(compared ? [began] : []);
  const read = await findChange(store.query, entity.readPullRequests);
  if (isRequested) expect(read).toMatchObject({ lane: 'backfill', due: NOW });
  else expect(read).toBeUndefined();
});

test('the end of an incomplete list compares nothing', async () => {
  const store = await round();
  await apply(store, { body: pageOf([1]), page: { ...MORE, isEnd: true } });
  expect(await comparisons(store)).toEqual([]);
  expect((await findRunningSweep(store.query))?.records_at).toBe(NOW);
});

test.each<[what: string, sweep: Partial<Sweep>, ended: object | undefined]>([
  ['ends the round if the tasks were listed', { list_began_at: REQUESTED, tasks_at: REQUESTED }, { finished_at: NOW }],
  ['is stored if the tasks were not listed', { list_began_at: REQUESTED }, undefined],
])('the comparison of all records %s', async (_what, sweep, ended) => {
  const store = await round(sweep);
  const applied = await apply(store, { action: 'compare-records' });
  expect(applied).toMatchObject({ reevaluate: [], isSweep: true });
  if (ended) expect(applied.swept).toMatchObject(ended);
  else expect(applied.swept).toBeUndefined();
  expect((await findRunningSweep(store.query))?.records_at).toBe(ended ? undefined : NOW);
});

test.each<[what: string, sweep: Partial<Sweep>]>([
  ['of another list', { list_began_at: REQUESTED + 1 }],
  ['that was already made', { list_began_at: REQUESTED, records_at: REQUESTED }],
  ['after the round', { list_began_at: REQUESTED, finished_at: REQUESTED }],
])('a comparison %s compares nothing', async (_what, sweep) => {
  const store = await round(sweep);
  const row = { ...blankEntity(nameOf(FIRST), 'pull_request'), item_key: FIRST.key, known: '{}', known_at: 1 };
  await saveEntity(store.query, row);
  expect(await apply(store, { action: 'compare-records' })).toEqual({ reevaluate: [], isSweep: true });
  expect(await findEntity(store.query, nameOf(FIRST))).toEqual(row);
});

test('many records are compared in steps, and each step is a delivery', async () => {
  const store = await round({ list_began_at: REQUESTED });
  await store.commit(async (query) => {
    for (let number = 100; number < 201; number++) {
      const name = entity.pullRequest('github', '5001', String(number));
      await saveEntity(query, { ...blankEntity(name, 'pull_request'), known: '{}', known_at: 1 });
    }
  });
  await apply(store, { action: 'compare-records' });
  const after = entity.pullRequest('github', '5001', '199');
  expect(await comparisons(store)).toEqual([
    { action: 'compare-records', entity: after, sentAt: REQUESTED, body: null },
  ]);
  expect((await findRunningSweep(store.query))?.records_at).toBeNull();
  await apply(store, { action: 'compare-records', entity: after });
  expect((await findRunningSweep(store.query))?.records_at).toBe(NOW);
});

const findings = async ({ query }: Store) =>
  (await query.selectFrom('workspace_findings').select(['what', 'entity']).execute()).map(
    ({ what, entity: name }) => `${what} ${name}`,
  );

test('a round reports the records that it repairs, except those with a waiting change', async () => {
  const store = await swept();
  const [edited, gone, waiting] = PULLS as [PullRequest, PullRequest, PullRequest];
  await store.commit((query) =>
    takeBatch(query, [saidOf({ ...waiting, title: 'Other', updatedAt: START + 15_000 })], 15),
  );
  const page = answered(
    'read-pull-requests',
    {
      pullRequests: [
        { ...recordOf(edited), title: 'Theirs' },
        { ...recordOf(waiting), title: 'Theirs' },
      ],
    },
    { seconds: 20 },
  );
  await store.commit((query) => takeBatch(query, [page], 21));
  await store.commit((query) => takeBatch(query, [answered('compare-records', null, { seconds: 20 })], 22));
  expect(await findings(store)).toEqual([`record-changed ${nameOf(edited)}`, `record-missing ${nameOf(gone)}`]);
  expect(await findChange(store.query, nameOf(edited))).toMatchObject({ lane: 'backfill', effect: 'repair' });
});

test('an edit that no round found is repaired without a finding', async () => {
  const store = await swept();
  const record = { ...recordOf(FIRST), title: 'Theirs' };
  await store.commit((query) => takeBatch(query, [answered('saw-record', record, { seconds: 20 })], 21));
  expect(await findings(store)).toEqual([]);
  expect(await findChange(store.query, nameOf(FIRST))).toMatchObject({ lane: 'mirror', effect: null });
});

test('a comparison takes earlier deliveries of its batch into account', async () => {
  const store = await round({ list_began_at: REQUESTED, tasks_at: REQUESTED });
  const seen = answered('saw-record', recordOf(FIRST), { seconds: 19 });
  const compared = answered('compare-records', null, { seconds: 20 });
  await store.commit((query) => takeBatch(query, [seen, compared], 1));
  expect(await findEntity(store.query, nameOf(FIRST))).toBeUndefined();
});
