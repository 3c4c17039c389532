import { describe, expect, it } from 'vitest';
import type { Capabilities } from '../../../../src/connectors/connector.ts';
import { type EntityKind, entity, MAX_TIME_IN_FLIGHT, type Written } from '../../../../src/model/change.ts';
import { externalIdOf, type Item, type PullRequest, type WorkItem } from '../../../../src/model/item.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/changes/outbox-rows.ts';
import { itemsNamed } from '../../../../src/store/items/item-names.ts';
import { saveTask } from '../../../../src/store/tasks/stored-tasks.ts';
import { json, type Store } from '../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../src/sync/reconcile/answers/apply-answer.ts';
import {
  type ConnectorFacts,
  PLAIN_RULES,
  type ReconcileConnection,
  type Rules,
} from '../../../../src/sync/reconcile/context.ts';
import { desiredLink } from '../../../../src/sync/reconcile/evaluate-links.ts';
import { desiredRecord, differingFields, recordDiffers } from '../../../../src/sync/reconcile/evaluate-record.ts';
import { explainItem } from '../../../../src/sync/reconcile/explain.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { answered, RULES, SOURCES, saidOf, takeBatch } from '../../../support/rows/batches.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { bare, pull, workItem } from '../../../support/rows/items.ts';

const NOW = 5_000;
const PULL_URL = 'https://github.com/acme/api/pull/1';
const PULL = pull({ url: PULL_URL, headSha: 'a'.repeat(40) });
const NAMING = { ...PULL, title: 'BUG-1: a change' };
const LINK = entity.link(PULL.key, 't1');
const RECORD = entity.pullRequest('github', '5001', '1');
const STORY = workItem({ type: 'Story', url: 'https://acme.example.com/browse/ENG-1' });
const BUG = { ...STORY, type: 'Bug' };
const CREATION = entity.task(BUG.key);
const TASK = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };

type State = 'pending' | 'sending' | 'unknown' | 'held';

interface Before {
  readonly tasks?: readonly object[];
  readonly rows?: readonly EntityRow[];
  /** A change of this entity. */
  readonly change?: readonly [name: string, kind: EntityKind, state: State] | undefined;
}

async function storeWith({ tasks = [TASK], rows = [], change }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  for (const task of tasks) await saveTask(query, { ...TASK, ...task }, 1);
  for (const row of rows) await saveEntity(query, row);
  if (!change) return store;
  const [name, kind, state] = change;
  const times = { since: 1, due: 1, weight: 1, waiting: [] };
  await addDifference(query, { entity: name, kind, lane: 'link', effect: 'creation', ...times });
  await updateChange(query, name, { state, sent: state === 'sending' || state === 'unknown' ? '{}' : null });
  return store;
}

/** Expects this change of an entity, or none. */
async function expectChange({ query }: Store, name: string, change: object | undefined): Promise<void> {
  const found = await findChange(query, name);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
}

