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

const URL_ONLY = JSON.stringify({ url: URL });
/** A desired link that exists; worksync added it. */
const EXISTING = { known: JSON.stringify({ url: URL, externalId: OURS }), desired: URL_ONLY, remote_id: 'w1' };
/** A link that is known from a record, which does not show its owner. */
const UNOWNED = { ...EXISTING, known: JSON.stringify({ url: URL }), remote_id: null };
const BY_HAND = { ...EXISTING, known: JSON.stringify({ url: URL, externalId: null }), hand: 'manual' } as const;
/** A desired link that is not known to exist. */
const DESIRED = { known: null, desired: URL_ONLY, remote_id: null };
/** A link that a person removed. */
const REMOVED = { ...DESIRED, remote_id: 'w1', hand: 'removed' } as const;
/** A link that worksync removed. */
const GONE = { known: null, desired: null, remote_id: 'w1', hand: 'gone' } as const;

interface Before {
  readonly row?: Partial<EntityRow>;
  /** The state of the change of the link. Absent: there is no change. */
  readonly change?: 'pending' | 'sending' | 'held' | undefined;
  /** The action of a request whose answer was lost. */
  readonly lost?: 'add-link' | 'remove-link';
  readonly isSwept?: boolean | undefined;
  readonly areIdempotent?: boolean;
}

/** A store with a pull request, its known record, and a link to the task t1. */
async function linked({ row, change, lost, isSwept = false, areIdempotent = false }: Before): Promise<Store> {
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
    await updateChange(query, LINK, { state: change, ...(lost && { sent: JSON.stringify({ action: lost }) }) });
  }
  await configureLinks(query, areIdempotent);
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
const created = (fields: object = {}): Report => ['saw-link', link(fields), EVENT];
const deleted = (fields: object = {}): Report => [
  'saw-link-removed',
  { taskId: 't1', workItemId: 'w1', ...fields },
  EVENT,
];

test.each<[path: string, row: Partial<EntityRow>, becomes: Partial<EntityRow>, report: Report]>([
  ['a list without it', EXISTING, { known: null, hand: 'removed' }, listed()],
  ['a list with it', DESIRED, { known: EXISTING.known, hand: null, remote_id: 'w1' }, listed(link())],
  ['a record without its task', EXISTING, { known: null, hand: 'removed' }, ['saw-record', recordOf([])]],
  ['a record with its task', DESIRED, { known: URL_ONLY, hand: null }, ['saw-record', recordOf(['t1'])]],
  ['the answer to its addition', { ...EXISTING, remote_id: null }, { remote_id: 'w1', hand: null }, added()],
  [
    'its addition by another client',
    DESIRED,
    { hand: 'manual', remote_id: 'w1' },
    ['saw-link', link({ externalId: null })],
  ],
  [
    'its removal by another client',
    EXISTING,
    { known: null, hand: 'removed' },
    ['saw-link-removed', { taskId: 't1', workItemId: 'w1' }],
  ],
])('%s is ignored if a newer state became known after its request was sent', async (_path, row, becomes, report) => {
  const current = await linked({ row });
  await apply(current, ...report);
  const isNotAdded = report[0] === 'add-link';
  expect(await findEntity(current.query, LINK)).toMatchObject({ ...becomes, revision: isNotAdded ? AS_OF : CURRENT });
  const late = await linked({ row: { ...row, revision: AS_OF + 1, known_at: 1 } });
  await apply(late, ...report);
  expect(await findEntity(late.query, LINK)).toMatchObject({ ...row, revision: AS_OF + 1 });
});

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, record?: object]>([
  ['that is no longer desired', { known: null, hand: 'gone' }, { row: { ...EXISTING, desired: null } }],
  ['whose removal waits', { known: null, hand: 'gone' }, { row: { ...EXISTING, desired: null }, change: 'pending' }],
  ['whose change is in flight', EXISTING, { row: EXISTING, change: 'sending' }],
  ['whose addition waits', EXISTING, { row: EXISTING, change: 'pending' }],
  ['with its address before a rename', EXISTING, { row: EXISTING }, recordOf([], `${URL}0`)],
  ['that is not known', DESIRED, { row: DESIRED }],
])('a record that does not list the task of a link %s', async (_what, becomes, before, record = recordOf([])) => {
  const store = await linked(before);
  await apply(store, 'saw-record', record);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

const FOUND = { known: URL_ONLY, known_at: NOW, hand: null };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, left?: string]>([
  ['is known', FOUND, { row: DESIRED }],
  ['is known, even if a person removed it', FOUND, { row: { ...DESIRED, hand: 'removed' } }],
  ['is not added', FOUND, { row: DESIRED, change: 'pending' }],
  ['stays as it is while its addition is in flight', DESIRED, { row: DESIRED, change: 'sending' }, 'sending'],
  ['stays as it is while its change is held', DESIRED, { row: DESIRED, change: 'held' }, 'held'],
])('a link whose task a record lists %s', async (_what, becomes, before, left) => {
  const store = await linked(before);
  await apply(store, 'saw-record', recordOf(['t1']));
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect((await findChange(store.query, LINK))?.state).toBe(left);
});

/** Our link as it is known at a server that changes the spelling of its address. */
const spelled = (url: string) =>
  expect.toSatisfy((known: string) => {
    const { spelled: theirs, ...ours } = JSON.parse(known);
    return theirs === url && ours.url === URL && ours.externalId === OURS;
  });

test('a record without a task keeps a link whose address the server spells differently', async () => {
  const row = { ...EXISTING, known: JSON.stringify({ url: URL, spelled: `${URL}/`, externalId: OURS }) };
  const store = await linked({ row });
  await apply(store, 'saw-record', recordOf([]));
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: row.known, hand: null });
});

