import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT } from '../../../../../src/model/change.ts';
import { externalIdOf } from '../../../../../src/model/link.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { nextRevision } from '../../../../../src/store/revision.ts';
import { configureLinks } from '../../../../../src/store/server-capabilities.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { lastLinksRead } from '../../../../../src/store/workspace-reads.ts';
import { beginSweep } from '../../../../../src/store/workspace-sweeps.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { saidOf, takeBatch } from '../../../../support/batches.ts';
import { openTestStore } from '../../../../support/intake.ts';
import { pull, workItem } from '../../../../support/items.ts';
import { openRecords } from '../../../../support/records-route.ts';

/** When the answers were requested, and when they are processed. The clock decides nothing about links. */
const ASKED = 20_000;
const NOW = 30_000;
/** The revision as of which the answers are true, and the present one. */
const AS_OF = 4;
const CURRENT = 7;

const URL = 'https://github.com/acme/api/pull/1';
const PULL = pull({ url: URL });
const ISSUE = workItem({ url: 'https://acme.example.com/browse/ENG-1', type: 'Story' });
const LINK = entity.link(PULL.key, 't1');
const OURS = externalIdOf(PULL.key);

const WANTED_NOW = JSON.stringify({ url: URL });
/** It stands in the workspace and is wanted; worksync added it. */
const STANDS = { known: JSON.stringify({ url: URL, externalId: OURS }), desired: WANTED_NOW, remote_id: 'w1' };
/** It is known from a record, which does not name its author. */
const UNEXPLAINED = { ...STANDS, known: JSON.stringify({ url: URL }), remote_id: null };
const BY_HAND = { ...STANDS, known: JSON.stringify({ url: URL, externalId: null }), hand: 'manual' } as const;
/** It is wanted, and the workspace is not known to have it. */
const WANTED = { known: null, desired: WANTED_NOW, remote_id: null };
/** A person removed it. */
const REMOVED = { ...WANTED, remote_id: 'w1', hand: 'removed' } as const;
/** worksync removed it. */
const GONE = { known: null, desired: null, remote_id: 'w1', hand: 'gone' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  /** Of the change of the link; absent: there is none. */
  readonly change?: 'pending' | 'sending' | 'held' | undefined;
  /** The action of a request of the change whose answer was lost. */
  readonly lost?: 'add-link' | 'remove-link';
  readonly isSwept?: boolean | undefined;
  readonly areIdempotent?: boolean;
}

/** A pull request with a link to the task t1, and its record, which the workspace has. */
async function linked({ row, change, lost, isSwept = false, areIdempotent = false }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query, commit } = store;
  await openRecords(query);
  await commit((transaction) => takeBatch(transaction, [saidOf(PULL), saidOf(ISSUE)], 1));
  await query.deleteFrom('outbox').execute();
  const record = await findEntity(query, entity.pullRequest('github', '5001', '1'));
  if (!record) throw new Error('it is not mirrored');
  await saveEntity(query, { ...record, known: record.desired });
  const ids = { item_key: PULL.key, task_id: 't1', known_at: ASKED - 1, revision: AS_OF };
  if (row) await saveEntity(query, { ...blankEntity(LINK, 'link', ids), ...row });
  if (change) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', ...times });
    await updateChange(query, LINK, { state: change, ...(lost && { sent: JSON.stringify({ action: lost }) }) });
  }
  await configureLinks(query, areIdempotent);
  if (isSwept) await beginSweep(query, ASKED - 1);
  for (let revision = 1; revision <= CURRENT; revision++) await nextRevision(query);
  return store;
}

async function tell(
  { commit }: Store,
  action: Answer['action'],
  body: unknown,
  more: Partial<Answer> = {},
): Promise<readonly string[]> {
  const answer = { action, entity: '', sentAt: ASKED, asOf: AS_OF, body, ...more };
  const { reevaluate } = await commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
  return reevaluate;
}

async function found({ query }: Store): Promise<string[]> {
  const rows = await query.selectFrom('workspace_findings').select(['what', 'entity', 'found_at']).execute();
  return rows.map(({ what, entity: name, found_at }) => `${what} ${name} ${found_at}`);
}

/** Whether the links of the task t1 are to be read. */
async function areLinksWanted({ query }: Store): Promise<boolean> {
  return (await findChange(query, entity.readLinks('t1'))) !== undefined;
}