describe('a link', () => {
  const DESIRED = { desired: JSON.stringify({ url: PULL_URL }) };
  const OURS = JSON.stringify({ url: PULL_URL, externalId: externalIdOf(PULL.key) });
  const EXISTING = { ...DESIRED, known: OURS, remote_id: 'w1' };
  const NO_OWNER = { ...EXISTING, known: JSON.stringify({ url: PULL_URL }) };
  const BY_HAND = { ...EXISTING, hand: 'manual' } as const;
  const REMOVED = { ...DESIRED, hand: 'removed' } as const;
  const ONCE: Written = { action: 'add-link', sentAt: NOW - 1, answeredAt: NOW, id: 'a1' };
  const WRITTEN_ONCE = { ...EXISTING, written: JSON.stringify(ONCE) };
  const WRITTEN_TWICE = { ...EXISTING, written: JSON.stringify({ ...ONCE, isRepeat: true }) };

  /** @param recorded the tasks that the record of the pull request is known to name */
  const linked = (row?: Partial<EntityRow>, state?: State, recorded?: readonly string[]) => {
    const known = JSON.stringify({ title: 'A change', taskIds: recorded });
    const link = { ...blankEntity(LINK, 'link', { item_key: PULL.key, task_id: 't1' }), ...row };
    const record = { ...blankEntity(RECORD, 'pull_request'), known };
    const rows = [...(row ? [link] : []), ...(recorded ? [record] : [])];
    return storeWith({ rows, change: state && [LINK, 'link', state] });
  };
  type Link = Parameters<typeof linked>;
  const ADDITION = { state: 'pending', effect: 'creation', lane: 'link' };
  const REMOVAL = { state: 'pending', effect: 'removal', lane: 'link' };

  it.each<[what: string, change: object | undefined, before: Link, item?: Partial<Item>]>([
    ['that is not known is added', ADDITION, []],
    ['that exists stays', undefined, [EXISTING]],
    ['that a person removed is not added', undefined, [REMOVED]],
    ['that a person removed cancels a waiting addition', undefined, [REMOVED, 'pending']],
    ['that a person made stays', undefined, [BY_HAND]],
    ['that the record names exists', undefined, [undefined, undefined, ['t1']]],
    ['of an item without an address is not added', undefined, [], { url: undefined }],
  ])('that is desired and %s', async (_what, change, before, fields = {}) => {
    const store = await linked(...before);
    await look(store, { ...NAMING, ...fields } as Item);
    await expectChange(store, LINK, change);
    const row = await findEntity(store.query, LINK);
    if ('url' in fields) expect(row).toBeUndefined();
    else
      expect(json(row?.desired ?? null)).toMatchObject({ url: PULL_URL, reason: { rule: 'task-key', text: 'BUG-1' } });
  });

  it('that only the record names has an unknown owner', async () => {
    const store = await linked(undefined, undefined, ['t1', 't2']);
    await look(store, NAMING);
    const known = JSON.stringify({ url: PULL_URL });
    expect(await findEntity(store.query, LINK)).toMatchObject({ known, known_at: NOW });
    expect(await findEntity(store.query, entity.link(PULL.key, 't2'))).toBeUndefined();
  });

  it.each<[what: string, isKept: boolean, change: object | undefined, isRead: boolean, ...before: Link]>([
    ['was never added is removed from the store', false, undefined, false, DESIRED],
    ['waits to be added is removed from the store', false, undefined, false, DESIRED, 'pending'],
    ['is held is removed from the store', false, undefined, false, DESIRED, 'held'],
    ['is being added is removed afterwards', true, { ...REMOVAL, state: 'sending' }, false, DESIRED, 'sending'],
    ['may have been added is removed later', true, { ...REMOVAL, state: 'unknown' }, false, DESIRED, 'unknown'],
    ['is ours is removed', true, REMOVAL, false, EXISTING],
    ['is ours by one request is removed at once', true, { not_before: 0 }, false, WRITTEN_ONCE],
    ['is ours by two requests is removed later', true, { not_before: NOW + MAX_TIME_IN_FLIGHT }, false, WRITTEN_TWICE],
    ['a person made stays', true, undefined, false, BY_HAND],
    ['a person made cancels a waiting change', true, undefined, false, BY_HAND, 'pending'],
    ['has an unknown owner is read', true, undefined, true, NO_OWNER],
    ['has an unknown id is read', true, undefined, true, { ...EXISTING, remote_id: null }],
  ])('that is no longer desired and that %s', async (_what, isKept, change, isRead, ...before) => {
    const store = await linked(...before);
    await look(store, PULL);
    const row = await findEntity(store.query, LINK);
    if (isKept) expect(row).toMatchObject({ desired: null, known: before[0]?.known ?? null });
    else expect(row).toBeUndefined();
    await expectChange(store, LINK, change);
    const read = isRead ? { kind: 'read', lane: 'link', effect: 'removal' } : undefined;
    await expectChange(store, entity.readLinks('t1'), read);
  });

  it('to a task that is not cached stays', async () => {
    const ids = { item_key: PULL.key, task_id: 't1' };
    const store = await storeWith({ tasks: [], rows: [{ ...blankEntity(LINK, 'link', ids), ...EXISTING }] });
    await look(store, PULL);
    await expectChange(store, LINK, undefined);
    expect(await findEntity(store.query, LINK)).toMatchObject({ desired: EXISTING.desired });
  });

  it('that waits is postponed only if its request changes', async () => {
    const first = await linked();
    await look(first, NAMING);
    const wanted = (await findEntity(first.query, LINK))?.desired ?? null;
    const due = async (row: Partial<EntityRow>, item: Item) => {
      const store = await linked(row, 'pending');
      await look(store, item);
      return (await findChange(store.query, LINK))?.due;
    };
    expect(await due({ desired: wanted }, NAMING)).toBe(1);
    expect(await due({ desired: null }, NAMING)).toBeGreaterThan(1);
    expect(await due({ ...EXISTING, desired: null }, PULL)).toBe(1);
    expect(await due(EXISTING, PULL)).toBeGreaterThan(1);
  });

  it.each<[what: string, isLinked: boolean, row: Partial<EntityRow> | undefined, task?: object]>([
    ['that worksync created', true, { known: '{}', remote_id: 't1' }],
    ['whose source is the item', true, undefined, { source: STORY.key }],
    ['that is not created yet', false, { desired: '{}' }],
  ])('of a work item leads to the task %s: %s', async (_what, isLinked, row, task = {}) => {
    const rows = row ? [{ ...blankEntity(CREATION, 'task', { item_key: STORY.key }), ...row }] : [];
    const store = await storeWith({ tasks: [task], rows });
    await look(store, STORY);
    const desired = json((await findEntity(store.query, entity.link(STORY.key, 't1')))?.desired ?? null);
    if (isLinked) expect(desired).toMatchObject({ reason: { rule: 'triage', place: 'source', text: STORY.key } });
    else expect(desired).toBeUndefined();
  });

  it('contains the address, the title, the item and its provider', () => {
    const link = { url: PULL_URL, externalId: `worksync:${PULL.key}`, provider: 'github' };
    expect(desiredLink(PULL)).toEqual({ ...link, title: PULL.title });
    expect(desiredLink(bare(1, { url: PULL_URL }))).toEqual(link);
    expect(desiredLink(pull({ url: PULL_URL, title: 'x'.repeat(300) }))?.title).toBe(`${'x'.repeat(254)}…`);
    expect([desiredLink(pull()), desiredLink(pull({ url: '' }))]).toEqual([undefined, undefined]);
  });
});