test('a record without a list of tasks changes no link', async () => {
  const store = await linked({ row: EXISTING });
  await apply(store, 'saw-record', { ...recordOf([]), taskIds: undefined });
  expect(await findEntity(store.query, LINK)).toMatchObject(EXISTING);
});

test.each<[what: string, expected: string[], isSwept: boolean, row: Partial<EntityRow>, taskIds: string[]]>([
  ['removed', [`link-removed ${LINK} ${NOW}`], true, EXISTING, []],
  ['removed, but not without a round', [], false, EXISTING, []],
  ['added', [`link-added ${LINK} ${NOW}`], true, DESIRED, ['t1']],
  ['unchanged, with no finding', [], true, EXISTING, ['t1']],
])('a sweep round reports a link that was %s', async (_what, expected, isSwept, row, taskIds) => {
  const store = await linked({ row, isSwept });
  await apply(store, 'read-pull-requests', { pullRequests: [recordOf(taskIds)], nextCursor: 'more' });
  expect(await findings(store)).toEqual(expected);
});

const OURS_NOW = { known: EXISTING.known, remote_id: 'w1', hand: null };
const MANUAL = { known: BY_HAND.known, remote_id: 'w1', hand: 'manual' as const };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, links: object[]]>([
  ['is ours if worksync added it', OURS_NOW, { row: EXISTING }, [link({ externalId: null })]],
  ['is ours if only its externalId shows it', OURS_NOW, { row: UNOWNED }, [link()]],
  ["is a person's if nothing shows that it is ours", MANUAL, { row: UNOWNED }, [link({ externalId: null })]],
  ["stays a person's with any externalId", { hand: 'manual' }, { row: BY_HAND }, [link()]],
  [
    "is a person's under another id",
    { ...MANUAL, remote_id: 'w2' },
    { row: EXISTING },
    [link({ workItemId: 'w2', externalId: null })],
  ],
  [
    'has another address under the same id',
    { remote_id: 'w1', hand: null },
    { row: EXISTING },
    [link({ url: `${URL}0` })],
  ],
  [
    'is ours if it appears after a lost addition',
    OURS_NOW,
    { row: DESIRED, change: 'pending', lost: 'add-link' },
    [link({ externalId: null })],
  ],
  ["is a person's if it was not sent yet", MANUAL, { row: DESIRED, change: 'pending' }, [link({ externalId: null })]],
  [
    'is missing among others',
    { known: null, hand: 'removed' },
    { row: EXISTING },
    [link({ workItemId: 'w2', url: `${URL}0` })],
  ],
  ['is still missing', DESIRED, { row: DESIRED }, []],
])('a link in the list of its task %s', async (_what, becomes, before, links) => {
  const store = await linked(before);
  expect(await apply(store, ...listed(...links))).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test.each<[what: string, url: string]>([
  ['a slash at its end', `${URL}/`],
  ['other case', URL.toUpperCase()],
  ['a fragment', `${URL}#top`],
])('a link whose address the server returns with %s is recognized and keeps our spelling', async (_what, url) => {
  const store = await linked({ row: DESIRED, change: 'pending', lost: 'add-link' });
  await apply(store, ...listed(link({ url, externalId: null })));
  expect(await findEntity(store.query, LINK)).toMatchObject({ ...OURS_NOW, known: spelled(url) });
  const seen = await linked({ row: EXISTING });
  await apply(seen, ...created({ url }));
  expect(await areLinksRequested(seen)).toBe(false);
});

test('an address in another spelling is recognized only if it matches one link', async () => {
  const store = await linked({ row: DESIRED });
  const other = { item_key: ISSUE.key, task_id: 't1', desired: JSON.stringify({ url: `${URL}#other` }) };
  await saveEntity(store.query, blankEntity(entity.link(ISSUE.key, 't1'), 'link', other));
  await apply(store, ...listed(link({ url: `${URL}#top` })));
  expect(await findEntity(store.query, LINK)).toMatchObject(DESIRED);
});

test.each<[what: string, body: object]>([
  [
    'that may have been cut',
    { workItems: Array.from({ length: 20 }, (_, at) => link({ workItemId: `w9${at}`, url: `${URL}${at}` })) },
  ],
  ['with further pages', { workItems: [], isLast: false }],
  ['with an unreadable link', { workItems: [{ url: URL }] }],
])('a list of links %s removes none', async (_what, body) => {
  const store = await linked({ row: EXISTING });
  await apply(store, 'read-links', body, OF_TASK);
  expect(await findEntity(store.query, LINK)).toMatchObject(EXISTING);
});

test.each<[what: string, report: Report, row: Partial<EntityRow>, becomes: Partial<EntityRow>]>([
  ['a record', ['saw-record', recordOf(['t1'])], DESIRED, { known: null, hand: 'removed' }],
  ['a link', ['saw-link', link({ externalId: null })], DESIRED, { known: null, hand: 'removed' }],
  ['a removal', ['saw-link-removed', { taskId: 't1', workItemId: 'w1' }], EXISTING, { known: BY_HAND.known }],
])(
  'a list that was requested after the receipt of %s overrides it at any later time',
  async (_what, report, row, becomes) => {
    const store = await linked({ row });
    const [action, body] = report;
    await apply(store, action, body, { receivedRevision: AS_OF + 1 });
    const isThere = becomes.known !== null;
    const [, list] = listed(...(isThere ? [link({ externalId: null })] : []));
    await apply(store, 'read-links', list, { ...OF_TASK, asOf: AS_OF + 1 });
    expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  },
);

test('a list settles a lost addition, even if a record showed the link before', async () => {
  const store = await linked({ row: DESIRED, change: 'pending', lost: 'add-link' });
  await apply(store, 'saw-record', recordOf(['t1']), { receivedRevision: AS_OF + 1 });
  expect(await findChange(store.query, LINK)).toBeDefined();
  await apply(store, 'read-links', { workItems: [link({ externalId: null })] }, { ...OF_TASK, asOf: AS_OF + 1 });
  expect(await findEntity(store.query, LINK)).toMatchObject(OURS_NOW);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test('a lost addition of a link that is no longer desired took effect if the list shows the link', async () => {
  const row = { ...DESIRED, desired: null };
  const store = await linked({ row, change: 'pending', lost: 'add-link' });
  const sent = JSON.stringify({ action: 'add-link', body: { url: URL } });
  await updateChange(store.query, LINK, { sent });
  expect(await apply(store, ...listed(link({ externalId: null })))).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(OURS_NOW);
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test('a lost removal took effect if the list lacks the link', async () => {
  const store = await linked({ row: { ...EXISTING, desired: null }, change: 'pending', lost: 'remove-link' });
  await apply(store, ...listed());
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: null, hand: 'gone', remote_id: 'w1' });
  expect(await findChange(store.query, LINK)).toBeUndefined();
});

test.each<[path: string, report: Report]>([
  ['a list', listed()],
  ['a record', ['saw-record', recordOf([])]],
])('a link that is desired again after a lost removal is added again if %s lacks it', async (_path, report) => {
  const store = await linked({ row: EXISTING, change: 'pending', lost: 'remove-link' });
  await apply(store, ...report);
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: null, hand: null });
  expect(await findChange(store.query, LINK)).toMatchObject({ state: 'pending', sent: null, effect: 'creation' });
});

test('a list that was requested while an addition was in flight does not allow its repetition', async () => {
  const store = await linked({ row: DESIRED, change: 'pending' });
  const sent = JSON.stringify({
    action: 'add-link',
    sentAt: REQUESTED - MAX_TIME_IN_FLIGHT + 1,
    revision: 3,
    body: { url: URL },
  });
  await updateChange(store.query, LINK, { sent });
  await apply(store, ...listed());
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision: 3 });
});