const link = (fields: object = {}) => ({ taskId: 't1', workItemId: 'w1', url: URL, externalId: OURS, ...fields });
const recordOf = (taskIds: readonly string[], url = URL) => ({
  ...{ provider: 'github', repoId: '5001', identifier: '1', title: 'A change', headBranch: 'feature' },
  ...{ baseBranch: 'main', state: 'open', url, taskIds },
});

type Told = readonly [action: Answer['action'], body: unknown, more?: Partial<Answer>];
const OF_TASK = { entity: entity.readLinks('t1') };
const listed = (...workItems: readonly object[]): Told => ['read-links', { workItems }, OF_TASK];
const added = (body: unknown = link(), status = 201): Told => ['add-link', body, { entity: LINK, status }];
/** Events of the workspace have no request. */
const EVENT = { asOf: undefined };
const created = (fields: object = {}): Told => ['saw-link', link(fields), EVENT];
const deleted = (fields: object = {}): Told => [
  'saw-link-removed',
  { taskId: 't1', workItemId: 'w1', ...fields },
  EVENT,
];

/** What every path makes of a link whose state became known before, or after, its request was sent. */
test.each<[path: string, row: Partial<EntityRow>, becomes: Partial<EntityRow>, told: Told]>([
  ['a list without it', STANDS, { known: null, hand: 'removed' }, listed()],
  ['a list with it', WANTED, { known: STANDS.known, hand: null, remote_id: 'w1' }, listed(link())],
  ['a record without its task', STANDS, { known: null, hand: 'removed' }, ['saw-record', recordOf([])]],
  ['a record with its task', WANTED, { known: WANTED_NOW, hand: null }, ['saw-record', recordOf(['t1'])]],
  ['the answer to its addition', { ...STANDS, remote_id: null }, { remote_id: 'w1', hand: null }, added()],
  ['the addition of somebody', WANTED, { hand: 'manual', remote_id: 'w1' }, ['saw-link', link({ externalId: null })]],
  [
    'its removal by somebody',
    STANDS,
    { known: null, hand: 'removed' },
    ['saw-link-removed', { taskId: 't1', workItemId: 'w1' }],
  ],
])('%s counts only if nothing became known after its request was sent', async (_path, row, becomes, told) => {
  const news = await linked({ row });
  await tell(news, ...told);
  const isNotAdded = told[0] === 'add-link';
  expect(await findEntity(news.query, LINK)).toMatchObject({ ...becomes, revision: isNotAdded ? AS_OF : CURRENT });
  const late = await linked({ row: { ...row, revision: AS_OF + 1, known_at: 1 } });
  await tell(late, ...told);
  expect(await findEntity(late.query, LINK)).toMatchObject({ ...row, revision: AS_OF + 1 });
});

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, record?: object]>([
  ['that was not wanted any more', { known: null, hand: 'gone' }, { row: { ...STANDS, desired: null } }],
  ['whose removal waits', { known: null, hand: 'gone' }, { row: { ...STANDS, desired: null }, change: 'pending' }],
  ['whose change is in flight', STANDS, { row: STANDS, change: 'sending' }],
  ['whose addition waits', STANDS, { row: STANDS, change: 'pending' }],
  ['with the address of before a rename', STANDS, { row: STANDS }, recordOf([], `${URL}0`)],
  ['that is not known', WANTED, { row: WANTED }],
])('a record that does not name the task of a link %s', async (_what, becomes, before, record = recordOf([])) => {
  const store = await linked(before);
  await tell(store, 'saw-record', record);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

const STANDS_NOW = { known: WANTED_NOW, known_at: NOW, hand: null };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, left?: string]>([
  ['is known', STANDS_NOW, { row: WANTED }],
  ['is known although a person removed it', STANDS_NOW, { row: { ...WANTED, hand: 'removed' } }],
  ['need not be added', STANDS_NOW, { row: WANTED, change: 'pending' }],
  ['is left to the answer of its addition', WANTED, { row: WANTED, change: 'sending' }, 'sending'],
  ['is left to the person who decides', WANTED, { row: WANTED, change: 'held' }, 'held'],
])('a link whose task a record names %s', async (_what, becomes, before, left) => {
  const store = await linked(before);
  await tell(store, 'saw-record', recordOf(['t1']));
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect((await findChange(store.query, LINK))?.state).toBe(left);
});

/** Our link as it is known at a server that spells its address otherwise. */
const spelled = (url: string) =>
  expect.toSatisfy((known: string) => {
    const { spelled: theirs, ...ours } = JSON.parse(known);
    return theirs === url && ours.url === URL && ours.externalId === OURS;
  });

test('a record without the task of a link leaves a link as it is whose address the server spells otherwise', async () => {
  const row = { ...STANDS, known: JSON.stringify({ url: URL, spelled: `${URL}/`, externalId: OURS }) };
  const store = await linked({ row });
  await tell(store, 'saw-record', recordOf([]));
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: row.known, hand: null });
});

