import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT, type Written } from '../../../../src/model/change.ts';
import type { Item } from '../../../../src/model/item.ts';
import { externalIdOf } from '../../../../src/model/link.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { look } from '../../../support/evaluations.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';

const URL = 'https://github.com/acme/api/pull/1';
const PLAIN = pull({ url: URL });
const NAMING = pull({ url: URL, title: 'BUG-1: a change' });
const LINK = entity.link(PLAIN.key, 't1');
const READ = entity.readLinks('t1');
const RECORD = entity.pullRequest('github', '5001', '1');
const TASK = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };
const NOW = 5_000;

interface Before {
  readonly row?: Partial<EntityRow>;
  readonly change?: { readonly state: 'pending' | 'sending' | 'unknown' | 'held'; readonly sent: string | null };
  /** Tasks that the record of the pull request is known to name. */
  readonly recorded?: readonly string[];
}

async function linked({ row, change, recorded }: Before): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  await saveTask(query, TASK, 1);
  const ids = { item_key: PLAIN.key, task_id: 't1' };
  if (row) await saveEntity(query, { ...blankEntity(LINK, 'link', ids), ...row });
  if (change) {
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', effect: 'creation', ...times });
    await updateChange(query, LINK, change);
  }
  const known = JSON.stringify({ title: 'A change', taskIds: recorded });
  if (recorded) await saveEntity(query, { ...blankEntity(RECORD, 'pull_request'), known });
  return store;
}

const WANTED = { desired: JSON.stringify({ url: URL }) };
const OURS = JSON.stringify({ url: URL, externalId: externalIdOf(PLAIN.key) });
const STANDS = { ...WANTED, known: OURS, remote_id: 'w1' };
const ONCE = JSON.stringify({ action: 'add-link', sentAt: NOW - 1, answeredAt: NOW, id: 'a1' } satisfies Written);
const TWICE = JSON.stringify({ ...JSON.parse(ONCE), isRepeat: true } satisfies Written);
const WAITS = { state: 'pending', sent: null } as const;
const FLIES = { state: 'sending', sent: '{}' } as const;
const LOST = { state: 'unknown', sent: '{}' } as const;
const HELD = { state: 'held', sent: null } as const;

test.each<[what: string, change: object | undefined, before: Before, item?: Partial<Item>]>([
  ['that nobody knew is added', { state: 'pending', effect: 'creation', lane: 'link' }, {}],
  ['that stands there stays', undefined, { row: STANDS }],
  ['that a person took away stays away', undefined, { row: { ...WANTED, hand: 'removed' } }],
  ['that a person took away is not added any more', undefined, { row: { ...WANTED, hand: 'removed' }, change: WAITS }],
  ['that a person made stays', undefined, { row: { ...STANDS, hand: 'manual' } }],
  ['that the record names stands there', undefined, { recorded: ['t1'] }],
  ['of what has no address cannot be added', undefined, {}, { url: undefined }],
])('a link that is wanted and %s', async (_what, change, before, fields = {}) => {
  const store = await linked(before);
  await look(store, { ...NAMING, ...fields } as Item);
  const found = await findChange(store.query, LINK);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
  const row = await findEntity(store.query, LINK);
  if ('url' in fields) expect(row).toBeUndefined();
  else expect(json(row?.desired ?? null)).toMatchObject({ url: URL, reason: { rule: 'task-key', text: 'BUG-1' } });
});

test('a link that only the record names was made by nobody that we know', async () => {
  const store = await linked({ recorded: ['t1', 't2'] });
  await look(store, NAMING);
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: JSON.stringify({ url: URL }), known_at: NOW });
  expect(await findEntity(store.query, entity.link(PLAIN.key, 't2'))).toBeUndefined();
});

type After = 'forgotten' | 'kept';

