import { describe, expect, it } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { ListPage } from '../../../../../src/model/delivery.ts';
import type { Item } from '../../../../../src/model/item.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../../src/store/changes/entities.ts';
import { findChange, type OutboxRow, updateChange } from '../../../../../src/store/changes/outbox-rows.ts';
import { readMeta, TASKS_READ } from '../../../../../src/store/meta.ts';
import { saveTask, tasksByKeys } from '../../../../../src/store/tasks/stored-tasks.ts';
import {
  areTasksUnverified,
  delayCreations,
  markTasksUnverified,
  saveTaskMarks,
  taskMarks,
} from '../../../../../src/store/tasks/task-creations.ts';
import { type Answer, lastLinksRead } from '../../../../../src/store/workspace/workspace-reads.ts';
import type { Store } from '../../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import type { NamedResources } from '../../../../../src/sync/reconcile/answers/shapes.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { START, saidOf, takeBatch } from '../../../../support/rows/batches.ts';
import { pull, workItem } from '../../../../support/rows/items.ts';
import { allTaskKeys } from '../../../../support/rows/task-keys.ts';

/** The times of the requests and of the processing. */
const REQUESTED = START + 200_000;
const NOW = START + 210_000;
const HOUR = 3_600_000;
/** A complete list may lack a task that was last read at this time. */
const LONG_AGO = REQUESTED - HOUR;

const BUG = workItem({ type: 'Bug', url: 'https://acme.example.com/browse/ENG-1', updatedAt: START });
const NAME = entity.task(BUG.key);
const TASK = { taskId: 't9', key: 'BUG-9', title: 'An issue', status: 'open', source: BUG.key };
const MADE = { ...TASK, source: 'api', createdAt: '', updatedAt: '2026-03-01T00:00:00Z' };
const EARLIER = '2026-02-28T23:59:59Z';
const LATER = '2026-03-01T00:00:01Z';
const NAMING = pull({ title: 'BUG-9: a change', url: 'https://github.com/acme/api/pull/1' });

/** A store with a work item whose task creation waits. */
async function storeWithBug(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(BUG)], 1));
  await store.query.deleteFrom('outbox').where('kind', '=', 'read').execute();
  return store;
}

/** A store with cached tasks. */
async function cached(tasks: readonly object[], at = REQUESTED): Promise<Store> {
  const store = await openTestStore();
  for (const task of tasks) await saveTask(store.query, { ...MADE, ...task }, at);
  return store;
}

async function apply({ commit }: Store, action: Answer['action'], body: unknown, more: Partial<Answer> = {}) {
  const answer = { action, entity: '', sentAt: REQUESTED, body, ...more };
  return commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
}

/** Applies a complete list of tasks. */
const list = (store: Store, tasks: readonly object[], page: Partial<ListPage> = {}, more: Partial<Answer> = {}) =>
  apply(
    store,
    'read-tasks',
    { tasks },
    { page: { began: REQUESTED, isEnd: true, isComplete: true, ...page }, ...more },
  );
const FIRST_PAGE = { isEnd: false, isComplete: false };

/** Settles the creation as the outbox does after an answer. */
async function settleCreation({ query }: Store): Promise<void> {
  const row = (await findEntity(query, NAME)) as EntityRow;
  await saveEntity(query, { ...row, known: row.desired });
}

const outbox = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').orderBy('entity').execute()).map((row) => row.entity);
const cachedTask = async ({ query }: Store) => (await tasksByKeys(query, ['BUG-9'])).get('BUG-9');
const keys = async ({ query }: Store) => [...(await allTaskKeys(query)).values()].toSorted();

