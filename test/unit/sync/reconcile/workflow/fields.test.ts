import { expect, it } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { WorkItem } from '../../../../../src/model/item.ts';
import type { TaskUpdate } from '../../../../../src/model/task.ts';
import { saveTask } from '../../../../../src/store/cached-tasks.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../../src/store/entities.ts';
import { addDifference, findChange, type OutboxRow, updateChange } from '../../../../../src/store/outbox-rows.ts';
import { createRules } from '../../../../../src/sync/reconcile/context.ts';
import { evaluateTaskUpdate } from '../../../../../src/sync/reconcile/workflow/evaluate-task.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { SOURCES, START, saidOf, TRACKER, takeBatch } from '../../../../support/rows/batches.ts';
import { workItem } from '../../../../support/rows/items.ts';

// The fields of a task that follow the work item for which it was created: title and labels.

const ISSUE = workItem({
  url: 'https://acme.example.com/browse/ENG-1',
  title: 'New',
  labels: ['a'],
  state: 'in_progress',
});
const SENT = JSON.stringify({ title: 'Old', labels: ['a'] });
const CREATED = { item_key: ISSUE.key, remote_id: 't1', desired: SENT, known: SENT };
const TASK = { taskId: 't1', key: 'BUG-1', title: 'Old', status: 'open', source: ISSUE.key, updatedAt: '' };
const UPDATE = entity.taskUpdate('t1');

const rulesWith = (statuses: boolean) =>
  createRules({
    ...{ trailers: ['Task'], links: [], addresses: [], users: {}, grammars: [], documents: false },
    triage: [{ when: {}, create: 'bug', title: '{title}', labels: [], since: 0, sync: ['title', 'labels'] }],
    ...(statuses && {
      workflow: {
        ...{ several: 'all', bots: 'names', since: 0 },
        rules: [{ when: { workItem: ['started'] }, set: { status: 'in_progress', addLabels: ['wip'] } }],
      } as never,
    }),
  });

interface Before {
  readonly item?: Partial<WorkItem>;
  readonly creation?: Partial<EntityRow>;
  /** The facts that worksync remembers about the task, and the update that it wanted last. */
  readonly known?: object;
  readonly wanted?: TaskUpdate;
  readonly change?: Partial<OutboxRow>;
  /** Rules set the status of the task too. */
  readonly statuses?: boolean;
  /** Columns of the stored item. */
  readonly stored?: { readonly gone: 1 } | { readonly unverified: 1 };
  readonly sources?: typeof SOURCES;
}

/** Returns the update of the task, after its item is evaluated. */
async function updateOf(before: Before): Promise<TaskUpdate | undefined> {
  const { item, creation, known, wanted, change, statuses = false, stored, sources = SOURCES } = before;
  const { query, commit } = await openTestStore();
  await saveTask(query, TASK, START);
  await saveEntity(query, blankEntity(entity.task(ISSUE.key), 'task', CREATED));
  await commit((own) => takeBatch(own, [saidOf({ ...ISSUE, ...item })], 1));
  if (stored) await query.updateTable('items').set(stored).execute();
  if (creation) await saveEntity(query, blankEntity(entity.task(ISSUE.key), 'task', { ...CREATED, ...creation }));
  const texts = { known: known ? JSON.stringify(known) : null, desired: wanted ? JSON.stringify(wanted) : null };
  await saveEntity(query, blankEntity(UPDATE, 'task_update', { task_id: 't1', ...texts }));
  if (change) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: UPDATE, kind: 'task_update', lane: 'status', ...times });
    await updateChange(query, UPDATE, change);
  }
  const context = { now: START + 5_000, usedShare: 0, rules: rulesWith(statuses), sources };
  await commit((own) => evaluateTaskUpdate(context, own, 't1'));
  const isWanted = (await findChange(query, UPDATE)) !== undefined;
  return isWanted ? json<TaskUpdate>((await findEntity(query, UPDATE))?.desired ?? null) : undefined;
}

const FAILED = { state: 'held', error: 'refused: no' } as const;
const MOVE: TaskUpdate = { from: 'open', status: 'in_progress', addLabels: ['wip'] };
const itemLabels = { all: ['a'], add: ['a'], remove: [], added: [] };
const TITLE = { fields: { title: 'New' } };
const OF_PERSON = { fields: { title: { isTheirs: true } } };

it.each<[claim: string, expected: object | undefined, before: Before]>([
  ['follow the item', { ...TITLE, from: 'open' }, {}],
  ['stay if the item is the same', undefined, { item: { title: 'Old' } }],
  ['stay if a person has edited them', undefined, { known: OF_PERSON }],
  ['stay if the item is gone', undefined, { stored: { gone: 1 } }],
  ['stay if the item is not confirmed since a restore', undefined, { stored: { unverified: 1 } }],
  ['stay if the item was moved', undefined, { item: { movedTo: 'jira:cloud-1:10002' } }],
  ['stay if its connection was removed', undefined, { sources: new Map([['other', TRACKER]]) }],
  ['stay if the creation is not known', undefined, { creation: { known: null } }],
  ['stay if another task was created for the item', undefined, { creation: { remote_id: 't2' } }],
  ['stay while an update is in flight', MOVE, { wanted: MOVE, change: { state: 'sending' } }],
  ['are written with the status', { ...MOVE, ...TITLE }, { statuses: true }],
  ['wait if the same status failed alone', MOVE, { statuses: true, wanted: MOVE, change: FAILED }],
  [
    'do not wait for a status that the guard holds',
    TITLE,
    { statuses: true, wanted: MOVE, change: { ...FAILED, guard: 'held' } },
  ],
  ['do not wait if they failed together', TITLE, { statuses: true, wanted: { ...MOVE, ...TITLE }, change: FAILED }],
  ['do not wait if labels failed with it', TITLE, { statuses: true, wanted: { ...MOVE, itemLabels }, change: FAILED }],
  ['do not wait for another status', TITLE, { statuses: true, wanted: { ...MOVE, status: 'review' }, change: FAILED }],
  ['do not wait for a status that waits', TITLE, { statuses: true, wanted: MOVE, change: { state: 'pending' } }],
  [
    'add a label of the item',
    { itemLabels: { add: ['b'], remove: [] } },
    { item: { title: 'Old', labels: ['a', 'b'] } },
  ],
  ['remove a label of the item', { itemLabels: { add: [], remove: ['a'] } }, { item: { title: 'Old', labels: [] } }],
  ['add no label that a rule adds', MOVE, { statuses: true, item: { title: 'Old', labels: ['a', 'wip'] } }],
  ['remove no label that a rule added', undefined, { known: { labels: ['+a'] }, item: { title: 'Old', labels: [] } }],
])('synced fields %s', async (_claim, expected, before) => {
  const update = await updateOf(before);
  if (expected) expect(update).toMatchObject(expected);
  else expect(update).toBeUndefined();
  if (expected === MOVE) expect(update).not.toMatchObject(TITLE);
  if (expected === MOVE) expect(update).not.toHaveProperty('itemLabels');
});
