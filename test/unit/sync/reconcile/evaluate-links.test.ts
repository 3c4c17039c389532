import { describe, expect, it, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT, type Written } from '../../../../src/model/change.ts';
import type { Item } from '../../../../src/model/item.ts';
import { externalIdOf } from '../../../../src/model/link.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, findEntity, json, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { desiredLink } from '../../../../src/sync/reconcile/evaluate-links.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { bare, pull, workItem } from '../../../support/rows/items.ts';

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

const DESIRED = { desired: JSON.stringify({ url: URL }) };
const OURS = JSON.stringify({ url: URL, externalId: externalIdOf(PLAIN.key) });
const EXISTING = { ...DESIRED, known: OURS, remote_id: 'w1' };
const ONCE = JSON.stringify({ action: 'add-link', sentAt: NOW - 1, answeredAt: NOW, id: 'a1' } satisfies Written);
const TWICE = JSON.stringify({ ...JSON.parse(ONCE), isRepeat: true } satisfies Written);
const WAITING = { state: 'pending', sent: null } as const;
const IN_FLIGHT = { state: 'sending', sent: '{}' } as const;
const LOST = { state: 'unknown', sent: '{}' } as const;
const HELD = { state: 'held', sent: null } as const;

test.each<[what: string, change: object | undefined, before: Before, item?: Partial<Item>]>([
  ['that is not known is added', { state: 'pending', effect: 'creation', lane: 'link' }, {}],
  ['that exists stays', undefined, { row: EXISTING }],
  ['that a person removed is not added', undefined, { row: { ...DESIRED, hand: 'removed' } }],
  [
    'that a person removed cancels a waiting addition',
    undefined,
    { row: { ...DESIRED, hand: 'removed' }, change: WAITING },
  ],
  ['that a person made stays', undefined, { row: { ...EXISTING, hand: 'manual' } }],
  ['that the record names exists', undefined, { recorded: ['t1'] }],
  ['of an item without an address is not added', undefined, {}, { url: undefined }],
])('a desired link %s', async (_what, change, before, fields = {}) => {
  const store = await linked(before);
  await look(store, { ...NAMING, ...fields } as Item);
  const found = await findChange(store.query, LINK);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
  const row = await findEntity(store.query, LINK);
  if ('url' in fields) expect(row).toBeUndefined();
  else expect(json(row?.desired ?? null)).toMatchObject({ url: URL, reason: { rule: 'task-key', text: 'BUG-1' } });
});

test('a link that only the record names has an unknown owner', async () => {
  const store = await linked({ recorded: ['t1', 't2'] });
  await look(store, NAMING);
  expect(await findEntity(store.query, LINK)).toMatchObject({ known: JSON.stringify({ url: URL }), known_at: NOW });
  expect(await findEntity(store.query, entity.link(PLAIN.key, 't2'))).toBeUndefined();
});

type After = 'removed' | 'kept';

test.each<[what: string, after: After, change: object | undefined, read: boolean, before: Before]>([
  ['that was never added is removed from the store', 'removed', undefined, false, { row: DESIRED }],
  ['whose addition waits is removed from the store', 'removed', undefined, false, { row: DESIRED, change: WAITING }],
  ['whose addition is held is removed from the store', 'removed', undefined, false, { row: DESIRED, change: HELD }],
  [
    'whose addition is in flight is removed afterwards',
    'kept',
    { ...IN_FLIGHT, effect: 'removal' },
    false,
    { row: DESIRED, change: IN_FLIGHT },
  ],
  [
    'whose addition has an unknown outcome too',
    'kept',
    { ...LOST, effect: 'removal' },
    false,
    { row: DESIRED, change: LOST },
  ],
  ['of ours is removed', 'kept', { state: 'pending', effect: 'removal', lane: 'link' }, false, { row: EXISTING }],
  [
    'of ours with one request is removed at once',
    'kept',
    { not_before: 0 },
    false,
    { row: { ...EXISTING, written: ONCE } },
  ],
  [
    'of ours with a repeated request is removed after both must have arrived',
    'kept',
    { state: 'pending', effect: 'removal', not_before: NOW + MAX_TIME_IN_FLIGHT },
    false,
    { row: { ...EXISTING, written: TWICE } },
  ],
  ['that a person made stays', 'kept', undefined, false, { row: { ...EXISTING, hand: 'manual' } }],
  [
    'that a person made cancels a waiting change',
    'kept',
    undefined,
    false,
    { row: { ...EXISTING, hand: 'manual' }, change: WAITING },
  ],
  [
    'with an unknown owner is read',
    'kept',
    undefined,
    true,
    { row: { ...EXISTING, known: JSON.stringify({ url: URL }) } },
  ],
  ['with an unknown id is read', 'kept', undefined, true, { row: { ...EXISTING, remote_id: null } }],
])('a link that is no longer desired %s', async (_what, after, change, read, before) => {
  const store = await linked(before);
  await look(store, PLAIN);
  const row = await findEntity(store.query, LINK);
  if (after === 'removed') expect(row).toBeUndefined();
  else expect(row).toMatchObject({ desired: null, known: before.row?.known ?? null });
  const found = await findChange(store.query, LINK);
  if (change) expect(found).toMatchObject(change);
  else expect(found).toBeUndefined();
  const reading = await findChange(store.query, READ);
  if (read) expect(reading).toMatchObject({ kind: 'read', lane: 'link', effect: 'removal' });
  else expect(reading).toBeUndefined();
});