describe('any answer', () => {
  const LINK = entity.link(BUG.key, 't9');

  it.each<[what: string, reevaluate: string[], answer: Partial<Answer> & Pick<Answer, 'action'>]>([
    ['the removal of a link', [BUG.key], { action: 'remove-link', entity: LINK }],
    ['the action of a person on an item', [BUG.key], { action: 'look-again', entity: BUG.key }],
    ['the creation of a task', [BUG.key], { action: 'create-task', entity: NAME, body: TASK }],
  ])('%s causes the evaluation of %j', async (_what, reevaluate, { action, body, ...more }) => {
    const store = await storeWithBug();
    await saveEntity(store.query, blankEntity(LINK, 'link', { item_key: BUG.key }));
    await saveEntity(store.query, blankEntity('link:loose', 'link'));
    const applied = await apply(store, action, body, more);
    expect([...new Set(applied.reevaluate)]).toEqual(reevaluate);
  });

  it.each<[what: string, named: NamedResources, reads: string[]]>([
    ['a task', { taskIds: ['t2', 't9'] }, ['read:task:t2', 'read:task:t9']],
    ['a new task only if it is unknown', { taskIds: ['t2', 't9'], isNew: true }, ['read:task:t2']],
    ['more than three tasks by one list', { taskIds: ['a', 'b', 'c', 'd'] }, ['read:tasks']],
    ['the links of a task', { linkTaskIds: ['t2', 't9'] }, ['read:links:t2', 'read:links:t9']],
    ['an unknown link', { linkTaskIds: ['t9'], workItemId: 'w2' }, ['read:links:t9']],
    ['only documents that an item names', { documentIds: ['d1', 'd2'] }, ['read:document:d1']],
  ])('that names resources causes a read of %s', async (_what, named, reads) => {
    const store = await cached([{}]);
    const ids = { item_key: 'i', task_id: 't9', remote_id: 'w1' };
    await saveEntity(store.query, blankEntity('link:i>t9', 'link', { ...ids, known: '{"url":"u"}' }));
    await saveEntity(store.query, blankEntity(entity.document('d1'), 'document', ids));
    await apply(store, 'named', named);
    expect(await outbox(store)).toEqual(reads);
  });
});

