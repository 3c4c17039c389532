import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { PullRequest } from '../../../../../src/model/item.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { findChange, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { saveRows } from '../../../../../src/store/unit-of-work/unit-of-work.ts';
import { type Answer, readAnswer } from '../../../../../src/store/workspace-answers.ts';
import { beginSweep, noteListed, openSweep, type Sweep } from '../../../../../src/store/workspace-sweeps.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { answered, START, saidOf, takeBatch } from '../../../../support/batches.ts';
import { openTestStore } from '../../../../support/intake.ts';
import { pull } from '../../../../support/items.ts';
import { openRecords } from '../../../../support/records-route.ts';

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
const BY_NOBODY = entity.pullRequest('github', '5001', '9');

/** Three pull requests and another record, all of which the workspace had, and a round of the sweep. */
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
    if (!row) throw new Error('it is not mirrored');
    await saveEntity(query, { ...row, known: row.desired, known_at: START + 1_000 });
  }
  await saveEntity(query, { ...blankEntity(BY_NOBODY, 'pull_request'), known: '{}', known_at: START + 1_000 });
  await query.deleteFrom('outbox').execute();
  await store.commit((transaction) => beginSweep(transaction, START + 10_000));
  return store;
}

/** The list of records tells of these, and then all that is known is compared with it. */
async function list(store: Store, listed: readonly PullRequest[]): Promise<void> {
  const page = answered(
    'read-pull-requests',
    { pullRequests: listed.map(recordOf), nextCursor: null },
    { seconds: 20 },
  );
  await store.commit((query) => takeBatch(query, [page], 21));
  await store.commit((query) => takeBatch(query, [answered('compare-records', null, { seconds: 20 })], 22));
}

test('a record that the list lacks is known no longer, and is written again; one of no item is forgotten', async () => {
  const store = await swept();
  const [there, gone, also] = PULLS as [PullRequest, PullRequest, PullRequest];
  await list(store, [there, also]);
  expect(await findEntity(store.query, nameOf(gone))).toMatchObject({ known: null, known_at: START + 22_000 });
  expect(await findChange(store.query, nameOf(gone))).toMatchObject({ state: 'pending' });
  expect((await findEntity(store.query, nameOf(there)))?.known).not.toBeNull();
  expect(await findChange(store.query, nameOf(there))).toBeUndefined();
  expect(await findEntity(store.query, BY_NOBODY)).toBeUndefined();
  const [round] = await store.query.selectFrom('workspace_sweeps').select(['records_at', 'finished_at']).execute();
  expect(round).toEqual({ records_at: START + 22_000, finished_at: null });
});

test('one whose request is on its way is left to the answer to that', async () => {
  const store = await swept();
  const [there, gone] = PULLS as [PullRequest, PullRequest];
  await store.commit((query) => takeBatch(query, [saidOf({ ...gone, title: 'Other', updatedAt: START + 15_000 })], 15));
  await updateChange(store.query, nameOf(gone), { state: 'sending', sent: '{}' });
  await list(store, [there]);
  expect((await findEntity(store.query, nameOf(gone)))?.known).not.toBeNull();
});

const ASKED = START + 20_000;
const NOW = START + 30_000;

async function tell({ commit }: Store, answer: Partial<Answer>) {
  const whole = { action: 'read-pull-requests', entity: '', sentAt: ASKED, body: null, ...answer } as const;
  return commit((query) => applyAnswer(query, whole, { now: NOW, usedShare: 0 }));
}

const pageOf = (numbers: readonly number[], nextCursor: string | null = null) => ({
  pullRequests: PULLS.filter(({ identifier }) => numbers.includes(Number(identifier))).map(recordOf),
  nextCursor,
});

/** A round that runs, as these fields have it. */
async function round(fields: Partial<Sweep> = {}): Promise<Store> {
  const store = await openTestStore();
  const { sweep } = await beginSweep(store.query, ASKED);
  await saveRows(store.query, 'workspace_sweeps', [{ ...sweep, ...fields }]);
  await noteListed(store.query, ['before']);
  return store;
}

/** A page that is not the last one of a list that began when this one was requested. */
const MORE = { began: ASKED, isEnd: false, isComplete: false };

const comparisons = async ({ query }: Store) =>
  (await query.selectFrom('inbox').selectAll().where('event', '=', 'compare-records').execute()).map(({ body }) =>
    readAnswer(body ?? Buffer.alloc(0)),
  );

const listed = async ({ query }: Store) =>
  (await query.selectFrom('workspace_listed').select('entity').orderBy('entity').execute()).map((row) => row.entity);

const FIRST = PULLS[0] as PullRequest;

test.each<
  [what: string, kept: string[], compared: boolean, isAsked: boolean, sweep: Partial<Sweep>, answer: Partial<Answer>]
