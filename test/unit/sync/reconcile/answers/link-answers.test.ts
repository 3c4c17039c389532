import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT } from '../../../../../src/model/change.ts';
import { externalIdOf } from '../../../../../src/model/item.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../../src/store/changes/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../../src/store/changes/outbox-rows.ts';
import { nextRevision, OWN_KEY_ID, readMeta } from '../../../../../src/store/meta.ts';
import { type Answer, lastLinksRead } from '../../../../../src/store/workspace/workspace-reads.ts';
import { beginSweep } from '../../../../../src/store/workspace/workspace-sweeps.ts';
import type { Store } from '../../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { saidOf, takeBatch } from '../../../../support/rows/batches.ts';
import { pull, workItem } from '../../../../support/rows/items.ts';
import { openRecords } from '../../../../support/rows/records-route.ts';

/** The times of the requests and of the processing. No rule for links depends on them. */
const REQUESTED = 20_000;
const NOW = 30_000;
/** The revision as of which the answers are true, and the present one. */
const AS_OF = 4;
const CURRENT = 7;

const URL = 'https://github.com/acme/api/pull/1';
const PULL = pull({ url: URL });
const ISSUE = workItem({ url: 'https://acme.example.com/browse/ENG-1', type: 'Story' });
const LINK = entity.link(PULL.key, 't1');
const OURS = externalIdOf(PULL.key);

const OTHER = `${URL}0`;

const URL_ONLY = JSON.stringify({ url: URL });
/** A desired link that exists; worksync added it. */
const EXISTING = { known: JSON.stringify({ url: URL, externalId: OURS }), desired: URL_ONLY, remote_id: 'w1' };
/** A link that is known from a record, which does not show its owner. */
const UNOWNED = { ...EXISTING, known: JSON.stringify({ url: URL }), remote_id: null };
const BY_HAND = { ...EXISTING, known: JSON.stringify({ url: URL, externalId: null }), hand: 'manual' } as const;
/** A desired link that is not known to exist. */
const DESIRED = { known: null, desired: URL_ONLY, remote_id: null };
/** A desired link whose former link had an id. */
const AGAIN = { ...DESIRED, remote_id: 'w1' };
/** An existing link that is no longer desired. */
const UNWANTED = { ...EXISTING, desired: null };
/** A link that worksync added, before its id is known. */
const ADDED = { ...EXISTING, remote_id: null };
const REPEATED = { ...ADDED, written: '{"isRepeat":true}' };
/** A link that a person removed. */
const REMOVED = { ...DESIRED, remote_id: 'w1', hand: 'removed' } as const;
/** A link that worksync removed. */
const GONE = { known: null, desired: null, remote_id: 'w1', hand: 'gone' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  /** The state of the change of the link. Absent: there is no change. */
  readonly change?: 'pending' | 'sending' | 'held' | undefined;
  /** The action of a request whose answer was lost. */
  readonly lost?: 'add-link' | 'remove-link' | undefined;
  readonly isSwept?: boolean | undefined;
}

/** A store with a pull request, its known record, and a link to the task t1. */
async function linked({ row, change, lost, isSwept = false }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query, commit } = store;
  await openRecords(query);
  await commit((transaction) => takeBatch(transaction, [saidOf(PULL), saidOf(ISSUE)], 1));
  await query.deleteFrom('outbox').execute();
  const record = await findEntity(query, entity.pullRequest('github', '5001', '1'));
  if (!record) throw new Error('there is no record');
  await saveEntity(query, { ...record, known: record.desired });
  const ids = { item_key: PULL.key, task_id: 't1', known_at: REQUESTED - 1, revision: AS_OF };
  if (row) await saveEntity(query, { ...blankEntity(LINK, 'link', ids), ...row });
  if (change) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', ...times });
    await updateChange(query, LINK, {
      state: change,
      ...(lost && { sent: JSON.stringify({ action: lost, body: { url: URL } }) }),
    });
  }
  if (isSwept) await beginSweep(query, REQUESTED - 1);
  for (let revision = 1; revision <= CURRENT; revision++) await nextRevision(query);
  return store;
}