test('a record that says nothing about links changes none', async () => {
  const store = await linked({ row: STANDS });
  await tell(store, 'saw-record', { ...recordOf([]), taskIds: undefined });
  expect(await findEntity(store.query, LINK)).toMatchObject(STANDS);
});

test.each<[what: string, expected: string[], isSwept: boolean, row: Partial<EntityRow>, taskIds: string[]]>([
  ['removed', [`link-removed ${LINK} ${NOW}`], true, STANDS, []],
  ['removed, without a round', [], false, STANDS, []],
  ['added', [`link-added ${LINK} ${NOW}`], true, WANTED, ['t1']],
  ['as it was', [], true, STANDS, ['t1']],
])('a round of the sweep reports a link that is found %s', async (_what, expected, isSwept, row, taskIds) => {
  const store = await linked({ row, isSwept });
  await tell(store, 'read-pull-requests', { pullRequests: [recordOf(taskIds)], nextCursor: 'more' });
  expect(await found(store)).toEqual(expected);
});

const OWN = { known: STANDS.known, remote_id: 'w1', hand: null };
const THEIRS = { known: BY_HAND.known, remote_id: 'w1', hand: 'manual' as const };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, links: object[]]>([
  ['is ours if worksync added it', OWN, { row: STANDS }, [link({ externalId: null })]],
  ['is ours if only its externalId says so', OWN, { row: UNEXPLAINED }, [link()]],
  ["is a person's if nothing says that it is ours", THEIRS, { row: UNEXPLAINED }, [link({ externalId: null })]],
  ["stays a person's, whatever its externalId is", { hand: 'manual' }, { row: BY_HAND }, [link()]],
  [
    "is a person's under another id",
    { ...THEIRS, remote_id: 'w2' },
    { row: STANDS },
    [link({ workItemId: 'w2', externalId: null })],
  ],
  [
    'has another address under the same id',
    { remote_id: 'w1', hand: null },
    { row: STANDS },
    [link({ url: `${URL}0` })],
  ],
  [
    'is ours if it appears after a lost addition',
    OWN,
    { row: WANTED, change: 'pending', lost: 'add-link' },
    [link({ externalId: null })],
  ],
  ["is a person's if it was not sent yet", THEIRS, { row: WANTED, change: 'pending' }, [link({ externalId: null })]],
  [
    'is missing among others',
    { known: null, hand: 'removed' },
    { row: STANDS },
    [link({ workItemId: 'w2', url: `${URL}0` })],
  ],
  ['is still missing', WANTED, { row: WANTED }, []],
])('a link in the list of its task %s', async (_what, becomes, before, links) => {
  const store = await linked(before);
  expect(await tell(store, ...listed(...links))).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test.each<[what: string, url: string]>([
  ['a slash at its end', `${URL}/`],
  ['other case', URL.toUpperCase()],
  ['a fragment', `${URL}#top`],
])('a link whose address the server returns with %s is recognised and keeps our spelling', async (_what, url) => {
  const store = await linked({ row: WANTED, change: 'pending', lost: 'add-link' });
  await tell(store, ...listed(link({ url, externalId: null })));
  expect(await findEntity(store.query, LINK)).toMatchObject({ ...OWN, known: spelled(url) });
  const seen = await linked({ row: STANDS });
  await tell(seen, ...created({ url }));
  expect(await areLinksWanted(seen)).toBe(false);
});

test('an address in another spelling is recognised only if it fits one link', async () => {
  const store = await linked({ row: WANTED });
  const other = { item_key: ISSUE.key, task_id: 't1', desired: JSON.stringify({ url: `${URL}#other` }) };
  await saveEntity(store.query, blankEntity(entity.link(ISSUE.key, 't1'), 'link', other));
  await tell(store, ...listed(link({ url: `${URL}#top` })));
  expect(await findEntity(store.query, LINK)).toMatchObject(WANTED);
});

test.each<[what: string, body: object]>([
  [
    'that may have been cut',
    { workItems: Array.from({ length: 20 }, (_, at) => link({ workItemId: `w9${at}`, url: `${URL}${at}` })) },
  ],
  ['that has further pages', { workItems: [], isLast: false }],
  ['with a link that cannot be read', { workItems: [{ url: URL }] }],
])('a list of links %s removes none', async (_what, body) => {
  const store = await linked({ row: STANDS });
  await tell(store, 'read-links', body, OF_TASK);
  expect(await findEntity(store.query, LINK)).toMatchObject(STANDS);
});

test.each<[what: string, told: Told, row: Partial<EntityRow>, becomes: Partial<EntityRow>]>([
  ['a record', ['saw-record', recordOf(['t1'])], WANTED, { known: null, hand: 'removed' }],
  ['a link', ['saw-link', link({ externalId: null })], WANTED, { known: null, hand: 'removed' }],
  ['a removal', ['saw-link-removed', { taskId: 't1', workItemId: 'w1' }], STANDS, { known: BY_HAND.known }],
])(
  'a list that was requested after the receipt of %s overrides it, however late it is processed',
  async (_what, told, row, becomes) => {
    const store = await linked({ row });
    const [action, body] = told;
    await tell(store, action, body, { receivedRevision: AS_OF + 1 });
    const isThere = becomes.known !== null;
    const [, list] = listed(...(isThere ? [link({ externalId: null })] : []));
    await tell(store, 'read-links', list, { ...OF_TASK, asOf: AS_OF + 1 });
    expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  },
);

test('a list settles a lost addition although a record has shown the link before', async () => {
  const store = await linked({ row: WANTED, change: 'pending', lost: 'add-link' });
  await tell(store, 'saw-record', recordOf(['t1']), { receivedRevision: AS_OF + 1 });
  expect(await findChange(store.query, LINK)).toBeDefined();
  await tell(store, 'read-links', { workItems: [link({ externalId: null })] }, { ...OF_TASK, asOf: AS_OF + 1 });
  expect(await findEntity(store.query, LINK)).toMatchObject(OWN);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test('a lost addition of a link that is not wanted any more has taken effect if the list shows the link', async () => {
  const row = { ...WANTED, desired: null };
  const store = await linked({ row, change: 'pending', lost: 'add-link' });
  const sent = JSON.stringify({ action: 'add-link', body: { url: URL } });
  await updateChange(store.query, LINK, { sent });
  expect(await tell(store, ...listed(link({ externalId: null })))).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(OWN);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test('a removal whose answer was lost has taken effect if the list lacks the link', async () => {
  const store = await linked({ row: { ...STANDS, desired: null }, change: 'pending', lost: 'remove-link' });
  await tell(store, ...listed());
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: null, hand: 'gone', remote_id: 'w1' });
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test.each<[path: string, told: Told]>([
  ['a list', listed()],
  ['a record', ['saw-record', recordOf([])]],
])('a link that is wanted again after a lost removal is added again as soon as %s lacks it', async (_path, told) => {
  const store = await linked({ row: STANDS, change: 'pending', lost: 'remove-link' });
  await tell(store, ...told);
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: null, hand: null });
  expect(await findChange(store.query, LINK)).toMatchObject({ state: 'pending', sent: null, effect: 'creation' });
});

test('a list that was requested while an addition was on its way does not allow its repetition', async () => {
  const store = await linked({ row: WANTED, change: 'pending' });
  const sent = JSON.stringify({
    action: 'add-link',
    sentAt: ASKED - MAX_TIME_IN_FLIGHT + 1,
    revision: 3,
    body: { url: URL },
  });
  await updateChange(store.query, LINK, { sent });
  await tell(store, ...listed());
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision: 3 });
});

test('a list of links allows the additions to its task that wait for it', async () => {
  const store = await linked({ row: WANTED, change: 'pending' });
  await updateChange(store.query, LINK, { not_before: NOW + 1 });
  await tell(store, ...listed());
  expect(await findChange(store.query, LINK)).toMatchObject({ not_before: 0 });
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision: AS_OF + 1 });
});