describe('the task of a work item', () => {
  const DESIRED = { desired: JSON.stringify({ kind: 'bug', title: 'An issue', source: BUG.key }) };
  const CREATED = { ...DESIRED, known: '{}' };
  const PENDING = { state: 'pending', effect: 'creation', lane: 'triage' };
  const SENDING = { state: 'sending', sent: '{}' };

  const withCreation = (row?: Partial<EntityRow>, state?: State, tasks: readonly object[] = []) => {
    const rows = row ? [{ ...blankEntity(CREATION, 'task', { item_key: BUG.key }), ...row }] : [];
    return storeWith({ tasks, rows, change: state && [CREATION, 'task', state] });
  };
  type Creation = Parameters<typeof withCreation>;
  const BY_OTHER = [{ source: BUG.key }];

  it.each<[what: string, desired: object | null | undefined, change: object | undefined, Creation, Partial<WorkItem>?]>(
    [
      ['matches a rule', { kind: 'bug', title: 'An issue' }, PENDING, []],
      ['has changed', { title: 'Other' }, { state: 'pending' }, [DESIRED, 'pending'], { title: 'Other' }],
      ['has a task that worksync created', { title: 'An issue' }, undefined, [CREATED], { title: 'Other' }],
      ['has a task of another client', undefined, undefined, [undefined, undefined, BY_OTHER]],
      ['got a task meanwhile', undefined, undefined, [DESIRED, 'pending', BY_OTHER]],
      ['names a task', undefined, undefined, [undefined, undefined, [{}]], { title: 'As BUG-1' }],
      ['matches no rule', undefined, undefined, [], { type: 'Story' }],
      ['no longer matches a rule', undefined, undefined, [DESIRED, 'pending'], { type: 'Story' }],
      ['no longer matches one in flight', null, SENDING, [DESIRED, 'sending'], { type: 'Story' }],
    ],
  )('that %s', async (_what, desired, change, before, fields = {}) => {
    const store = await withCreation(...before);
    await look(store, { ...BUG, ...fields });
    const row = await findEntity(store.query, CREATION);
    if (desired === undefined) expect(row).toBeUndefined();
    else if (desired === null) expect(row).toMatchObject({ desired: null });
    else expect(json(row?.desired ?? null)).toMatchObject(desired);
    await expectChange(store, CREATION, change);
  });

  it('is not created without triage, and nothing is stored', async () => {
    const store = await withCreation(DESIRED, 'pending');
    const other = { ...BUG, key: 'jira:cloud-1:10002' };
    for (const item of [BUG, other]) {
      await look(store, item, { rules: PLAIN_RULES });
      expect(await findEntity(store.query, entity.task(item.key))).toBeUndefined();
      await expectChange(store, entity.task(item.key), undefined);
    }
  });

  it('is not confirmed by a backfill', async () => {
    const store = await withCreation();
    await look(store, BUG, { cause: { isBackfill: true } });
    await expectChange(store, CREATION, { lane: 'backfill', guard: null });
  });

  it('passes, with the names, to the item in which a moved one goes on', async () => {
    const next = { ...BUG, key: 'jira:cloud-1:10077', identifier: 'OPS-9', url: 'https://a.example/browse/OPS-9' };
    const store = await withCreation({ ...CREATED, remote_id: 't1' });
    const states = [BUG, { ...BUG, updatedAt: 2_000, movedTo: next.key }, next];
    for (const [at, item] of states.entries()) await store.commit((query) => takeBatch(query, [saidOf(item)], at));
    const named = async (name: string) => (await itemsNamed(store.query, [name])).map(({ itemKey }) => itemKey);
    expect([await named('ENG-1'), await named('OPS-9')]).toEqual([[next.key], [next.key]]);
    expect(await findEntity(store.query, entity.task(next.key))).toMatchObject({ remote_id: 't1' });
    await expectChange(store, entity.task(next.key), undefined);
  });
});

