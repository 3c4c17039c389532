import { describe, expect, it, test } from 'vitest';
import { saveTask } from '../../../src/store/cached-tasks.ts';
import { blankEntity, saveEntity } from '../../../src/store/entities.ts';
import { saveItem } from '../../../src/store/items.ts';
import { addDifference, updateChange } from '../../../src/store/outbox-rows.ts';
import { writeServerFact } from '../../../src/store/server-facts.ts';
import {
  nextSweepStep,
  readSweepPosition,
  SWEEP_START,
  type SweepStep,
  sweepPositionsOf,
  writeSweepPosition,
} from '../../../src/store/sweep-position.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import {
  absentRecords,
  addFindings,
  beginList,
  beginSweep,
  countListed,
  findRunningSweep,
  noteListed,
  readSweeps,
  recordsSwept,
  type Sweep,
  tasksSwept,
} from '../../../src/store/workspace-sweeps.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

describe('rounds of the workspace sweep', () => {
  const rounds = async ({ selectFrom }: Scope) =>
    (await selectFrom('workspace_sweeps').select('id').orderBy('id').execute()).map(({ id }) => id);

  const findingsOf = async ({ selectFrom }: Scope) =>
    (await selectFrom('workspace_findings').select('entity').orderBy('entity').execute()).map(({ entity }) => entity);

  const find = (query: Scope, entity: string, now = 5) => addFindings(query, [{ what: 'task-changed', entity }], now);

  async function open(query: Scope): Promise<Sweep> {
    const sweep = await findRunningSweep(query);
    if (!sweep) throw new Error('no round runs');
    return sweep;
  }

  /** Lists both, and so comes to its end. */
  async function finish(query: Scope, now: number): Promise<void> {
    await tasksSwept(query, await open(query), 1, now);
    await recordsSwept(query, await open(query), now);
  }

  test.each<[now: number, isNew: boolean]>([
    [99, true],
    [100, false],
    [101, false],
  ])('while a round from 100 is running, another one begins at %j: %j', async (now, isNew) => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await noteListed(query, ['a']);
    const begun = await beginSweep(query, now);
    expect(begun.isNew).toBe(isNew);
    expect(begun.sweep).toMatchObject({ started_at: isNew ? now : 100 });
    expect(await rounds(query)).toEqual([begun.sweep.id]);
    expect(await countListed(query)).toBe(isNew ? 0 : 1);
  });

  test('a round ends when tasks and records were listed, in any order, and deletes earlier rounds', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await find(query, 'of the first');
    await finish(query, 110);
    await beginSweep(query, 200);
    await find(query, 'of the second');
    await noteListed(query, ['a', 'b', 'a']);
    await noteListed(query, []);
    expect(await recordsSwept(query, await open(query), 210)).toBeUndefined();
    expect(await countListed(query)).toBe(0);
    expect(await rounds(query)).toEqual([1, 2]);
    const ended = await tasksSwept(query, await open(query), 7, 220);
    expect(ended).toMatchObject({ id: 2, tasks: 7, tasks_at: 220, records: 2, records_at: 210, finished_at: 220 });
    expect(await findRunningSweep(query)).toBeUndefined();
    expect(await rounds(query)).toEqual([2]);
    expect(await findingsOf(query)).toEqual(['of the second']);
  });

  test('findings belong to the last round, even after its end, and are dropped without one', async () => {
    const { query } = await openTestStore();
    await find(query, 'early');
    expect(await findingsOf(query)).toEqual([]);
    await beginSweep(query, 100);
    await finish(query, 110);
    await beginSweep(query, 200);
    await addFindings(query, [], 205);
    await find(query, 'in the second');
    const { running, last } = await readSweeps(query);
    expect(running?.found['task-changed']).toBe(1);
    expect(last?.found['task-changed']).toBe(0);
    await finish(query, 210);
    await find(query, 'after the second');
    expect((await readSweeps(query)).last?.found['task-changed']).toBe(2);
  });

  test('a list that begins again does not count the records of the previous one', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await noteListed(query, ['a']);
    expect(await beginList(query, await open(query), 150)).toMatchObject({ list_began_at: 150 });
    expect(await open(query)).toMatchObject({ list_began_at: 150 });
    expect(await countListed(query)).toBe(0);
  });

  const recordName = (number: number) => `pull_request:github/1/${String(number).padStart(3, '0')}`;

  async function saveRecord(query: Scope, number: number, known_at: number | null = 1): Promise<void> {
    await saveEntity(query, { ...blankEntity(recordName(number), 'pull_request'), known: '{}', known_at });
  }

  test('a record is absent if it was known before the list began and the list lacks it', async () => {
    const { query } = await openTestStore();
    const times = [149, 150, null, 1];
    for (const [at, time] of times.entries()) await saveRecord(query, at, time);
    await noteListed(query, [recordName(3)]);
    await saveEntity(query, blankEntity(recordName(4), 'pull_request'));
    await saveEntity(query, { ...blankEntity('link:a>b', 'link'), known: '{}' });
    await saveEntity(query, { ...blankEntity('task:a', 'task'), known: '{}' });
    const { absent, next } = await absentRecords(query, { listBegan: 150, after: '' });
    expect(absent.map(({ entity }) => entity).toSorted()).toEqual([recordName(0), recordName(2)]);
    expect(next).toBeUndefined();
  });

  test('compares records in pages of one hundred', async () => {
    const { query, commit } = await openTestStore();
    await commit(async (transaction) => {
      for (let number = 1; number <= 100; number++) await saveRecord(transaction, number);
    });
    const first = await absentRecords(query, { listBegan: 5, after: '' });
    expect([first.absent.length, first.next]).toEqual([100, recordName(100)]);
    expect(await absentRecords(query, { listBegan: 5, after: recordName(100) })).toEqual({ absent: [] });
    expect((await absentRecords(query, { listBegan: 5, after: recordName(1) })).absent).toHaveLength(99);
  });

  test('a report contains the latest findings and the repairs of records', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    const records = ['waiting', 'held', 'repaired', 'sending'].map(
      (entity) => ({ what: 'record-changed', entity }) as const,
    );
    await addFindings(query, records, 110);
    const more = Array.from({ length: 20 }, (_, at) => ({ what: 'link-added', entity: `link ${at}` }) as const);
    await addFindings(query, more, 120);
    await addFindings(query, [{ what: 'record-missing', entity: 'missing' }], 130);
    for (const entity of ['waiting', 'held', 'sending', 'link 1'])
      await addDifference(query, {
        entity,
        kind: 'pull_request',
        lane: 'mirror',
        since: 1,
        due: 1,
        weight: 1,
        waiting: [],
      });
    for (const state of ['held', 'sending'] as const) await updateChange(query, state, { state });
    const { running, last } = await readSweeps(query);
    expect(last).toBeNull();
    expect(running).toMatchObject({
      startedAt: 100,
      finishedAt: null,
      tasks: 0,
      records: 0,
      found: { 'record-changed': 4, 'record-missing': 1, 'link-added': 20, 'link-removed': 0 },
      repairs: { done: 2, waiting: 2, held: 1 },
    });
    expect(running?.latest).toHaveLength(20);
    expect(running?.latest[0]).toEqual({ what: 'record-missing', entity: 'missing', at: 130 });
    expect(running?.latest.slice(1).every(({ what }) => what === 'link-added')).toBe(true);
  });
});

describe('steps of the workspace sweep', () => {
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
});