const OF_ISSUE = { workItemId: 'w7', url: ISSUE.url, externalId: null };
const FOREIGN = entity.link(ISSUE.key, 't1');

test.each<[what: string, isKept: boolean, action: Answer['action'], link: object]>([
  ['by a person is the link of that item', true, 'read-links', OF_ISSUE],
  ['that an event reports is so too', true, 'saw-link', { ...OF_ISSUE, taskId: 't1' }],
  ['by an application is so too', true, 'read-links', { ...OF_ISSUE, externalId: 'theirs' }],
  ['of ours is not', false, 'read-links', { ...OF_ISSUE, externalId: externalIdOf(ISSUE.key) }],
  ['that is no web address is not', false, 'read-links', { ...OF_ISSUE, url: 'ftp://acme.example.com/browse/ENG-1' }],
  ['to an unknown address is not', false, 'read-links', { ...OF_ISSUE, url: 'https://acme.example.com/other' }],
  ['of no task is not', false, 'saw-link', OF_ISSUE],
])('a link to a work item %s', async (_what, isKept, action, made) => {
  const store = await linked({ isSwept: true });
  const told: Told = action === 'read-links' ? listed(made) : [action, made, EVENT];
  expect(await tell(store, ...told)).toEqual(isKept ? [ISSUE.key] : []);
  const kept = { kind: 'link', item_key: ISSUE.key, task_id: 't1', hand: 'manual', remote_id: 'w7', known_at: NOW };
  const row = await findEntity(store.query, FOREIGN);
  if (isKept) expect(row).toMatchObject(kept);
  else expect(row).toBeUndefined();
  expect(await found(store)).toEqual(isKept && action === 'read-links' ? [`link-added ${FOREIGN} ${NOW}`] : []);
});