test('a list of links allows the additions to its task that wait for it', async () => {
  const store = await linked({ row: DESIRED, change: 'pending' });
  await updateChange(store.query, LINK, { not_before: NOW + 1, awaits: 'links' });
  await apply(store, ...listed());
  expect(await findChange(store.query, LINK)).toMatchObject({ not_before: 0 });
  expect(await lastLinksRead(store.query, 't1')).toMatchObject({ revision: AS_OF + 1 });
});

const OF_ISSUE = { workItemId: 'w7', url: ISSUE.url, externalId: null };
const FOREIGN = entity.link(ISSUE.key, 't1');

test.each<[what: string, isSaved: boolean, action: Answer['action'], link: object]>([
  ['by a person is the link of that item', true, 'read-links', OF_ISSUE],
  ['that an event reports is the link of that item', true, 'saw-link', { ...OF_ISSUE, taskId: 't1' }],
  ['by another application is the link of that item', true, 'read-links', { ...OF_ISSUE, externalId: 'theirs' }],
  ['of ours is ignored', false, 'read-links', { ...OF_ISSUE, externalId: externalIdOf(ISSUE.key) }],
  [
    'that is no web address is ignored',
    false,
    'read-links',
    { ...OF_ISSUE, url: 'ftp://acme.example.com/browse/ENG-1' },
  ],
  ['to an unknown address is ignored', false, 'read-links', { ...OF_ISSUE, url: 'https://acme.example.com/other' }],
  ['without a task is ignored', false, 'saw-link', OF_ISSUE],
])('a link to a work item %s', async (_what, isSaved, action, body) => {
  const store = await linked({ isSwept: true });
  const report: Report = action === 'read-links' ? listed(body) : [action, body, EVENT];
  expect(await apply(store, ...report)).toEqual(isSaved ? [ISSUE.key] : []);
  const saved = { kind: 'link', item_key: ISSUE.key, task_id: 't1', hand: 'manual', remote_id: 'w7', known_at: NOW };
  const row = await findEntity(store.query, FOREIGN);
  if (isSaved) expect(row).toMatchObject(saved);
  else expect(row).toBeUndefined();
  expect(await findings(store)).toEqual(isSaved && action === 'read-links' ? [`link-added ${FOREIGN} ${NOW}`] : []);
});