describe('a document', () => {
  const NAMING_IT = { ...NAMING, description: 'https://app.example.com/workspace/docs/d1' };
  const BOTH = { ...NAMING_IT, title: 'BUG-1 and BUG-2: a change' };
  const DOCUMENT = entity.document('d1');
  const READ = entity.readDocument('d1');
  const LOOSE = { known: JSON.stringify({ taskId: null, isMissing: false }) };
  const ATTACHED = { known: JSON.stringify({ taskId: 't1', isMissing: false }) };
  const MISSING = { known: JSON.stringify({ taskId: null, isMissing: true }) };
  const CLAIMED = { task_id: 't1', desired: '{}' };

  const withDocument = (row?: Partial<EntityRow>, state?: State) => {
    const rows = row ? [{ ...blankEntity(DOCUMENT, 'document', { item_key: PULL.key }), ...row }] : [];
    const tasks = [{}, { taskId: 't0', key: 'BUG-2' }];
    return storeWith({ tasks, rows, change: state && [DOCUMENT, 'document', state] });
  };

  async function requested({ query }: Store): Promise<string> {
    const [read, attached] = [await findChange(query, READ), await findChange(query, DOCUMENT)];
    return [read && 'read', attached && 'attached'].filter(Boolean).join();
  }

  it.each<[what: string, expected: string, row?: Partial<EntityRow>, item?: Partial<PullRequest>, rules?: Rules]>([
    ['that is not known is read first', 'read'],
    ['without a task is attached', 'attached', LOOSE],
    ['with a task stays there', '', ATTACHED],
    ['that is missing is not attached', '', MISSING],
    ['that a person moved stays there', '', { ...LOOSE, hand: 'removed' }],
    ['that another item has claimed is not attached', '', { ...LOOSE, item_key: 'other' }],
    ['of an item without a task is not attached', '', undefined, { title: 'A change' }],
    ['is not attached if documents are switched off', '', LOOSE, {}, PLAIN_RULES],
  ])('%s', async (_what, expected, row, fields = {}, rules = RULES) => {
    const store = await withDocument(row);
    await look(store, { ...NAMING_IT, ...fields }, { rules });
    expect(await requested(store)).toBe(expected);
  });

  it('is attached to the first task of the item whose link was not removed', async () => {
    const store = await withDocument();
    await look(store, BOTH);
    expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't0', item_key: PULL.key });
    const link = (await findEntity(store.query, entity.link(PULL.key, 't0'))) as EntityRow;
    await saveEntity(store.query, { ...link, hand: 'removed' });
    await look(store, BOTH);
    expect(await findEntity(store.query, DOCUMENT)).toMatchObject({ task_id: 't1' });
  });

  it.each<[what: string, isCancelled: boolean, row: Partial<EntityRow>, state?: State]>([
    ['waits is cancelled', true, { ...CLAIMED, ...LOOSE }, 'pending'],
    ['is not known is cancelled', true, CLAIMED],
    ['is attached stays attached', false, { ...CLAIMED, ...ATTACHED }, 'pending'],
    ['is in flight is attached', false, { ...CLAIMED, ...LOOSE }, 'sending'],
  ])('that is no longer named and that %s', async (_what, isCancelled, row, state) => {
    for (const fields of [{ description: '' }, { title: 'A change' }]) {
      const store = await withDocument(row, state);
      await look(store, { ...NAMING_IT, ...fields });
      expect((await findEntity(store.query, DOCUMENT)) === undefined).toBe(isCancelled);
      expect(await requested(store)).toBe(isCancelled ? '' : 'attached');
    }
  });

  const at = (second: number) => `2026-01-05T09:00:0${second}.000Z`;
  const KNOWN = { taskId: 't1', isMissing: false, updatedAt: at(5) };
  const DETACHED = { taskId: null, isMissing: false, updatedAt: at(6) };

  it.each<[what: string, reported: object, known: object, hand: 'removed' | null, isRead: boolean]>([
    ['older than the attachment is ignored', { updatedAt: at(4) }, KNOWN, null, false],
    ['of a removal by a person is applied', { updatedAt: at(6) }, DETACHED, 'removed', false],
    ['of a deletion is always applied', { updatedAt: at(4), isMissing: true }, { isMissing: true }, 'removed', false],
    ['of the same time causes a read', { updatedAt: at(5) }, KNOWN, null, true],
    ['without a time causes a read', {}, KNOWN, null, true],
  ])('that is attached: an event %s', async (_what, reported, known, hand, isRead) => {
    const store = await withDocument({ ...CLAIMED, known: JSON.stringify(KNOWN), known_at: 1 });
    const body = { documents: [{ documentId: 'd1', taskId: null, ...reported }] };
    const answer = { action: 'saw-documents', entity: '', sentAt: NOW, body } as const;
    await store.commit((query) => applyAnswer(query, answer, { now: NOW + 1, usedShare: 0 }));
    const after = await findEntity(store.query, DOCUMENT);
    expect([JSON.parse(after?.known ?? ''), after?.hand]).toEqual([expect.objectContaining(known), hand]);
    expect((await requested(store)).includes('read')).toBe(isRead);
  });
});