test.each([URL, `${URL}/`, `${URL}#discussion_r1`])(
  "a link to the address of a pull request whose text names no task is a person's: %s",
  async (url) => {
    const store = await linked({});
    expect(await tell(store, ...listed(link({ url, externalId: null })))).toEqual([PULL.key]);
    expect(await findEntity(store.query, LINK)).toMatchObject({ hand: 'manual', remote_id: 'w1', desired: null });
  },
);

test.each<[what: string, row: Partial<EntityRow>, told: Told, isRead?: boolean]>([
  ["is a person's if a later list shows it again", { hand: 'manual', remote_id: 'w7' }, listed(OF_ISSUE)],
  [
    "is a person's if somebody adds it again",
    { hand: 'manual', remote_id: 'w7' },
    ['saw-link', { ...OF_ISSUE, taskId: 't1' }],
  ],
  ['stays removed if the list was requested before', GONE, listed(OF_ISSUE)],
  ['stays removed if an event may be late, and the links are read', GONE, created(OF_ISSUE), true],
])('a link to a work item that worksync removed %s', async (_what, becomes, told, isRead = false) => {
  const store = await linked({});
  const revision = becomes === GONE && !isRead ? AS_OF + 1 : AS_OF;
  const ids = { item_key: ISSUE.key, task_id: 't1', revision };
  await saveEntity(store.query, blankEntity(FOREIGN, 'link', { ...ids, ...GONE }));
  await tell(store, ...told);
  expect(await findEntity(store.query, FOREIGN)).toMatchObject(becomes);
  expect(await areLinksWanted(store)).toBe(isRead);
});

