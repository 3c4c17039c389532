import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { externalIdOf } from '../../../../src/model/link.ts';
import { applyAnswer } from '../../../../src/reconcile/answers/apply.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import type { Answer } from '../../../../src/store/workspace-answers.ts';
import { beginSweep } from '../../../../src/store/workspace-sweeps.ts';
import { saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';

/** When the answers were asked for, and when they are processed. */
const ASKED = 20_000;
const NOW = 30_000;

const URL = 'https://github.com/acme/api/pull/1';
const PULL = pull({ url: URL });
const ISSUE = workItem({ url: 'https://acme.example.com/browse/ENG-1', type: 'Story' });
const LINK = entity.link(PULL.key, 't1');
const OURS = externalIdOf(PULL.key);

/** It stands in the workspace, and we want it. */
const STANDS = { known: JSON.stringify({ url: URL }), desired: JSON.stringify({ url: URL }), remote_id: 'w1' };
/** We want it, and the workspace is not known to have it. */
const WANTED = { known: null, desired: JSON.stringify({ url: URL }), remote_id: null };

const REMOVED = { ...WANTED, hand: 'removed' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  /** Of the change of the link; absent: there is none. */
  readonly change?: 'pending' | 'sending' | 'held' | undefined;
  readonly isSwept?: boolean | undefined;
}

/** A pull request with a link to the task t1, and its record, which the workspace has. */
async function linked({ row, change, isSwept = false }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query, commit } = store;
  await commit((transaction) => takeBatch(transaction, [saidOf(PULL), saidOf(ISSUE)], 1));
  await query.deleteFrom('outbox').execute();
  const record = await findEntity(query, entity.pullRequest('github', '5001', '1'));
  if (!record) throw new Error('it is not mirrored');
  await saveEntity(query, { ...record, known: record.desired });
  const ids = { item_key: PULL.key, task_id: 't1', known_at: ASKED - 1 };
  if (row) await saveEntity(query, { ...blankEntity(LINK, 'link', ids), ...row });
  if (change) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', ...times });
    await updateChange(query, LINK, { state: change });
  }
  if (isSwept) await beginSweep(query, ASKED - 1);
  return store;
}

async function tell({ commit }: Store, action: Answer['action'], body: unknown, name = ''): Promise<readonly string[]> {
  const answer = { action, entity: name, sentAt: ASKED, body };
  const { again } = await commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
  return again;
}

async function found({ query }: Store): Promise<string[]> {
  const rows = await query.selectFrom('workspace_findings').select(['what', 'entity', 'found_at']).execute();
  return rows.map(({ what, entity: name, found_at }) => `${what} ${name} ${found_at}`);
}