test.each([URL, `${URL}/`, `${URL}#discussion_r1`])(
  "a link to a pull request that names no task is a person's: %s",
  async (url) => {
    const store = await linked({});
    expect(await apply(store, ...listed(link({ url, externalId: null })))).toEqual([PULL.key]);
    expect(await findEntity(store.query, LINK)).toMatchObject({ hand: 'manual', remote_id: 'w1', desired: null });
  },
);

test.each<[what: string, row: Partial<EntityRow>, report: Report, isRead?: boolean]>([
  ["is a person's if a later list shows it again", { hand: 'manual', remote_id: 'w7' }, listed(OF_ISSUE)],
  [
    "is a person's if it is added again",
    { hand: 'manual', remote_id: 'w7' },
    ['saw-link', { ...OF_ISSUE, taskId: 't1' }],
  ],
  ['stays removed if the list was requested before', GONE, listed(OF_ISSUE)],
  ['stays removed if the event may be late, and the links are read', GONE, created(OF_ISSUE), true],
])('a link to a work item that worksync removed %s', async (_what, becomes, report, isRead = false) => {
  const store = await linked({});
  const revision = becomes === GONE && !isRead ? AS_OF + 1 : AS_OF;
  const ids = { item_key: ISSUE.key, task_id: 't1', revision };
  await saveEntity(store.query, blankEntity(FOREIGN, 'link', { ...ids, ...GONE }));
  await apply(store, ...report);
  expect(await findEntity(store.query, FOREIGN)).toMatchObject(becomes);
  expect(await areLinksRequested(store)).toBe(isRead);
});

test.each<
  [what: string, becomes: Partial<EntityRow>, outcome: 'evaluated' | 'read' | 'ignored', before: Before, report: Report]