test.each<[what: string, becomes: Partial<EntityRow>, leads: 'again' | 'read' | 'nowhere', before: Before, told: Told]>(
  [
    ['a new link adds it', { ...THEIRS, known_at: NOW }, 'again', { row: WANTED }, created({ externalId: null })],
    [
      'a link that waits to be added adds it',
      THEIRS,
      'again',
      { row: WANTED, change: 'pending' },
      created({ externalId: null }),
    ],
    ['a known link changes nothing', STANDS, 'nowhere', { row: STANDS }, created()],
    [
      'a link whose addition is in flight changes nothing',
      WANTED,
      'nowhere',
      { row: WANTED, change: 'sending' },
      created(),
    ],
    ['one of ours from before changes nothing', WANTED, 'nowhere', { row: WANTED, change: 'pending' }, created()],
    [
      'a link that a person removed changes nothing',
      REMOVED,
      'nowhere',
      { row: REMOVED },
      created({ externalId: null }),
    ],
    ['a link that worksync removed changes nothing', GONE, 'nowhere', { row: GONE }, created({ externalId: null })],
    [
      'another link of an address that a person removed adds it',
      { hand: 'manual', remote_id: 'w2' },
      'again',
      { row: REMOVED },
      created({ workItemId: 'w2', externalId: null }),
    ],
    [
      'another link of an address that worksync adds again reads the links',
      { known: null },
      'read',
      { row: { ...WANTED, remote_id: 'w1' }, change: 'pending' },
      created({ workItemId: 'w0', externalId: null }),
    ],
    [
      'a known address under another id reads the links',
      STANDS,
      'read',
      { row: STANDS },
      created({ workItemId: 'w2' }),
    ],
    ['a known id with another address reads the links', STANDS, 'read', { row: STANDS }, created({ url: `${URL}0` })],
    [
      'an unknown address changes nothing',
      STANDS,
      'nowhere',
      { row: STANDS },
      created({ workItemId: 'w2', url: `${URL}0` }),
    ],
  ],
)('an event about the creation of %s', async (_what, becomes, leads, before, told) => {
  const store = await linked(before);
  expect(await tell(store, ...told)).toEqual(leads === 'again' ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await areLinksWanted(store)).toBe(leads === 'read');
});

test.each<
  [what: string, becomes: Partial<EntityRow>, leads: 'again' | 'read' | 'nowhere', before: Before, told?: Told]
>([
  ['a known link removes it', { known: null, hand: 'removed', remote_id: 'w1' }, 'again', { row: STANDS }],
  [
    'a link that is not wanted buries it',
    { known: null, hand: 'gone' },
    'again',
    { row: { ...STANDS, desired: null } },
  ],
  ['an unknown id changes nothing', STANDS, 'nowhere', { row: STANDS }, deleted({ workItemId: 'w2' })],
  ['a removed link changes nothing', GONE, 'nowhere', { row: GONE }],
  [
    'a link that is to be added again changes nothing',
    { ...WANTED, remote_id: 'w1' },
    'nowhere',
    { row: { ...WANTED, remote_id: 'w1' }, change: 'pending' },
  ],
  [
    'an unknown id beside a link without an id reads the links',
    { remote_id: null },
    'read',
    { row: { ...STANDS, remote_id: null } },
  ],
  [
    'another id of a known address reads the links',
    STANDS,
    'read',
    { row: STANDS },
    deleted({ workItemId: 'w2', url: URL }),
  ],
  ['a known id with another address reads the links', STANDS, 'read', { row: STANDS }, deleted({ url: `${URL}0` })],
])('an event about the removal of %s', async (_what, becomes, leads, before, told = deleted()) => {
  const store = await linked({ ...before, isSwept: true });
  expect(await tell(store, ...told)).toEqual(leads === 'again' ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await areLinksWanted(store)).toBe(leads === 'read');
  expect(await found(store)).toEqual([]);
});

const ADDED = { ...STANDS, remote_id: null };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, told: Told]>([
  ['is ours, whatever the server echoes', OWN, { row: ADDED }, added(link({ externalId: null }))],
  ['is ours in our spelling', { ...OWN, known: spelled(`${URL}/`) }, { row: ADDED }, added(link({ url: `${URL}/` }))],
  ['has no id yet if the answer has no body', ADDED, { row: ADDED }, added(null, 204)],
  [
    "is a person's if an idempotent server found it",
    THEIRS,
    { row: ADDED, areIdempotent: true },
    added(link({ externalId: null }), 200),
  ],
  [
    'is ours if an idempotent server found the one of our lost addition',
    OWN,
    { row: { ...ADDED, written: '{"isRepeat":true}' }, areIdempotent: true },
    added(link({ externalId: null }), 200),
  ],
  ['is removed if it was removed since', GONE, { row: GONE }, added()],
])('a link that worksync added %s', async (_what, becomes, before, told) => {
  const store = await linked(before);
  expect(await tell(store, ...told)).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

test('the answer to the addition of a link that is forgotten changes nothing', async () => {
  const store = await linked({});
  expect(await tell(store, 'add-link', link(), { entity: 'link:forgotten>t1' })).toEqual([]);
  expect(await findEntity(store.query, 'link:forgotten>t1')).toBeUndefined();
});
