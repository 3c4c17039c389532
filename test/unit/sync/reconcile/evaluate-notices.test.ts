import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { Item, PullRequest, WorkItem } from '../../../../src/model/item.ts';
import { externalIdOf } from '../../../../src/model/link.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, updateChange } from '../../../../src/store/outbox-rows.ts';
import { createRules, type ReconcileConnection } from '../../../../src/sync/reconcile/context.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { look } from '../../../support/rows/evaluations.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const PULL = pull({ url: 'https://github.com/acme/api/pull/1', headSha: 'a'.repeat(40) });
const ISSUE = workItem({ url: 'https://acme.example.com/browse/ENG-1', type: 'Story' });
const NOW = 5_000;

interface Before {
  /** The statuses of the tasks BUG-1 and BUG-2. */
  readonly statuses?: readonly [string, string];
  readonly key?: string;
  readonly link?: Partial<EntityRow>;
  /** The entity of a change in flight. */
  readonly change?: string;
}

/** A store with an item and its two links. */
async function linked(
  item: Item,
  { statuses = ['open', 'open'], key = 'BUG-2', link, change }: Before,
): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  for (const [at, status] of statuses.entries()) {
    const taskId = `t${at + 1}`;
    const task = { taskId, key: at === 0 ? 'BUG-1' : key, title: 'A task', status, source: 'api', updatedAt: '' };
    await saveTask(query, task, 1);
    const ids = { item_key: item.key, task_id: taskId, remote_id: taskId };
    const known = JSON.stringify({ url: item.url, externalId: externalIdOf(item.key) });
    const row = { ...blankEntity(entity.link(item.key, taskId), 'link', ids), known, hand: 'manual' as const };
    await saveEntity(query, at === 0 ? row : { ...row, ...link });
  }
  const times = { since: 1, due: 1, weight: 1, waiting: [] };
  if (!change) return store;
  await addDifference(query, { entity: change, kind: 'task', lane: 'triage', ...times });
  await updateChange(query, change, { state: 'sending', sent: '{}' });
  return store;
}

const notices = async ({ query }: Store) =>
  (await query.selectFrom('notices').select(['kind', 'wanted', 'state', 'not_before']).orderBy('kind').execute()).map(
    ({ kind, wanted, state, not_before }) => `${kind} ${state} ${not_before} ${wanted}`,
  );

const source = (writeBack: ReconcileConnection['writeBack']) => ({
  source: writeBack ? { writeBack } : { writeBack: undefined },
});
const ONLY = { comment: false, close: false, status: false };
const COMMENT = source({ ...ONLY, comment: true });

test.each<[what: string, expected: string[], before: Before]>([
  ['both', ['comment waiting 0 Linked to BUG-1 and BUG-2.'], {}],
  [
    'only the one with a known link',
    ['comment waiting 0 Linked to BUG-1.'],
    { link: { known: null, hand: 'removed' } },
  ],
  ['none, while a link is in flight', [], { change: entity.link(ISSUE.key, 't2') }],
  ['none, while the creation of its task is in flight', [], { change: entity.task(ISSUE.key) }],
  ['no key that is not a key of the workspace', ['comment waiting 0 Linked to BUG-1.'], { key: '@all' }],
  ['no key that is too long', ['comment waiting 0 Linked to BUG-1.'], { key: `B-${'1'.repeat(39)}` }],
  ['the id of a task without a key,', ['comment waiting 0 Linked to BUG-1 and t2.'], { key: 't2' }],
  [
    'a key of forty characters',
    [`comment waiting 0 Linked to B-${'1'.repeat(38)} and BUG-1.`],
    { key: `B-${'1'.repeat(38)}` },
  ],
])('a comment names %s of two tasks', async (_what, expected, before) => {
  const store = await linked(ISSUE, before);
  await look(store, ISSUE, COMMENT);
  expect(await notices(store)).toEqual(expected);
});

test.each<[what: string, state: WorkItem['state'], statuses: readonly [string, string], expected: string[]]>([
  ['completed', 'open', ['completed', 'merged'], ['close waiting 0 closed']],
  ['finished, one of them with success,', 'open', ['completed', 'cancelled'], ['close waiting 0 closed']],
  ['cancelled', 'open', ['cancelled', 'cancelled'], []],
  ['partly open', 'open', ['completed', 'open'], []],
  ['completed, and that is closed already,', 'done', ['completed', 'merged'], ['close done 0 closed']],
])('the closing of a work item whose tasks are %s', async (_what, state, statuses, expected) => {
  const item = { ...ISSUE, state };
  const store = await linked(item, { statuses });
  await look(store, item, source({ ...ONLY, close: true }));
  expect(await notices(store)).toEqual(expected);
});

test('a work item is closed by the words of the workspace for finished tasks', async () => {
  const store = await linked(ISSUE, { statuses: ['Closed', 'Closed'] });
  const rules = createRules({
    ...{ trailers: [], links: [], addresses: [], grammars: [], triage: [], users: {}, documents: false },
    statuses: { completed: 'Closed' },
  });
  await look(store, ISSUE, { ...source({ ...ONLY, close: true }), rules });
  expect(await notices(store)).toEqual(['close waiting 0 closed']);
});

test('a work item can be closed again after its tasks were reopened', async () => {
  const store = await linked(ISSUE, { statuses: ['completed', 'completed'] });
  const close = source({ ...ONLY, close: true });
  await look(store, ISSUE, close);
  const task = { taskId: 't1', key: 'BUG-1', title: 'A task', status: 'open', source: 'api', updatedAt: '' };
  await saveTask(store.query, task, 2);
  await look(store, ISSUE, close);
  expect(await notices(store)).toEqual([]);
});

test.each<[what: string, isWanted: boolean, item: Partial<PullRequest>, before: Before]>([
  ['is open', true, {}, {}],
  ['is merged', false, { state: 'merged' }, {}],
  ['has no head', false, { headSha: undefined }, {}],
  ['has a link in flight', false, {}, { change: entity.link(PULL.key, 't2') }],
])(
  'a commit status of a pull request that %s is written after a delay: %j',
  async (_what, isWanted, fields, before) => {
    const item = { ...PULL, ...fields } as Item;
    const store = await linked(item, before);
    await look(store, item, source({ ...ONLY, status: true }));
    const [only, ...more] = await notices(store);
    expect(more).toEqual([]);
    if (isWanted) expect(only).toMatch(new RegExp(`^status waiting ${NOW + 3_000} .*aaa`));
    else expect(only).toBeUndefined();
  },
);

test.each<[what: string, writeBack: ReconcileConnection['writeBack'] | undefined, item: Item]>([
  ['without write-back', undefined, ISSUE],
  ['with all notices switched off', ONLY, ISSUE],
  ['to close a pull request', { ...ONLY, close: true }, PULL],
  ['with the status of a work item', { ...ONLY, status: true }, ISSUE],
])('there is no notice %s', async (_what, writeBack, item) => {
  const store = await linked(item, { statuses: ['completed', 'completed'] });
  await look(store, item, source(writeBack));
  expect(await notices(store)).toEqual([]);
});