>([
  ['the first page', [nameOf(FIRST)], false, false, {}, { body: pageOf([1], 'more'), page: MORE }],
  ['the only page', [nameOf(FIRST)], true, false, {}, { body: pageOf([1]) }],
  [
    'a later page',
    ['before', nameOf(FIRST)],
    false,
    false,
    { list_began_at: ASKED },
    { body: pageOf([1], 'm'), cursor: 'c', page: MORE },
  ],
  [
    'the last page',
    ['before', nameOf(FIRST)],
    true,
    false,
    { list_began_at: ASKED },
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
  ['the last page of such a list', ['before'], false, true, {}, { body: pageOf([1]), cursor: 'c' }],
  ['a page from before the round', ['before'], false, false, {}, { body: pageOf([1]), sentAt: ASKED - 1 }],
  ['a page after the records were compared', ['before'], false, false, { records_at: ASKED }, { body: pageOf([1]) }],
])('of a round %s', async (_what, kept, compared, isAsked, sweep, answer) => {
  const store = await round(sweep);
  await tell(store, answer);
  expect(await listed(store)).toEqual(kept);
  const began = { action: 'compare-records', entity: '', sentAt: ASKED, body: null };
  expect(await comparisons(store)).toEqual(compared ? [began] : []);
  const read = await findChange(store.query, entity.readPullRequests);
  if (isAsked) expect(read).toMatchObject({ lane: 'backfill', due: NOW });
  else expect(read).toBeUndefined();
});

test('the end of an incomplete list compares nothing', async () => {
  const store = await round();
  await tell(store, { body: pageOf([1]), page: { ...MORE, isEnd: true } });
  expect(await comparisons(store)).toEqual([]);
  expect((await openSweep(store.query))?.records_at).toBe(NOW);
});

test.each<[what: string, sweep: Partial<Sweep>, ended: object | undefined]>([
  ['ends the round where the tasks were listed', { list_began_at: ASKED, tasks_at: ASKED }, { finished_at: NOW }],
  ['is noted where they were not', { list_began_at: ASKED }, undefined],
])('the comparison of all records %s', async (_what, sweep, ended) => {
  const store = await round(sweep);
  const taken = await tell(store, { action: 'compare-records' });
  expect(taken).toMatchObject({ reevaluate: [], isSweep: true });
  if (ended) expect(taken.swept).toMatchObject(ended);
  else expect(taken.swept).toBeUndefined();
  expect((await openSweep(store.query))?.records_at).toBe(ended ? undefined : NOW);
});

test.each<[what: string, sweep: Partial<Sweep>]>([
  ['of another list', { list_began_at: ASKED + 1 }],
  ['that was made already', { list_began_at: ASKED, records_at: ASKED }],
  ['after the round', { list_began_at: ASKED, finished_at: ASKED }],
])('a comparison %s compares nothing', async (_what, sweep) => {
  const store = await round(sweep);
  const row = { ...blankEntity(nameOf(FIRST), 'pull_request'), item_key: FIRST.key, known: '{}', known_at: 1 };
  await saveEntity(store.query, row);
  expect(await tell(store, { action: 'compare-records' })).toEqual({ reevaluate: [], isSweep: true });
  expect(await findEntity(store.query, nameOf(FIRST))).toEqual(row);
});

test('of many records some are compared at a time, and the next part is a delivery of its own', async () => {
  const store = await round({ list_began_at: ASKED });
  await store.commit(async (query) => {
    for (let number = 100; number < 201; number++) {
      const name = entity.pullRequest('github', '5001', String(number));
      await saveEntity(query, { ...blankEntity(name, 'pull_request'), known: '{}', known_at: 1 });
    }
  });
  await tell(store, { action: 'compare-records' });
  const after = entity.pullRequest('github', '5001', '199');
  expect(await comparisons(store)).toEqual([{ action: 'compare-records', entity: after, sentAt: ASKED, body: null }]);
  expect((await openSweep(store.query))?.records_at).toBeNull();
  await tell(store, { action: 'compare-records', entity: after });
  expect((await openSweep(store.query))?.records_at).toBe(NOW);
});

const findings = async ({ query }: Store) =>
  (await query.selectFrom('workspace_findings').select(['what', 'entity']).execute()).map(
    ({ what, entity: name }) => `${what} ${name}`,
  );

test('a round reports records that it repairs, and none whose change waits already', async () => {
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

test('what people edit is repaired without a report where no round found it', async () => {
  const store = await swept();
  const record = { ...recordOf(FIRST), title: 'Theirs' };
  await store.commit((query) => takeBatch(query, [answered('saw-record', record, { seconds: 20 })], 21));
  expect(await findings(store)).toEqual([]);
  expect(await findChange(store.query, nameOf(FIRST))).toMatchObject({ lane: 'mirror', effect: null });
});

test('a comparison sees what else came with it', async () => {
  const store = await round({ list_began_at: ASKED, tasks_at: ASKED });
  const seen = answered('saw-record', recordOf(FIRST), { seconds: 19 });
  const compared = answered('compare-records', null, { seconds: 20 });
  await store.commit((query) => takeBatch(query, [seen, compared], 1));
  expect(await findEntity(store.query, nameOf(FIRST))).toBeUndefined();
});