async function apply(
  { commit }: Store,
  action: Answer['action'],
  body: unknown,
  more: Partial<Answer> = {},
): Promise<readonly string[]> {
  const answer = { action, entity: '', sentAt: REQUESTED, asOf: AS_OF, body, ...more };
  const { reevaluate } = await commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
  return reevaluate;
}

async function findings({ query }: Store): Promise<string[]> {
  const rows = await query.selectFrom('workspace_findings').select(['what', 'entity', 'found_at']).execute();
  return rows.map(({ what, entity: name, found_at }) => `${what} ${name} ${found_at}`);
}

/** Whether a read of the links of the task t1 is enqueued. */
async function areLinksRequested({ query }: Store): Promise<boolean> {
  return (await findChange(query, entity.readLinks('t1'))) !== undefined;
}

const link = (fields: object = {}) => ({ taskId: 't1', workItemId: 'w1', url: URL, externalId: OURS, ...fields });
/** The link as a person or another client makes it. */
const foreign = (fields: object = {}) => link({ externalId: null, ...fields });
const recordOf = (taskIds: readonly string[], url = URL) => ({
  ...{ provider: 'github', repoId: '5001', identifier: '1', title: 'A change', headBranch: 'feature' },
  ...{ baseBranch: 'main', state: 'open', url, taskIds },
});

type Report = readonly [action: Answer['action'], body: unknown, more?: Partial<Answer>];
const OF_TASK = { entity: entity.readLinks('t1') };
const listed = (...workItems: readonly object[]): Report => ['read-links', { workItems }, OF_TASK];
const added = (body: unknown = link(), status = 201): Report => ['add-link', body, { entity: LINK, status }];
/** Events of the workspace have no request. */
const EVENT = { asOf: undefined };
const OF_T1 = { taskId: 't1', workItemId: 'w1' };
const created = (body: object = link()): Report => ['saw-link', body, EVENT];
const BY_OTHERS = created(foreign());
const deleted = (fields: object = {}): Report => ['saw-link-removed', { ...OF_T1, ...fields }, EVENT];
/** A record that lists the task of the link, and one that does not. */
const WITH: Report = ['saw-record', recordOf(['t1'])];
const WITHOUT: Report = ['saw-record', recordOf([])];
/** The link of another work item, made by a person. */
const OF_ISSUE = { workItemId: 'w7', url: ISSUE.url, externalId: null };
const OF_BOTH = { ...OF_ISSUE, taskId: 't1' };
const FOREIGN = entity.link(ISSUE.key, 't1');

const IS_REMOVED = { known: null, hand: 'removed' } as const;
const IS_GONE = { known: null, hand: 'gone', remote_id: 'w1' } as const;
const IS_OURS = { known: EXISTING.known, remote_id: 'w1', hand: null };
const IS_MANUAL = { known: BY_HAND.known, remote_id: 'w1', hand: 'manual' } as const;
const IS_FOUND = { known: URL_ONLY, known_at: NOW, hand: null };

/** Our link as it is known at a server that changes the spelling of its address. */
const spelled = (url: string) =>
  expect.toSatisfy((known: string) => {
    const { spelled: theirs, ...ours } = JSON.parse(known);
    return theirs === url && ours.url === URL && ours.externalId === OURS;
  });
const ownedAs = (url: string) => ({ ...IS_OURS, known: spelled(url) as never });
const SPELLED = { ...EXISTING, known: JSON.stringify({ url: URL, spelled: `${URL}/`, externalId: OURS }) };
const SECOND = { workItemId: 'w2' };
const SECOND_BY_OTHERS = created(foreign(SECOND));
const ELSEWHERE = { url: OTHER };
const SLASHED = { url: `${URL}/` };
const LOST_LINK = [DESIRED, 'pending', 'add-link'] as const;
const TWENTY = Array.from({ length: 20 }, (_, at) => link({ workItemId: `w9${at}`, url: `${URL}${at}` }));
const listOf = (body: object): Report => ['read-links', body, OF_TASK];

/** The known link, the state of its change, and the action of a request whose answer was lost. */
type Link = readonly [row: Partial<EntityRow>, change?: Before['change'], lost?: Before['lost']];
/** The item is evaluated, the links of the task are read, or neither. */
type Outcome = 'evaluated' | 'read' | 'ignored';

