import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../../src/model/change.ts';
import type { ListPage } from '../../../../../src/model/delivery.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { findChange, type OutboxRow, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { saveTaskMarks, taskMarks } from '../../../../../src/store/task-creations.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { START, saidOf, takeBatch } from '../../../../support/rows/batches.ts';
import { workItem } from '../../../../support/rows/items.ts';

const SENT_AT = START + 2_000;
/** The times of the requests and of the processing. */
const REQUESTED = START + 200_000;
const NOW = START + 210_000;

const BUG = workItem({ type: 'Bug', url: 'https://acme.example.com/browse/ENG-1', updatedAt: START });
const NAME = entity.task(BUG.key);
const LINE = `Source: ${BUG.url}`;
const SEEN = { source: false, description: true };

const OTHER = { taskId: 't1', key: 'BUG-1', title: 'Another', status: 'open', source: 'api' };
/** The task of the lost creation as servers may list it. */
const CREATED = { ...OTHER, taskId: 't9', key: 'BUG-9' };
const BY_SOURCE = { ...CREATED, source: BUG.key };
const BY_LINE = { ...CREATED, description: `Edited by a person.\n\n${LINE}` };
const BY_TITLE = { ...CREATED, title: ' An issue ', createdAt: new Date(SENT_AT).toISOString() };

interface Before {
  readonly change?: Partial<OutboxRow>;
  readonly reporterUserId?: string;
  readonly marks?: { readonly source: boolean; readonly description: boolean };
}

/** A store with a creation whose answer was lost. */
async function lost({ change = {}, reporterUserId, marks = SEEN }: Before = {}): Promise<Store> {
  const store = await openTestStore();
  const { query, commit } = store;
  await commit((transaction) => takeBatch(transaction, [saidOf(BUG)], 1));
  await query.deleteFrom('outbox').where('kind', '=', 'read').execute();
  await saveTaskMarks(query, marks);
  const body = { title: 'An issue', description: LINE, source: BUG.key, reporterUserId };
  const sent = JSON.stringify({ action: 'create-task', body, sentAt: SENT_AT, attempts: 2 });
  await updateChange(query, NAME, { state: 'unknown', sent, attempts: 2, not_before: REQUESTED, ...change });
  return store;
}

async function list(
  { commit }: Store,
  tasks: readonly object[],
  page: Partial<ListPage> = {},
  sentAt = REQUESTED,
): Promise<void> {
  const whole = { began: REQUESTED, isEnd: true, isComplete: true, ...page };
  const answer: Answer = { action: 'read-tasks', entity: '', sentAt, asOf: 0, body: { tasks }, page: whole };
  await commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
}

test.each<[what: string, tasks: readonly object[]]>([
  ['by its source', [OTHER, BY_SOURCE, { ...BY_LINE, taskId: 't2' }, { ...BY_TITLE, taskId: 't3' }]],
  ['by the line of its description', [OTHER, BY_LINE, { ...BY_TITLE, taskId: 't3' }]],
  ['by its title and time', [OTHER, BY_TITLE, { ...BY_TITLE, taskId: 't3', createdAt: '2026-01-01T00:00:00Z' }]],
  ['by its title if the server tells no times', [OTHER, { ...BY_TITLE, createdAt: null }]],
])('a complete list shows the task of a lost creation %s', async (_what, tasks) => {
  const store = await lost();
  await list(store, tasks);
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
  expect(await findChange(store.query, NAME)).toBeUndefined();
});

test.each<[what: string, isFound: boolean, reporterUserId?: string]>([
  ['same reporter', true, 'u1'],
  ['no reporter', true, undefined],
  ['another reporter', false, 'u2'],
])(
  'a task with the same title and %s may be the task of a lost creation: %s',
  async (_what, isFound, reporterUserId) => {
    const store = await lost({ reporterUserId: 'u1' });
    await list(store, [{ ...BY_TITLE, reporterUserId }]);
    expect((await findEntity(store.query, NAME))?.remote_id).toBe(isFound ? 't9' : null);
  },
);

test.each<[what: string, task: object]>([
  ['source', { ...BY_TITLE, source: 'jira:cloud-1:10002' }],
  ['description', { ...BY_TITLE, description: 'Source: https://acme.example.com/browse/ENG-2' }],
  ['longer description', { ...BY_TITLE, description: `${LINE}2` }],
])(
  'a task with the same title is not the task of a lost creation if its %s names another item',
  async (_what, task) => {
    const store = await lost();
    await list(store, [task]);
    expect(await findChange(store.query, NAME)).toMatchObject({ state: 'pending', sent: null });
  },
);

