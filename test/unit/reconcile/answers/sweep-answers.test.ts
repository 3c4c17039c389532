import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { PullRequest } from '../../../../src/model/item.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { beginSweep } from '../../../../src/store/workspace-sweeps.ts';
import { answered, START, saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull } from '../../../support/items.ts';

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