test.each<
  [what: string, report: Report, row: Link, becomes?: Partial<EntityRow>, outcome?: Outcome, left?: Before['change']]
>([
  // A record lists the tasks of its links, without their owners.
  ['a record adds a link', WITH, [DESIRED], IS_FOUND],
  ['a record adds a link that a person removed', WITH, [REMOVED], IS_FOUND],
  ['a record adds no link whose addition is in flight', WITH, [DESIRED, 'sending']],
  ['a record adds no link whose addition is held', WITH, [DESIRED, 'held']],
  ['a record removes a link', WITHOUT, [EXISTING], IS_REMOVED],
  ['a record removes a link that is no longer desired', WITHOUT, [UNWANTED], IS_GONE],
  ['a record settles a removal', WITHOUT, [UNWANTED, 'pending'], IS_GONE],
  ['a record keeps a link whose change is in flight', WITHOUT, [EXISTING, 'sending']],
  ['a record keeps a link whose addition waits', WITHOUT, [EXISTING, 'pending']],
  ['a record with a former address keeps the link', ['saw-record', recordOf([], OTHER)], [EXISTING], EXISTING],
  ['a record keeps a link that the server spells differently', WITHOUT, [SPELLED]],
  ['a record without tasks keeps a link', ['saw-record', { ...recordOf([]), taskIds: undefined }], [EXISTING]],

  // A list of the links of the task has their owners.
  ['a list has a link that worksync added', listed(foreign()), [EXISTING], IS_OURS],
  ['a list has a link whose externalId is ours', listed(link()), [UNOWNED], IS_OURS],
  ['a list has a link of a person', listed(foreign()), [UNOWNED], IS_MANUAL],
  ['a link under another id is a person’s', listed(foreign(SECOND)), [EXISTING], { ...IS_MANUAL, remote_id: 'w2' }],
  ['a link may have another address', listed(link(ELSEWHERE)), [EXISTING], { remote_id: 'w1', hand: null }],
  ['a list shows a lost addition', listed(foreign()), LOST_LINK, IS_OURS],
  ['a list shows an addition that was not sent', listed(foreign()), [DESIRED, 'pending'], IS_MANUAL],
  ['a list keeps an addition in flight', listed(foreign()), [DESIRED, 'sending'], DESIRED, 'evaluated', 'sending'],
  ['a list without a link removes it', listed(link({ workItemId: 'w2', url: OTHER })), [EXISTING], IS_REMOVED],
  ['a list without a link settles its lost removal', listed(), [UNWANTED, 'pending', 'remove-link'], IS_GONE],
  ['a list that may be cut removes no link', listOf({ workItems: TWENTY }), [EXISTING], EXISTING],
  ['a last page of twenty links removes a link', listOf({ workItems: TWENTY, isLast: true }), [EXISTING], IS_REMOVED],
  ['a list with further pages removes no link', listOf({ workItems: [], isLast: false }), [EXISTING], EXISTING],
  ['a list with an unreadable link removes no other', listOf({ workItems: [{ url: URL }] }), [EXISTING], EXISTING],
  ['a list recognizes an address with a slash', listed(foreign(SLASHED)), [EXISTING], ownedAs(`${URL}/`)],
  ['a list recognizes a fragment', listed(foreign({ url: `${URL}#top` })), [EXISTING], ownedAs(`${URL}#top`)],

  // Events may be late.
  ['a created link is added', BY_OTHERS, [DESIRED], { ...IS_MANUAL, known_at: NOW }],
  ['a created link replaces a waiting addition', BY_OTHERS, [DESIRED, 'pending'], IS_MANUAL, 'evaluated', 'pending'],
  ['a created link settles no lost addition', BY_OTHERS, LOST_LINK],
  ['a created link that is known changes nothing', created(), [EXISTING]],
  ['a created link whose addition is in flight changes nothing', BY_OTHERS, [DESIRED, 'sending']],
  ['an older created link of ours changes nothing', created(), [DESIRED, 'pending']],
  ['a created link that a person removed changes nothing', BY_OTHERS, [REMOVED]],
  ['a created link to a removed address is added', SECOND_BY_OTHERS, [REMOVED], { hand: 'manual', remote_id: 'w2' }],
  ['a created link with another id is read', created(link(SECOND)), [EXISTING], EXISTING, 'read'],
  ['a deleted link is removed', deleted(), [EXISTING], { ...IS_REMOVED, remote_id: 'w1' }],
  ['a deleted link that is no longer desired is gone', deleted(), [UNWANTED], IS_GONE],
  ['a deletion of an unknown id changes nothing', deleted(SECOND), [EXISTING]],
  ['a deletion of a link whose addition waits changes nothing', deleted(), [AGAIN, 'pending']],
  ['a deletion of an unknown id causes a read if the link has no id', deleted(), [ADDED], { remote_id: null }, 'read'],
  ['a deletion of another id causes a read', deleted({ workItemId: 'w2', url: URL }), [EXISTING], EXISTING, 'read'],
])('%s', async (_claim, report, [row, change, lost], becomes, outcome = becomes ? 'evaluated' : 'ignored', left) => {
  const store = await linked({ row, change, lost });
  expect(await apply(store, ...report)).toEqual(outcome === 'evaluated' ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes ?? row);
  expect(await areLinksRequested(store)).toBe(outcome === 'read');
  expect((await findChange(store.query, LINK))?.state).toBe(becomes ? left : change);
});

