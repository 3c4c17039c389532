import { expect, it } from 'vitest';
import { saveTask } from '../../../src/store/cached-tasks.ts';
import { blankEntity, saveEntity } from '../../../src/store/entities.ts';
import { saveItem } from '../../../src/store/items.ts';
import { writeServerFact } from '../../../src/store/server-facts.ts';
import {
  nextSweepStep,
  readSweepPosition,
  SWEEP_START,
  type SweepStep,
  sweepPositionsOf,
  writeSweepPosition,
} from '../../../src/store/sweep-position.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

it('keeps the position over a restart', async () => {
  const { query } = await openTestStore();
  expect(await readSweepPosition(query)).toBeUndefined();
  const turn = { startedAt: 5, endedAt: null, readAt: 7, read: 2, after: { ...SWEEP_START, name: 'tsk_2' } };
  await writeSweepPosition(query, turn);
  expect(await readSweepPosition(query)).toEqual(turn);
  const of = await sweepPositionsOf(query.whole, [query.workspace]);
  expect([of(query.workspace), of(query.workspace + 1)]).toEqual([turn, undefined]);
});

type Row = readonly [task: string, item: string | null, kind?: 'link' | 'pull_request'];

/** Of a workspace that records pull requests. */
async function recordingStore() {
  const store = await openTestStore();
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  return store;
}

/** Links of a work item, and of pull requests. */
async function withLinks(rows: readonly Row[]) {
  const { query, commit } = await recordingStore();
  for (const [key, kind] of [['item', 'work_item'] as const, ['pull', 'pull_request'] as const])
    await saveItem(query, itemRow(key, { kind }), 1);
  await commit(async (transaction) => {
    for (const [at, [task_id, item_key, kind = 'link']] of rows.entries())
      await saveEntity(transaction, blankEntity(`link:${at}`, kind, { task_id, item_key }));
  });
  return query;
}

const link = (name: string) => ({ kind: 'link', name }) as const;
const document = (name: string) => ({ kind: 'document', name }) as const;

it.each<[what: string, step: SweepStep, rows: readonly Row[], after?: string]>([
  [
    'the first task with a link of a work item',
    { found: link('t2') },
    [
      ['t1', 'pull'],
      ['t2', 'item'],
      ['t3', 'item'],
    ],
  ],
  [
    'the next one',
    { found: link('t3') },
    [
      ['t2', 'item'],
      ['t3', 'item'],
    ],
    't2',
  ],
  [
    'no task without a link',
    { after: document('') },
    [
      ['t2', 'item', 'pull_request'],
      ['t3', null],
    ],
  ],
  ['documents after the last one', { after: document('') }, [['t2', 'item']], 't2'],
])('reads of the links %s', async (_what, step, rows, after = '') => {
  expect(await nextSweepStep(await withLinks(rows), link(after))).toEqual(step);
});

const OLD = 'https://github.com/acme/api/pull/1';
const NEW = 'https://github.com/acme/web/pull/1';

it.each<
  [what: string, isRead: boolean, row: { known: string | null; desired: string | null; hand?: 'manual' | 'removed' }]
>([
  ['has the address of its record', false, { known: OLD, desired: OLD }],
  ['has the address from before a rename', true, { known: OLD, desired: NEW }],
  ['is not known in the workspace', false, { known: null, desired: NEW }],
  ['a person removed', false, { known: null, desired: NEW, hand: 'removed' }],
  ['a person added, with the address of its record', false, { known: NEW, desired: null, hand: 'manual' }],
  ['a person added before a rename', true, { known: OLD, desired: null, hand: 'manual' }],
])('reads a link of a pull request that %s: %j', async (_what, isRead, { known, desired, hand = null }) => {
  const { query } = await recordingStore();
  await saveItem(query, itemRow('pull', { kind: 'pull_request', fields: JSON.stringify({ item: { url: NEW } }) }), 1);
  const row = blankEntity('link:0', 'link', { task_id: 't1', item_key: 'pull' });
  const textOf = (url: string | null) => url && JSON.stringify({ url });
  await saveEntity(query, { ...row, known: textOf(known), desired: textOf(desired), hand });
  expect(await nextSweepStep(query, SWEEP_START)).toEqual(isRead ? { found: link('t1') } : { after: document('') });
});

it('reads all tasks with links, except tombstones, if pull requests are not recorded', async () => {
  const query = await withLinks([
    ['t1', 'pull'],
    ['t2', 'pull'],
  ]);
  await writeServerFact(query, 'records', { state: 'closed', since: 0 });
  expect(await nextSweepStep(query, SWEEP_START)).toEqual({ found: link('t1') });
  await saveEntity(query, blankEntity('link:0', 'link', { task_id: 't1', item_key: 'pull', hand: 'gone' }));
  expect(await nextSweepStep(query, SWEEP_START)).toEqual({ found: link('t2') });
});

it('reads tasks without a known link after all documents if pull requests are not recorded', async () => {
  const query = await withLinks([['t1', 'pull']]);
  for (const taskId of ['t1', 't2', 't3']) {
    const times = { createdAt: '2026-01-01T00:00:00Z', updatedAt: '2026-01-01T00:00:00Z' };
    await saveTask(query, { taskId, key: taskId, title: '', status: 'open', source: 'api', ...times }, 1);
  }
  expect(await nextSweepStep(query, document('document:z'))).toEqual({});
  await writeServerFact(query, 'records', { state: 'closed', since: 0 });
  const { after } = await nextSweepStep(query, document('document:z'));
  const task = (name: string) => ({ kind: 'task', name }) as const;
  expect(after).toEqual(task(''));
  expect(await nextSweepStep(query, task(''))).toEqual({ found: task('t2') });
  expect(await nextSweepStep(query, task('t2'))).toEqual({ found: task('t3') });
  expect(await nextSweepStep(query, task('t3'))).toEqual({});
});

it('examines one page of links in one step', async () => {
  const rows = Array.from({ length: 500 }, (_, at) => [`t${1_000 + at}`, 'pull'] as const);
  const query = await withLinks([...rows, ['t2000', 'item']]);
  expect(await nextSweepStep(query, SWEEP_START)).toEqual({ after: link('t1499') });
  expect(await nextSweepStep(query, link('t1000'))).toEqual({ found: link('t2000') });
});

it.each<[what: string, step: SweepStep, known: object | null, task: string | null, after?: string]>([
  ['one that is attached to its task', { found: document('document:a') }, { taskId: 't1' }, 't1'],
  ['none after the last one', {}, { taskId: 't1' }, 't1', 'document:a'],
  ['none that is attached elsewhere', {}, { taskId: 't2' }, 't1'],
  ['none that is not attached', {}, { taskId: null }, null],
  ['none without a known state', {}, null, 't1'],
])('reads of the documents %s', async (_what, step, known, task_id, after = '') => {
  const { query } = await recordingStore();
  const row = blankEntity('document:a', 'document', { task_id });
  await saveEntity(query, { ...row, known: known && JSON.stringify(known) });
  expect(await nextSweepStep(query, document(after))).toEqual(step);
});