>([
  ['a new link adds it', { ...MANUAL, known_at: NOW }, 'evaluated', { row: DESIRED }, created({ externalId: null })],
  [
    'a link that waits to be added adds it',
    MANUAL,
    'evaluated',
    { row: DESIRED, change: 'pending' },
    created({ externalId: null }),
  ],
  ['a known link changes nothing', EXISTING, 'ignored', { row: EXISTING }, created()],
  [
    'a link whose addition is in flight changes nothing',
    DESIRED,
    'ignored',
    { row: DESIRED, change: 'sending' },
    created(),
  ],
  ['an older link of ours changes nothing', DESIRED, 'ignored', { row: DESIRED, change: 'pending' }, created()],
  ['a link that a person removed changes nothing', REMOVED, 'ignored', { row: REMOVED }, created({ externalId: null })],
  ['a link that worksync removed changes nothing', GONE, 'ignored', { row: GONE }, created({ externalId: null })],
  [
    'another link of an address that a person removed adds it',
    { hand: 'manual', remote_id: 'w2' },
    'evaluated',
    { row: REMOVED },
    created({ workItemId: 'w2', externalId: null }),
  ],
  [
    'another link of an address that worksync adds again reads the links',
    { known: null },
    'read',
    { row: { ...DESIRED, remote_id: 'w1' }, change: 'pending' },
    created({ workItemId: 'w0', externalId: null }),
  ],
  [
    'a known address under another id reads the links',
    EXISTING,
    'read',
    { row: EXISTING },
    created({ workItemId: 'w2' }),
  ],
  ['a known id with another address reads the links', EXISTING, 'read', { row: EXISTING }, created({ url: `${URL}0` })],
  [
    'an unknown address changes nothing',
    EXISTING,
    'ignored',
    { row: EXISTING },
    created({ workItemId: 'w2', url: `${URL}0` }),
  ],
])('an event about the creation of %s', async (_what, becomes, outcome, before, report) => {
  const store = await linked(before);
  expect(await apply(store, ...report)).toEqual(outcome === 'evaluated' ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await areLinksRequested(store)).toBe(outcome === 'read');
});

test.each<
  [
    what: string,
    becomes: Partial<EntityRow>,
    outcome: 'evaluated' | 'read' | 'ignored',
    before: Before,
    report?: Report,
  ]
>([
  ['a known link removes it', { known: null, hand: 'removed', remote_id: 'w1' }, 'evaluated', { row: EXISTING }],
  [
    'a link that is no longer desired removes it',
    { known: null, hand: 'gone' },
    'evaluated',
    { row: { ...EXISTING, desired: null } },
  ],
  ['an unknown id changes nothing', EXISTING, 'ignored', { row: EXISTING }, deleted({ workItemId: 'w2' })],
  ['a removed link changes nothing', GONE, 'ignored', { row: GONE }],
  [
    'a link whose addition waits changes nothing',
    { ...DESIRED, remote_id: 'w1' },
    'ignored',
    { row: { ...DESIRED, remote_id: 'w1' }, change: 'pending' },
  ],
  [
    'an unknown id beside a link without an id reads the links',
    { remote_id: null },
    'read',
    { row: { ...EXISTING, remote_id: null } },
  ],
  [
    'another id of a known address reads the links',
    EXISTING,
    'read',
    { row: EXISTING },
    deleted({ workItemId: 'w2', url: URL }),
  ],
  ['a known id with another address reads the links', EXISTING, 'read', { row: EXISTING }, deleted({ url: `${URL}0` })],
])('an event about the removal of %s', async (_what, becomes, outcome, before, report = deleted()) => {
  const store = await linked({ ...before, isSwept: true });
  expect(await apply(store, ...report)).toEqual(outcome === 'evaluated' ? [PULL.key] : []);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
  expect(await areLinksRequested(store)).toBe(outcome === 'read');
  expect(await findings(store)).toEqual([]);
});

const ADDED = { ...EXISTING, remote_id: null };

test.each<[what: string, becomes: Partial<EntityRow>, before: Before, report: Report]>([
  ['is ours with any echo of the server', OURS_NOW, { row: ADDED }, added(link({ externalId: null }))],
  [
    'is ours in our spelling',
    { ...OURS_NOW, known: spelled(`${URL}/`) },
    { row: ADDED },
    added(link({ url: `${URL}/` })),
  ],
  ['has no id yet if the answer has no body', ADDED, { row: ADDED }, added(null, 204)],
  [
    "is a person's if an idempotent server found it",
    MANUAL,
    { row: ADDED, areIdempotent: true },
    added(link({ externalId: null }), 200),
  ],
  [
    'is ours if an idempotent server found the link of our lost addition',
    OURS_NOW,
    { row: { ...ADDED, written: '{"isRepeat":true}' }, areIdempotent: true },
    added(link({ externalId: null }), 200),
  ],
  ['is removed if it was removed since', GONE, { row: GONE }, added()],
])('a link that worksync added %s', async (_what, becomes, before, report) => {
  const store = await linked(before);
  expect(await apply(store, ...report)).toEqual([PULL.key]);
  expect(await findEntity(store.query, LINK)).toMatchObject(becomes);
});

test('the answer to the addition of an unknown link changes nothing', async () => {
  const store = await linked({});
  expect(await apply(store, 'add-link', link(), { entity: 'link:forgotten>t1' })).toEqual([]);
  expect(await findEntity(store.query, 'link:forgotten>t1')).toBeUndefined();
});