interface Linked {
  /** The key of the second task, and its link. */
  readonly key?: string;
  readonly link?: Partial<EntityRow>;
  /** The entity of a change in flight. */
  readonly change?: string;
}

it.each<[what: string, expected: string | undefined, before: Linked]>([
  ['both', 'BUG-1 and BUG-2', {}],
  ['only the one with a known link', 'BUG-1', { link: { known: null, hand: 'removed' } }],
  ['none, while a link is in flight', undefined, { change: entity.link(STORY.key, 't2') }],
  ['none, while the creation of its task is in flight', undefined, { change: CREATION }],
  ['no key that is not a key of the workspace', 'BUG-1', { key: '@all' }],
  ['no key that is too long', 'BUG-1', { key: `B-${'1'.repeat(39)}` }],
  ['the id of a task without a key,', 'BUG-1 and t2', { key: 't2' }],
])('a comment names %s of two tasks', async (_what, names, { key = 'BUG-2', link, change }) => {
  const known = JSON.stringify({ url: STORY.url, externalId: externalIdOf(STORY.key) });
  const rows = ['t1', 't2'].map((id): EntityRow => {
    const ids = { item_key: STORY.key, task_id: id, remote_id: id, known, hand: 'manual' } as const;
    return { ...blankEntity(entity.link(STORY.key, id), 'link', ids), ...(id === 't2' && link) };
  });
  const tasks = [{}, { taskId: 't2', key }];
  const store = await storeWith({ tasks, rows, change: change ? [change, 'task', 'sending'] : undefined });
  const source = { writeBack: { comment: true, close: false, status: false } } as Partial<ReconcileConnection>;
  await look(store, STORY, { source });
  const notices = await store.query.selectFrom('notices').select(['kind', 'wanted']).execute();
  expect(notices).toEqual(names ? [{ kind: 'comment', wanted: `Linked to ${names}.` }] : []);
});