const recordOf = (taskIds: readonly string[], url = URL) => ({
  ...{ provider: 'github', repoId: '5001', identifier: '1', title: 'A change', headBranch: 'feature' },
  ...{ baseBranch: 'main', state: 'open', url, taskIds },
});

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, record?: object]>([
  ['was taken away by a person', { known: null, remote_id: null, hand: 'removed' }, { row: STANDS }],
  ['is not wanted any more', { known: null, hand: null }, { row: { ...STANDS, desired: null } }],
  ['became known when the answer was asked for', STANDS, { row: { ...STANDS, known_at: ASKED } }],
  ['became known just before', { hand: 'removed' }, { row: { ...STANDS, known_at: ASKED - 1 } }],
  ['is being changed by us', STANDS, { row: STANDS, change: 'sending' }],
  ['is to be changed by us', STANDS, { row: STANDS, change: 'pending' }],
  ['has the address from before a rename', STANDS, { row: STANDS }, recordOf([], `${URL}0`)],
  ['is not known to stand there', WANTED, { row: WANTED }],
])('a record does not name the task of a link that %s', async (_what, becomes, before, record = recordOf([])) => {
  const store = await linked(before);
  await tell(store, 'saw-record', record);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

const STANDS_NOW = { known: JSON.stringify({ url: URL }), known_at: NOW, hand: null };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, left?: string]>([
  ['nobody knew of', STANDS_NOW, { row: WANTED }],
  ['a person took away before', STANDS_NOW, { row: { ...WANTED, hand: 'removed' } }],
  ['was to be added', STANDS_NOW, { row: WANTED, change: 'pending' }],
  ['is being added', WANTED, { row: WANTED, change: 'sending' }, 'sending'],
  ['is held', WANTED, { row: WANTED, change: 'held' }, 'held'],
  ['became unknown when the answer was asked for', WANTED, { row: { ...WANTED, known_at: ASKED } }],
  ['was never told of', STANDS_NOW, { row: { ...WANTED, known_at: null } }],
])('a record names the task of a link that %s', async (_what, becomes, before, left) => {
  const store = await linked(before);
  await tell(store, 'saw-record', recordOf(['t1']));
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect((await findChange(store.query, LINK))?.state).toBe(left);
});

test.each<[what: string, expected: string[], isSwept: boolean, row: Partial<EntityRow>, taskIds: string[]]>([
  ['taken away', [`link-removed ${LINK} ${NOW}`], true, STANDS, []],
  ['taken away, without a round', [], false, STANDS, []],
  ['added', [`link-added ${LINK} ${NOW}`], true, WANTED, ['t1']],
  ['as it was', [], true, STANDS, ['t1']],
])('a round of the sweep reports a link that is found %s', async (_what, expected, isSwept, row, taskIds) => {
  const store = await linked({ row, isSwept });
  await tell(store, 'read-pull-requests', { pullRequests: [recordOf(taskIds)], nextCursor: 'more' });
  expect(await found(store)).toEqual(expected);
});

const link = (fields: object = {}) => ({ taskId: 't1', workItemId: 'w1', url: URL, externalId: OURS, ...fields });
const MADE_BY_US = { known: JSON.stringify({ url: URL, externalId: OURS }), remote_id: 'w1', hand: null };
const MADE_BY_HAND = {
  known: JSON.stringify({ url: URL, externalId: null }),
  remote_id: 'w1',
  hand: 'manual' as const,
};

test.each<[what: string, becomes: Partial<EntityRow>, isAgain: boolean, before: Before, links: object[]]>([
  ['known, and ours', MADE_BY_US, true, { row: STANDS }, [link()]],
  ['known, and a person made it', MADE_BY_HAND, true, { row: STANDS }, [link({ externalId: null })]],
  ['known by its id, at another address', { remote_id: 'w1' }, true, { row: STANDS }, [link({ url: `${URL}0` })]],
  ['known by its address, under another id', { remote_id: 'w2' }, true, { row: STANDS }, [link({ workItemId: 'w2' })]],
  ['another one only', { hand: 'removed' }, true, { row: STANDS }, [link({ workItemId: 'w2', url: `${URL}0` })]],
  ['wanted, and there', { ...MADE_BY_US, known_at: NOW }, true, { row: WANTED, change: 'pending' }, [link()]],
  ['wanted, and not there', WANTED, false, { row: WANTED }, []],
])('the list of links of a task: %s', async (_what, becomes, isAgain, before, links) => {
  const store = await linked(before);
  expect(await tell(store, 'read-links', { workItems: links }, entity.readLinks('t1'))).toEqual(
    isAgain ? [PULL.key] : [],
  );
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

const BY_HAND = { workItemId: 'w7', url: ISSUE.url, externalId: null };
const FOREIGN = entity.link(ISSUE.key, 't1');

test.each<[what: string, isKept: boolean, action: Answer['action'], link: object]>([
  ['that a person made is the link of that item', true, 'read-links', BY_HAND],
  ['that a person makes is so too', true, 'saw-link', { ...BY_HAND, taskId: 't1' }],
  ['that an application made too', true, 'read-links', { ...BY_HAND, externalId: 'theirs' }],
  ['of ours is not', false, 'read-links', { ...BY_HAND, externalId: externalIdOf(ISSUE.key) }],
  ['to what is no web address is not', false, 'read-links', { ...BY_HAND, url: 'ftp://acme.example.com/browse/ENG-1' }],
  ['to what nobody knows is not', false, 'read-links', { ...BY_HAND, url: 'https://acme.example.com/other' }],
  ['of no task is not', false, 'saw-link', BY_HAND],
])('a link to a work item %s', async (_what, isKept, action, made) => {
  const store = await linked({ isSwept: true });
  const [body, name] = action === 'read-links' ? [{ workItems: [made] }, entity.readLinks('t1')] : [made, ''];
  expect(await tell(store, action, body, name)).toEqual(isKept ? [ISSUE.key] : []);
  const kept = { kind: 'link', item_key: ISSUE.key, task_id: 't1', hand: 'manual', remote_id: 'w7', known_at: NOW };
  const row = await findEntity(store.query, FOREIGN);
  if (isKept) expect(row).toMatchObject(kept);
  else expect(row).toBeUndefined();
  expect(await found(store)).toEqual(isKept && action === 'read-links' ? [`link-added ${FOREIGN} ${NOW}`] : []);
});

test.each<[what: string, becomes: Partial<EntityRow>, isAgain: boolean, before: Before, seen: object]>([
  ['known by its id', { ...MADE_BY_US, known_at: NOW }, true, { row: STANDS }, link()],
  ['wanted, by its address', { ...MADE_BY_HAND, known_at: NOW }, true, { row: WANTED }, link({ externalId: null })],
  [
    'made by a person, and to be added',
    { ...MADE_BY_HAND, known_at: NOW },
    true,
    { row: WANTED, change: 'pending' },
    link({ externalId: null }),
  ],
  ['one of ours from before, and to be added', WANTED, false, { row: WANTED, change: 'pending' }, link()],
  ['one of ours that a person took away', REMOVED, false, { row: REMOVED }, link()],
  [
    'known by another id, of which nobody knows whether it is newer',
    { known: JSON.stringify({ url: URL }), remote_id: null, known_at: NOW },
    true,
    { row: STANDS },
    link({ workItemId: 'w0' }),
  ],
  ['being added', WANTED, false, { row: WANTED, change: 'sending' }, link()],
  ['another one', STANDS, false, { row: STANDS }, link({ workItemId: 'w2', url: `${URL}0` })],
])('a link that is seen is %s', async (_what, becomes, isAgain, before, seen) => {
  const store = await linked(before);
  expect(await tell(store, 'saw-link', seen)).toEqual(isAgain ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

test.each<[what: string, becomes: Partial<EntityRow>, isAgain: boolean, before: Before, workItemId?: string]>([
  ['known', { known: null, remote_id: null, hand: 'removed' }, true, { row: STANDS }],
  ['another one', STANDS, false, { row: STANDS }, 'w2'],
  ['not known to stand there', { known: null, hand: null }, false, { row: { ...WANTED, remote_id: 'w1' } }],
])('a link that is seen to be taken away is %s', async (_what, becomes, isAgain, before, workItemId = 'w1') => {
  const store = await linked({ ...before, isSwept: true });
  expect(await tell(store, 'saw-link-removed', { taskId: 't1', workItemId })).toEqual(isAgain ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await found(store)).toEqual([]);
});

test('the answer to our own link tells under which id it stands, and who made it', async () => {
  const store = await linked({ row: WANTED });
  expect(await tell(store, 'add-link', link({ externalId: null }), LINK)).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(MADE_BY_HAND);
  expect(await tell(store, 'add-link', link(), 'link:forgotten>t1')).toEqual([]);
  expect(await findEntity(store.query, 'link:forgotten>t1')).toBeUndefined();
});