test('a waiting change is postponed only if its request changes', async () => {
  const due = async (row: Partial<EntityRow>, item: Item) => {
    const store = await linked({ row, change: WAITING });
    await look(store, item);
    return (await findChange(store.query, LINK))?.due;
  };
  const store = await linked({});
  await look(store, NAMING);
  const wanted = (await findEntity(store.query, LINK))?.desired ?? null;
  expect(await due({ desired: wanted }, NAMING)).toBe(1);
  expect(await due({ desired: null }, NAMING)).toBeGreaterThan(1);
  expect(await due({ ...EXISTING, desired: null }, PLAIN)).toBe(1);
  expect(await due(EXISTING, PLAIN)).toBeGreaterThan(1);
});

test.each<[what: string, tasks: readonly string[], recorded: readonly string[]]>([
  ['that it listed', ['t2'], ['t1', 't2']],
  ['that it did not list', ['t2'], ['t2']],
])('a record does not list a task %s after its link was removed from the store', async (_what, tasks, recorded) => {
  const store = await linked({ row: DESIRED, recorded });
  await look(store, PLAIN);
  expect(json((await findEntity(store.query, RECORD))?.known ?? null)).toEqual({ title: 'A change', taskIds: tasks });
});

const BUG = workItem({ url: 'https://acme.example.com/browse/ENG-1' });
const OWN_LINK = entity.link(BUG.key, 't1');

test.each<[what: string, isLinked: boolean, row: Partial<EntityRow> | undefined, task?: object]>([
  ['that worksync created', true, { known: '{}', remote_id: 't1' }],
  ['whose source is the item', true, undefined, { source: BUG.key }],
  ['that is not created yet', false, { desired: '{}' }],
])('a work item is linked to the task %s', async (_what, isLinked, row, task = {}) => {
  const { query, ...store } = await openTestStore();
  await saveTask(query, { ...TASK, ...task }, 1);
  if (row) await saveEntity(query, { ...blankEntity(entity.task(BUG.key), 'task', { item_key: BUG.key }), ...row });
  await look({ query, ...store }, BUG);
  const desired = json((await findEntity(query, OWN_LINK))?.desired ?? null);
  if (isLinked) expect(desired).toMatchObject({ reason: { rule: 'triage', place: 'source', text: BUG.key } });
  else expect(desired).toBeUndefined();
});

describe('the desired link of an item', () => {
  it('contains the item and its provider', () => {
    expect(desiredLink(PLAIN)).toEqual({
      url: URL,
      title: PLAIN.title,
      externalId: `worksync:${PLAIN.key}`,
      provider: 'github',
    });
  });

  it('is absent without a URL', () => {
    expect(desiredLink(pull())).toBeUndefined();
    expect(desiredLink(pull({ url: '' }))).toBeUndefined();
  });

  it('has no title without one, and cuts a long one', () => {
    expect(desiredLink(bare(1, { url: URL }))).not.toHaveProperty('title');
    expect(desiredLink(pull({ url: URL, title: 'x'.repeat(300) }))?.title).toBe(`${'x'.repeat(254)}…`);
  });
});