const FIXING = { ...PULL, title: 'Fixes ENG-1' };
const OF_STORY = { ...TASK, source: STORY.key };
const NOTHING = { unknownKeys: [], unknownIds: [], dependents: [], tasks: [] };

/** A store that has taken a list of tasks and items. */
async function taken(items: readonly Item[], tasks: readonly object[] = []): Promise<Store> {
  const store = await openTestStore();
  const list = tasks.length > 0 ? [answered('saw-tasks', { tasks })] : [];
  await store.commit((query) => takeBatch(query, [...list, ...items.map((item) => saidOf(item))], 1));
  return store;
}

const changes = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('kind', '!=', 'read').orderBy('entity').execute()).map(
    (row) => row.entity,
  );

describe('an evaluation', () => {
  it('returns the items that name a work item once after each change of its tasks', async () => {
    const store = await taken([STORY, FIXING]);
    expect((await look(store, STORY)).dependents).toEqual([]);
    const created = { known: '{}', remote_id: 't1' };
    await saveEntity(store.query, { ...blankEntity(CREATION, 'task', { item_key: STORY.key }), ...created });
    await saveTask(store.query, TASK, 1);
    expect((await look(store, STORY)).dependents).toEqual([FIXING.key]);
    expect((await look(store, STORY)).dependents).toEqual([]);
  });

  it.each<[what: string, isDependent: boolean, tasks: readonly object[], item: Partial<WorkItem>]>([
    ['name, with a task', true, [OF_STORY], { identifier: 'ENG-2' }],
    ['name, without a task', false, [], { identifier: 'ENG-2' }],
    ['title', false, [OF_STORY], { title: 'Other' }],
  ])('returns the items that name a work item with a new %s: %s', async (_what, isDependent, tasks, fields) => {
    const store = await taken([STORY, { ...PULL, title: 'Fixes ENG-1, fixes ENG-2' }], tasks);
    expect((await look(store, { ...STORY, ...fields })).dependents).toEqual(isDependent ? [PULL.key] : []);
  });

  it('links no work item to the task of another one that its text names', async () => {
    const store = await taken([STORY], [OF_STORY]);
    const following = { ...STORY, key: `${STORY.key}2`, identifier: 'ENG-2', title: 'Follows ENG-1' };
    await look(store, following);
    expect(await findEntity(store.query, entity.link(following.key, 't1'))).toBeUndefined();
  });

  it('returns unknown keys each time, and unknown ids when the text contains them first', async () => {
    const id = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';
    const text = { ...PULL, title: 'BUG-7 and BUG-1', description: `https://app.example.com/workspace/tasks/${id}` };
    const store = await taken([PULL], [TASK]);
    expect(await look(store, text)).toEqual({ ...NOTHING, unknownKeys: ['BUG-7'], unknownIds: [`id:${id}`] });
    expect(await look(store, text)).toEqual({ ...NOTHING, unknownKeys: ['BUG-7'] });
  });

  it('of a gone item withdraws its waiting changes, and its records, links and tasks stay', async () => {
    const store = await taken([BUG, NAMING], [TASK]);
    expect(await changes(store)).toEqual([LINK, RECORD, CREATION]);
    expect(await look(store, { ...NAMING, gone: true })).toEqual(NOTHING);
    expect(await changes(store)).toEqual([CREATION]);
    await look(store, { ...BUG, gone: true });
    expect(await changes(store)).toEqual([]);
    for (const name of [LINK, RECORD, CREATION]) expect(await findEntity(store.query, name)).toBeDefined();
  });
});