test('a task whose source the server cut may be the task of a lost creation', async () => {
  const store = await lost();
  await list(store, [{ ...BY_TITLE, source: BUG.key.slice(0, 8) }]);
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9' });
});

const ATTEMPT = { state: 'pending', sent: null, not_before: 0, attempts: 2 };
const LATER = NOW + MAX_TIME_IN_FLIGHT + SETTLE_AFTER;

test.each<[what: string, becomes: object, tasks: readonly object[], before?: Before]>([
  ['is sent again if lists show a mark', ATTEMPT, [OTHER]],
  ['is sent again if lists show the source', ATTEMPT, [OTHER], { marks: { source: true, description: false } }],
  [
    'is held if no list has shown a mark',
    { state: 'held', sent: expect.any(String), error: expect.stringContaining('proves nothing') },
    [OTHER],
    { marks: { source: false, description: false } },
  ],
  [
    'is held if several tasks match',
    { state: 'held', error: expect.stringMatching(/BUG-9 ".*BUG-3 "/) },
    [BY_LINE, { ...BY_LINE, taskId: 't3', key: 'BUG-3' }],
  ],
  [
    'waits for another list if this one was requested too early',
    { state: 'unknown' },
    [OTHER],
    { change: { not_before: REQUESTED + 1 } },
  ],
  [
    'waits for a bounded time if the clock was set back',
    { state: 'unknown', not_before: LATER },
    [OTHER],
    { change: { not_before: LATER + 1 } },
  ],
  ['stays held', { state: 'held' }, [OTHER], { change: { state: 'held', error: 'why' } }],
])('a lost creation whose task a complete list lacks %s', async (_what, becomes, tasks, before) => {
  const store = await lost(before);
  await list(store, tasks);
  const change = await findChange(store.query, NAME);
  expect(change).toMatchObject(becomes);
  const read = await findChange(store.query, entity.readTasks);
  if (change?.state === 'unknown') expect(read).toMatchObject({ lane: 'triage', not_before: change.not_before });
  else expect(read).toBeUndefined();
});

test('a later list settles a held creation', async () => {
  const store = await lost({ change: { state: 'held', error: 'why' } });
  await list(store, [BY_LINE]);
  expect(await findChange(store.query, NAME)).toBeUndefined();
});

test('an incomplete list settles nothing, and another one is requested', async () => {
  const store = await lost();
  await list(store, [OTHER], { isComplete: false });
  expect(await findChange(store.query, NAME)).toMatchObject({ state: 'unknown' });
  expect(await findChange(store.query, entity.readTasks)).toMatchObject({ not_before: NOW + 600_000 });
});

const FIRST = { isEnd: false, isComplete: false };

test('the candidates of all pages of one list count', async () => {
  const store = await lost();
  await list(store, [BY_TITLE], FIRST);
  // The list begins again: the candidates of its previous first page do not count.
  await list(store, [BY_LINE], FIRST);
  await list(store, [{ ...BY_LINE, taskId: 't3', key: 'BUG-3' }], {}, REQUESTED + 1);
  expect(await findChange(store.query, NAME)).toMatchObject({
    state: 'held',
    error: expect.stringMatching(/BUG-9 ".*BUG-3 "/),
  });
});

test('a task on two pages of one list is one candidate', async () => {
  const store = await lost();
  await list(store, [BY_LINE], FIRST);
  await list(store, [OTHER, BY_LINE], {}, REQUESTED + 1);
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9' });
});

test.each<[what: string, marks: object, task: object]>([
  ['the source', { source: true, description: false }, BY_SOURCE],
  ['the line of the description', { source: false, description: true }, BY_LINE],
  ['neither', { source: false, description: false }, BY_TITLE],
])('a list shows the marks of created tasks: %s', async (_what, marks, task) => {
  const store = await openTestStore();
  const created = { item_key: BUG.key, remote_id: 't9', desired: JSON.stringify({ description: LINE }) };
  await saveEntity(store.query, blankEntity(NAME, 'task', created));
  await list(store, [OTHER, task]);
  expect(await taskMarks(store.query)).toEqual(marks);
});