describe('a reported task', () => {
  it('that is missing causes a read of the list, and stays cached until then', async () => {
    const store = await cached([{}]);
    await apply(store, 'read-task', null, { entity: entity.readTask('t9') });
    expect([await outbox(store), await keys(store)]).toEqual([['read:tasks'], ['BUG-9']]);
  });

  // The cached status is `open`, as of MADE.updatedAt. worksync wrote it by a request that was settled at revision 7.
  it.each<[report: string, status: string, isRead: boolean, answer: Partial<Answer>, task: object]>([
    ['an answer to a later request', 'review', false, { asOf: 7 }, {}],
    ['an answer to an earlier request, of the same time', 'open', true, { asOf: 6 }, {}],
    ['an answer to an earlier request, of a later time', 'review', false, { asOf: 6 }, { updatedAt: LATER }],
    ['an answer to an earlier request, of an earlier time', 'open', false, { asOf: 6 }, { updatedAt: EARLIER }],
    ['an event of a later time', 'review', false, {}, { updatedAt: LATER }],
    ['an event of the same time', 'open', true, {}, {}],
    ['an event of an earlier time', 'open', false, {}, { updatedAt: EARLIER }],
    ['an event without a time', 'open', true, {}, { updatedAt: undefined }],
    ['an event without a time, an hour later', 'review', false, { sentAt: REQUESTED + HOUR }, { updatedAt: undefined }],
  ])('with another status than worksync wrote, by %s: %s is known, and the task is read: %s', async (...row) => {
    const [, status, isRead, answer, task] = row;
    const store = await cached([{}]);
    const update = blankEntity(entity.taskUpdate('t9'), 'task_update', { task_id: 't9' });
    await saveEntity(store.query, { ...update, revision: 7, known_at: REQUESTED - 60_000 });
    await apply(store, 'saw-tasks', { tasks: [{ ...MADE, status: 'review', ...task }] }, answer);
    expect(await cachedTask(store)).toMatchObject({ status });
    expect((await outbox(store)).includes(entity.readTask('t9'))).toBe(isRead);
  });

  const LAST_YEAR = '2025-01-01T00:00:00Z';

  it.each([
    ['the creation set it', 0, { createdAt: MADE.updatedAt }],
    ['a person may have set it', Date.parse(LAST_YEAR), { createdAt: '2020-01-01T00:00:00Z', updatedAt: LAST_YEAR }],
  ])('that is listed for the first time has a status: %s', async (_who, statusBefore, task) => {
    const store = await openTestStore();
    await list(store, [{ ...MADE, ...task }]);
    expect(await cachedTask(store)).toMatchObject({ statusBefore });
  });

  it.each<[what: string, expected: object, isEvaluated: boolean, before: object[], reported: object]>([
    ['is new', {}, true, [], {}],
    ['is unchanged', {}, false, [{}], {}],
    ['has another title', { title: 'Other' }, false, [{}], { title: 'Other' }],
    ['has another status', { status: 'done' }, true, [{}], { status: 'done' }],
    ['has another id', { taskId: 't10' }, true, [{}], { taskId: 't10' }],
    ['is reported late', { status: 'open' }, false, [{}], { status: 'done', updatedAt: '2026-02-01T00:00:00Z' }],
    ['has no time', { status: 'done' }, true, [{}], { status: 'done', updatedAt: undefined }],
  ])(
    'that %s is cached as %j, and its items are evaluated: %s',
    async (_what, expected, isEvaluated, before, reported) => {
      const store = await cached(before);
      await store.commit((query) => takeBatch(query, [saidOf(NAMING)], 1));
      await store.query.deleteFrom('entities').where('kind', '=', 'link').execute();
      const { reevaluate } = await apply(store, 'saw-tasks', { tasks: [{ ...MADE, ...reported }] });
      expect(await cachedTask(store)).toMatchObject({ ...MADE, ...expected, updatedAt: expect.any(String) });
      expect(reevaluate).toEqual(isEvaluated ? [NAMING.key] : []);
    },
  );

  const ID = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';

  it.each<[what: string, item: Item, task?: object]>([
    ['names its key', NAMING],
    ['names its id', { ...NAMING, title: `See https://app.example.com/workspace/tasks/${ID}` }],
    ['is its source', BUG, { source: BUG.key }],
  ])('causes the evaluation of an item that %s', async (_what, item, task = {}) => {
    const store = await openTestStore();
    await store.commit((query) => takeBatch(query, [saidOf(item)], 1));
    const { reevaluate } = await apply(store, 'saw-tasks', { tasks: [{ ...MADE, taskId: ID, ...task }] });
    expect(reevaluate).toEqual([item.key]);
  });

  it('causes the evaluation of an item that is linked to it', async () => {
    const store = await cached([{}]);
    const ids = { item_key: NAMING.key, task_id: 't9' };
    await saveEntity(store.query, blankEntity(entity.link(NAMING.key, 't9'), 'link', ids));
    const { reevaluate } = await apply(store, 'saw-tasks', { tasks: [{ ...MADE, status: 'done' }] });
    expect(reevaluate).toEqual([NAMING.key]);
  });

  it('that another client created for the item cancels the creation', async () => {
    const store = await storeWithBug();
    await apply(store, 'saw-task', TASK);
    expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
    expect(await findChange(store.query, NAME)).toBeUndefined();
  });

  it('that another client created does not settle a creation in flight', async () => {
    const store = await storeWithBug();
    await updateChange(store.query, NAME, { state: 'sending', sent: '{}' });
    await apply(store, 'saw-task', TASK);
    expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: null, known: null });
    expect(await findChange(store.query, NAME)).toMatchObject({ state: 'sending' });
  });

  it('that worksync created is stored with its item, and links to it need no read of its links', async () => {
    const store = await storeWithBug();
    await settleCreation(store);
    await apply(store, 'create-task', TASK, { entity: NAME, asOf: 4 });
    expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', item_key: BUG.key });
    expect(await lastLinksRead(store.query, 't9')).toMatchObject({ revision: 5 });
  });
});