test.each<[what: string, after: After, change: object | undefined, read: boolean, before: Before]>([
  ['that was never added is forgotten', 'forgotten', undefined, false, { row: WANTED }],
  ['that was to be added is forgotten', 'forgotten', undefined, false, { row: WANTED, change: WAITS }],
  ['whose addition is held is forgotten', 'forgotten', undefined, false, { row: WANTED, change: HELD }],
  [
    'that is being added is taken away after',
    'kept',
    { ...FLIES, effect: 'removal' },
    false,
    { row: WANTED, change: FLIES },
  ],
  ['that may have been added is so too', 'kept', { ...LOST, effect: 'removal' }, false, { row: WANTED, change: LOST }],
  ['of ours is taken away', 'kept', { state: 'pending', effect: 'removal', lane: 'link' }, false, { row: STANDS }],
  ['of ours, asked for once, goes at once', 'kept', { not_before: 0 }, false, { row: { ...STANDS, written: ONCE } }],
  [
    'of ours, asked for twice, goes once both requests have arrived',
    'kept',
    { state: 'pending', effect: 'removal', not_before: NOW + MAX_TIME_IN_FLIGHT },
    false,
    { row: { ...STANDS, written: TWICE } },
  ],
  ['that a person made stays', 'kept', undefined, false, { row: { ...STANDS, hand: 'manual' } }],
  [
    'that a person made is not changed any more',
    'kept',
    undefined,
    false,
    { row: { ...STANDS, hand: 'manual' }, change: WAITS },
  ],
  [
    'of which nobody knows who made it is read',
    'kept',
    undefined,
    true,
    { row: { ...STANDS, known: JSON.stringify({ url: URL }) } },
  ],
  ['of which nobody knows the id is read', 'kept', undefined, true, { row: { ...STANDS, remote_id: null } }],
])('a link that is wanted no more and %s', async (_what, after, change, read, before) => {
  const store = await linked(before);
  await look(store, PLAIN);
  const row = await findEntity(store.query, LINK);
  if (after === 'forgotten') expect(row).toBeUndefined();
  else expect(row).toMatchObject({ desired: null, known: before.row?.known ?? null });
  const found = await findChange(store.query, LINK);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
  const reading = await findChange(store.query, READ);
  if (read) expect(reading).toMatchObject({ kind: 'read', lane: 'link', effect: 'removal' });
  else expect(reading).toBeUndefined();
});

test('a change that waits is put off where what it would send becomes another, and only then', async () => {
  const due = async (row: Partial<EntityRow>, item: Item) => {
    const store = await linked({ row, change: WAITS });
    await look(store, item);
    return (await findChange(store.query, LINK))?.due;
  };
  const store = await linked({});
  await look(store, NAMING);
  const wanted = (await findEntity(store.query, LINK))?.desired ?? null;
  expect(await due({ desired: wanted }, NAMING)).toBe(1);
  expect(await due({ desired: null }, NAMING)).toBeGreaterThan(1);
  expect(await due({ ...STANDS, desired: null }, PLAIN)).toBe(1);
  expect(await due(STANDS, PLAIN)).toBeGreaterThan(1);
});

test.each<[what: string, tasks: readonly string[], recorded: readonly string[]]>([
  ['that it named', ['t2'], ['t1', 't2']],
  ['that it did not name', ['t2'], ['t2']],
])('a record names a task %s no more once the link to it is forgotten', async (_what, tasks, recorded) => {
  const store = await linked({ row: WANTED, recorded });
  await look(store, PLAIN);
  expect(json((await findEntity(store.query, RECORD))?.known ?? null)).toEqual({ title: 'A change', taskIds: tasks });
});

const BUG = workItem({ url: 'https://acme.example.com/browse/ENG-1' });
const MADE = entity.link(BUG.key, 't1');

test.each<[what: string, isWanted: boolean, row: Partial<EntityRow> | undefined, task?: object]>([
  ['that we made', true, { known: '{}', remote_id: 't1' }],
  ['whose source is its key', true, undefined, { source: BUG.key }],
  ['that is to be made', false, { desired: '{}' }],
])('a work item gets a link to the task %s for it', async (_what, isWanted, row, task = {}) => {
  const { query, ...store } = await openTestStore();
  await saveTask(query, { ...TASK, ...task }, 1);
  if (row) await saveEntity(query, { ...blankEntity(entity.task(BUG.key), 'task', { item_key: BUG.key }), ...row });
  await look({ query, ...store }, BUG);
  const desired = json((await findEntity(query, MADE))?.desired ?? null);
  if (isWanted) expect(desired).toMatchObject({ reason: { rule: 'triage', place: 'source', text: BUG.key } });
  else expect(desired).toBeUndefined();
});