test.each<[what: string, report: Report, row: Partial<EntityRow>, becomes: Partial<EntityRow>]>([
  ['is ours with any echo of the server', added(foreign()), ADDED, IS_OURS],
  ['is ours in our spelling', added(link(SLASHED)), ADDED, ownedAs(`${URL}/`)],
  ["is a person's if an idempotent server found it", added(foreign(), 200), ADDED, IS_MANUAL],
  ['is ours if it may be that of our lost addition', added(foreign(), 200), REPEATED, IS_OURS],
  ['stays removed if it was removed since', added(), GONE, GONE],
])('a link that worksync added %s', async (_what, report, row, becomes) => {
  const store = await linked({ row });
  expect(await apply(store, ...report)).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

test.each<[path: string, row: Partial<EntityRow>, becomes: Partial<EntityRow>, report: Report]>([
  ['a list without it', EXISTING, IS_REMOVED, listed()],
  ['a list with it', DESIRED, { known: EXISTING.known, hand: null, remote_id: 'w1' }, listed(link())],
  ['a record without its task', EXISTING, IS_REMOVED, WITHOUT],
  ['a record with its task', DESIRED, { known: URL_ONLY, hand: null }, WITH],
  ['the answer to its addition', ADDED, { remote_id: 'w1', hand: null }, added()],
  ['its addition by another client', DESIRED, { hand: 'manual', remote_id: 'w1' }, ['saw-link', foreign()]],
  ['its removal by another client', EXISTING, IS_REMOVED, ['saw-link-removed', OF_T1]],
])('%s is ignored if a newer state became known after its request was sent', async (_path, row, becomes, report) => {
  const current = await linked({ row });
  await apply(current, ...report);
  const isNotAdded = report[0] === 'add-link';
  expect(await findEntity(current.query, LINK)).toMatchObject({ ...becomes, revision: isNotAdded ? AS_OF : CURRENT });
  const late = await linked({ row: { ...row, revision: AS_OF + 1, known_at: 1 } });
  await apply(late, ...report);
  expect(await findEntity(late.query, LINK)).toMatchObject({ ...row, revision: AS_OF + 1 });
});

test('an address in another spelling is recognized only if it matches one link', async () => {
  const store = await linked({ row: DESIRED });
  const other = { item_key: ISSUE.key, task_id: 't1', desired: JSON.stringify({ url: `${URL}#other` }) };
  await saveEntity(store.query, blankEntity(FOREIGN, 'link', other));
  await apply(store, ...listed(link({ url: `${URL}#top` })));
  expect(await findEntity(store.query, LINK)).toMatchObject(DESIRED);
});

test.each<[path: string, report: Report]>([
  ['a list', listed()],
  ['a record', WITHOUT],
])('a link that is desired again after a lost removal is added again if %s lacks it', async (_path, report) => {
  const store = await linked({ row: EXISTING, change: 'pending', lost: 'remove-link' });
  await apply(store, ...report);
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: null, hand: null });
  expect(await findChange(store.query, LINK)).toMatchObject({ state: 'pending', sent: null, effect: 'creation' });
});