describe('a list of tasks', () => {
  it.each<[what: string, readAt: number, kept: readonly string[], page?: Partial<ListPage>]>([
    ['removes a task that it lacks', LONG_AGO, []],
    ['keeps a task that was read within the last hour', NOW - HOUR + 1, ['BUG-9']],
    ['keeps a task that was read after its request', REQUESTED + 1, ['BUG-9']],
    ['keeps all tasks if it is not known to be complete', LONG_AGO, ['BUG-9'], { isComplete: false }],
    ['keeps all tasks until its last page', LONG_AGO, ['BUG-9'], FIRST_PAGE],
  ])('%s', async (_what, readAt, kept, page) => {
    const store = await cached([{}], readAt);
    await list(store, [], page);
    expect(await keys(store)).toEqual(kept);
  });

  it('keeps a listed task, even if it was requested in the same millisecond', async () => {
    const store = await cached([{}, { taskId: 't1', key: 'BUG-1' }], LONG_AGO);
    await apply(store, 'read-tasks', { tasks: [MADE] }, { sentAt: NOW });
    expect(await keys(store)).toEqual(['BUG-9']);
  });

  it('with an unreadable task removes none', async () => {
    const store = await cached([{}], LONG_AGO);
    await apply(store, 'read-tasks', { tasks: [{ title: 'without an id' }] });
    expect(await keys(store)).toEqual(['BUG-9']);
  });

  it('counts as read, and verifies the tasks, only after its last page', async () => {
    const store = await openTestStore();
    await markTasksUnverified(store.query, REQUESTED);
    await list(store, [MADE], FIRST_PAGE);
    expect(await cachedTask(store)).toMatchObject({ taskId: 't9' });
    expect([await readMeta(store.query, TASKS_READ), await areTasksUnverified(store.query)]).toEqual([undefined, true]);
    await list(store, [MADE]);
    expect([await readMeta(store.query, TASKS_READ), await areTasksUnverified(store.query)]).toEqual([`${NOW}`, false]);
  });

  it('releases the creations that wait for it', async () => {
    const store = await storeWithBug();
    await delayCreations(store.query, [BUG.key], START);
    await apply(store, 'read-tasks', { tasks: [] });
    expect(await findChange(store.query, NAME)).toMatchObject({ not_before: 0 });
  });
});