describe('a moved work item', () => {
  const LATE = { ...FIXING, key: `${PULL.key}2`, identifier: '2', url: 'https://github.com/acme/api/pull/2' };
  const TOUCHED = { ...FIXING, labels: ['api'], updatedAt: FIXING.updatedAt + 500 };

  let seconds = 1;
  const take = (store: Store, item: Item) => store.commit((query) => takeBatch(query, [saidOf(item)], ++seconds));
  const linkChanges = async (store: Store) => (await changes(store)).filter((name) => name.startsWith('link:github'));
  const linksOf = async (store: Store, { key }: Item) =>
    (await explainItem(store.query, key, { sources: SOURCES, rules: RULES, now: 1 }))?.links;

  /** The link of `FIXING` exists in the workspace, and then the work item is moved to another project. */
  async function moved(): Promise<Store> {
    const store = await taken([STORY, FIXING], [OF_STORY]);
    const row = (await findEntity(store.query, LINK)) as EntityRow;
    await saveEntity(store.query, { ...row, known: row.desired, known_at: 1, remote_id: 'w1' });
    await store.query.deleteFrom('outbox').execute();
    const place = { containerId: '9', containerName: 'OPS', identifier: 'OPS-3' };
    const url = 'https://acme.example.com/browse/OPS-3';
    await take(store, { ...STORY, ...place, url, updatedAt: STORY.updatedAt + 1_000 });
    return store;
  }

  it('keeps its links, and gets new ones by its former name', async () => {
    const store = await moved();
    await take(store, TOUCHED);
    expect(await linkChanges(store)).toEqual([]);
    await take(store, LATE);
    expect(await linkChanges(store)).toEqual([entity.link(LATE.key, 't1')]);
    const reason = { text: 'ENG-1', via: STORY.key, isFormerName: true };
    expect(await linksOf(store, LATE)).toMatchObject([{ reason }]);
  });
});