test.each([
  ['while an addition was in flight does not allow its repetition', MAX_TIME_IN_FLIGHT - 1, 3],
  ['after an addition was in flight allows its repetition', MAX_TIME_IN_FLIGHT, AS_OF + 1],
])('a list that was requested %s', async (_when, age, revision) => {
  const store = await linked({ row: DESIRED, change: 'pending' });
  const sent = { action: 'add-link', sentAt: REQUESTED - age, revision: 3, body: { url: URL } };
  await updateChange(store.query, LINK, { sent: JSON.stringify(sent) });
  await apply(store, ...listed());
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision });
});

test('a list of links allows the additions to its task that wait for it', async () => {
  const store = await linked({ row: DESIRED, change: 'pending' });
  await updateChange(store.query, LINK, { not_before: NOW + 1, awaits: 'links' });
  await apply(store, ...listed());
  expect(await findChange(store.query, LINK)).toMatchObject({ not_before: 0 });
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision: AS_OF + 1 });
});

test.each<[what: string, isSaved: boolean, report: Report]>([
  ['by a person is the link of that item', true, listed(OF_ISSUE)],
  ['that an event reports is the link of that item', true, created(OF_BOTH)],
  ['of ours is ignored', false, listed({ ...OF_ISSUE, externalId: externalIdOf(ISSUE.key) })],
  ['that is no web address is ignored', false, listed({ ...OF_ISSUE, url: 'ftp://acme.example.com/browse/ENG-1' })],
])('a link to a work item %s', async (_what, isSaved, report) => {
  const store = await linked({ isSwept: true });
  expect(await apply(store, ...report)).toEqual(isSaved ? [ISSUE.key] : []);
  const saved = { kind: 'link', item_key: ISSUE.key, task_id: 't1', hand: 'manual', remote_id: 'w7', known_at: NOW };
  const row = await findEntity(store.query, FOREIGN);
  if (isSaved) expect(row).toMatchObject(saved);
  else expect(row).toBeUndefined();
  const isFinding = isSaved && report[0] === 'read-links';
  expect(await findings(store)).toEqual(isFinding ? [`link-added ${FOREIGN} ${NOW}`] : []);
});

test.each([URL, `${URL}/`, `${URL}#discussion_r1`])("a link to %s, which names no task, is a person's", async (url) => {
  const store = await linked({});
  expect(await apply(store, ...listed(foreign({ url })))).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject({ hand: 'manual', remote_id: 'w1', desired: null });
});

const BY_PERSON = { hand: 'manual', remote_id: 'w7' } as const;

test.each<[what: string, becomes: Partial<EntityRow>, revision: number, report: Report, isRead?: boolean]>([
  ["is a person's if a later list shows it again", BY_PERSON, AS_OF, listed(OF_ISSUE)],
  ["is a person's if it is added again", BY_PERSON, AS_OF, ['saw-link', OF_BOTH]],
  ['stays removed if the list was requested before', GONE, AS_OF + 1, listed(OF_ISSUE)],
  ['stays removed if the event may be late, and the links are read', GONE, AS_OF, created(OF_BOTH), true],
])('a link to a work item that worksync removed %s', async (_what, becomes, revision, report, isRead = false) => {
  const store = await linked({});
  const ids = { item_key: ISSUE.key, task_id: 't1', revision };
  await saveEntity(store.query, blankEntity(FOREIGN, 'link', { ...ids, ...GONE }));
  await apply(store, ...report);
  expect(await findEntity(store.query, FOREIGN)).toMatchObject(becomes);
  expect(await areLinksRequested(store)).toBe(isRead);
});

test.each<[what: string, row: Partial<EntityRow>, key: string | undefined]>([
  ['that worksync added', EXISTING, 'key_1'],
  ['that a person added', BY_HAND, undefined],
])('an event about a link %s shows the id of our key: %s', async (_what, row, key) => {
  const store = await linked({ row });
  await apply(store, 'saw-link', link(), { ...EVENT, key: 'key_1' });
  expect(await readMeta(store.query, OWN_KEY_ID)).toBe(key);
});