describe('a lost creation', () => {
  const SENT_AT = START + 2_000;
  const LINE = `Source: ${BUG.url}`;
  const OTHER = { taskId: 't1', key: 'BUG-1', title: 'Another', status: 'open', source: 'api' };
  /** The task of the lost creation as servers may list it. */
  const CREATED = { ...OTHER, taskId: 't9', key: 'BUG-9' };
  const BY_SOURCE = { ...CREATED, source: BUG.key };
  const BY_LINE = { ...CREATED, description: `Edited by a person.\n\n${LINE}` };
  const BY_TITLE = { ...CREATED, title: ' An issue ', createdAt: new Date(SENT_AT).toISOString() };

  interface Before {
    readonly change?: Partial<OutboxRow>;
    readonly marks?: { readonly source: boolean; readonly description: boolean };
  }

  /** A store with a creation by the reporter u1 whose answer was lost. */
  async function lost({ change = {}, marks = { source: false, description: true } }: Before = {}): Promise<Store> {
    const store = await storeWithBug();
    await saveTaskMarks(store.query, marks);
    const body = { title: 'An issue', description: LINE, source: BUG.key, reporterUserId: 'u1' };
    const sent = JSON.stringify({ action: 'create-task', body, sentAt: SENT_AT, attempts: 2 });
    await updateChange(store.query, NAME, { state: 'unknown', sent, attempts: 2, not_before: REQUESTED, ...change });
    return store;
  }

  it.each<[what: string, ...tasks: object[]]>([
    ['by its source', OTHER, BY_SOURCE, { ...BY_LINE, taskId: 't2' }, { ...BY_TITLE, taskId: 't3' }],
    ['by the line of its description', OTHER, BY_LINE, { ...BY_TITLE, taskId: 't3' }],
    ['by its title and time', OTHER, BY_TITLE, { ...BY_TITLE, taskId: 't3', createdAt: '2026-01-01T00:00:00Z' }],
    ['by its title if the server cuts sources', { ...BY_TITLE, source: BUG.key.slice(0, 8) }],
  ])('is settled by a complete list that shows its task %s', async (_what, ...tasks) => {
    const store = await lost();
    await list(store, tasks);
    expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
    expect(await findChange(store.query, NAME)).toBeUndefined();
  });

  const ATTEMPT = { state: 'pending', sent: null, not_before: 0, attempts: 2 };
  const NO_PROOF = { state: 'held', sent: expect.any(String), error: expect.stringContaining('proves nothing') };
  const SEVERAL = { state: 'held', error: expect.stringMatching(/BUG-9 ".*BUG-3 "/) };
  const SECOND = { ...BY_LINE, taskId: 't3', key: 'BUG-3' };

  it.each<[what: string, becomes: object, tasks: readonly object[], before?: Before]>([
    ['is sent again if lists show a mark', ATTEMPT, [OTHER]],
    ['is sent again if lists show the source', ATTEMPT, [OTHER], { marks: { source: true, description: false } }],
    ['is sent again beside a task of another reporter', ATTEMPT, [{ ...BY_TITLE, reporterUserId: 'u2' }]],
    ['is sent again beside a task with another line', ATTEMPT, [{ ...BY_TITLE, description: `${LINE}2` }]],
    ['is held if no list has shown a mark', NO_PROOF, [OTHER], { marks: { source: false, description: false } }],
    ['is held if several tasks match', SEVERAL, [BY_LINE, SECOND]],
    ['waits if this list was too early', { state: 'unknown' }, [OTHER], { change: { not_before: REQUESTED + 1 } }],
  ])('whose task a complete list lacks %s', async (_what, becomes, tasks, before) => {
    const store = await lost(before);
    await list(store, tasks);
    const change = await findChange(store.query, NAME);
    expect(change).toMatchObject(becomes);
    const read = await findChange(store.query, entity.readTasks);
    if (change?.state === 'unknown') expect(read).toMatchObject({ lane: 'triage', not_before: change.not_before });
    else expect(read).toBeUndefined();
  });

  it('is not settled by an incomplete list, and another one is requested', async () => {
    const store = await lost();
    await list(store, [OTHER], { isComplete: false });
    expect(await findChange(store.query, NAME)).toMatchObject({ state: 'unknown' });
    expect(await findChange(store.query, entity.readTasks)).toMatchObject({ not_before: NOW + 600_000 });
  });

  it('has the candidates of all pages of one list', async () => {
    const store = await lost();
    await list(store, [BY_TITLE], FIRST_PAGE);
    // The list begins again: the candidates of its previous first page do not count.
    await list(store, [BY_LINE], FIRST_PAGE);
    await list(store, [SECOND], {}, { sentAt: REQUESTED + 1 });
    expect(await findChange(store.query, NAME)).toMatchObject(SEVERAL);
  });

  it.each<[what: string, marks: object, task: object]>([
    ['the source', { source: true, description: false }, BY_SOURCE],
    ['the line of the description', { source: false, description: true }, BY_LINE],
    ['neither', { source: false, description: false }, BY_TITLE],
  ])('can be recognized by the marks that a list shows: %s', async (_what, marks, task) => {
    const store = await openTestStore();
    const created = { item_key: BUG.key, remote_id: 't9', desired: JSON.stringify({ description: LINE }) };
    await saveEntity(store.query, blankEntity(NAME, 'task', created));
    await list(store, [OTHER, task]);
    expect(await taskMarks(store.query)).toEqual(marks);
  });
});