describe('records', () => {
  const NAMES = { supportsReviewers: true, supportsLabels: true, supportsAssignees: true };
  const ALL: Capabilities = { supportsDraft: true, ...NAMES };
  const vendor = (capabilities = ALL): ConnectorFacts => ({ id: 'github', publicHost: 'github.com', capabilities });

  const SENT: Partial<PullRequest> = {
    ...{ url: 'https://github.com/acme/app/pull/1', description: 'Why', author: 'mona', draft: true, state: 'merged' },
    ...{ assignees: [], createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T09:00:00Z' },
  };
  const FULL = pull({
    ...{ ...SENT, rawState: 'closed', headSha: '1'.repeat(40), repoName: 'acme/app' },
    ...{ reviewers: ['b', 'a'], labels: ['y', 'x', 'y'] },
  });

  const recordOf = (fields: Partial<PullRequest>) => desiredRecord(pull(fields), vendor());

  it('contain the fields that the workspace accepts, and no others, each name once and in order', () => {
    expect(desiredRecord(FULL, vendor())).toEqual({
      ...{ provider: 'github', repoId: '5001', identifier: '1', title: 'A change', headBranch: 'feature' },
      ...{ ...SENT, baseBranch: 'main', reviewers: ['a', 'b'], labels: ['x', 'y'] },
    });
    expect([recordOf({ description: null })?.description, recordOf({})?.description]).toEqual(['', undefined]);
  });

  it.each([
    ['gone', { gone: true }],
    ['no title', { title: undefined }],
    ['no head branch', { headBranch: undefined }],
  ])('are absent for an item that is incomplete: %s', (_, fields) => {
    expect(recordOf(fields)).toBeUndefined();
  });

  it.each<[keyof Capabilities, string]>([
    ['supportsDraft', 'draft'],
    ['supportsReviewers', 'reviewers'],
    ['supportsLabels', 'labels'],
    ['supportsAssignees', 'assignees'],
  ])('have, without the capability %s, no field %s', (capability, field) => {
    expect(desiredRecord(FULL, vendor({ ...ALL, [capability]: false }))).not.toHaveProperty(field);
  });

  it('respect the limits of the workspace', () => {
    const [most, long] = ['x'.repeat(255), 'x'.repeat(256)];
    const labels = Array.from({ length: 1_001 }, (_, at) => `label ${at}`);
    const record = recordOf({ title: long, author: long, labels, reviewers: [long, 'a'], assignees: [long] });
    expect(record).toMatchObject({ title: `${'x'.repeat(254)}…`, reviewers: ['a'], assignees: [] });
    expect(record?.labels).toHaveLength(1_000);
    expect(record).not.toHaveProperty('author');
    expect(recordOf({ title: most, author: most })).toMatchObject({ title: most, author: most });
  });

  it('name the host of a repository unless it is the public one', () => {
    expect(recordOf({ host: 'github.com' })?.repoId).toBe('5001');
    expect(recordOf({ host: 'github.acme.example' })?.repoId).toBe('github.acme.example:5001');
  });

  it.each<[what: string, desired: object, known: object, expected: string[]]>([
    ['an absent field', {}, { title: 'b', labels: ['x'] }, []],
    ['a field that is not known', { title: 'a' }, {}, ['title']],
    ['empty text, null', { description: '' }, { description: null }, []],
    ['empty text, a text', { description: '' }, { description: 'x' }, ['description']],
    ['lists are sets: order', { labels: ['a', 'b'] }, { labels: ['b', 'a'] }, []],
    ['lists, one more', { labels: ['a', 'b'] }, { labels: ['a'] }, ['labels']],
    ['an instant with offset', { createdAt: '2026-01-05T09:00:00Z' }, { createdAt: '2026-01-05T10:00:00+01:00' }, []],
    ['other instants', { mergedAt: '2026-01-05T09:00:00Z' }, { mergedAt: '2026-01-05T09:00:01Z' }, ['mergedAt']],
    ['a text like an instant', { title: '2026-01-05T09:00:00Z' }, { title: '2026-01-05T09:00:00.000Z' }, ['title']],
  ])('differ from the known record by fields: %s', (_, desired, known, expected) => {
    expect(differingFields(desired as never, known as never)).toEqual(expected);
  });

  const OPEN = { title: 'a', state: 'open' };
  const DECLINED = { title: 'a', state: 'declined' };
  it.each([
    ['no known record', OPEN, undefined, true, true],
    ['the same', OPEN, OPEN, true, false],
    ['changed', OPEN, { ...OPEN, title: 'b' }, true, true],
    ['declined for good', { ...OPEN, title: 'b' }, DECLINED, false, false],
    ['declined, and can be reopened', OPEN, DECLINED, true, true],
    ['about to be declined', DECLINED, OPEN, false, true],
    ['closed, and cannot be reopened', OPEN, { ...OPEN, state: 'closed' }, false, true],
    ['never recorded and declined already', DECLINED, undefined, false, true],
  ])('are written or not: %s', (_, desired, known, reopensClosed, expected) => {
    expect(recordDiffers(desired, known, { reopensClosed })).toBe(expected);
  });
});
