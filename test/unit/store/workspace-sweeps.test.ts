import { describe, expect, it } from 'vitest';
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
  sweepsOf,
  tasksSwept,
} from '../../../src/store/workspace-sweeps.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

describe('a round of the sweep', () => {
  const rounds = async ({ selectFrom }: Scope) =>
    (await selectFrom('workspace_sweeps').select('id').orderBy('id').execute()).map(({ id }) => id);
  const findingsOf = async ({ selectFrom }: Scope) =>
    (await selectFrom('workspace_findings').select('entity').orderBy('entity').execute()).map(({ entity }) => entity);
  const find = (query: Scope, entity: string) => addFindings(query, [{ what: 'task-changed', entity }], 5);
  const running = async (query: Scope) => (await findRunningSweep(query)) as Sweep;
  async function finish(query: Scope, now: number): Promise<void> {
    await tasksSwept(query, await running(query), 1, now);
    await recordsSwept(query, await running(query), now);
  }

  it.each<[now: number, isNew: boolean]>([
    [99, true],
    [100, false],
    [101, false],
  ])('from 100 is running: another one begins at %j: %j', async (now, isNew) => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await noteListed(query, ['a']);
    const begun = await beginSweep(query, now);
    expect(begun).toMatchObject({ isNew, sweep: { started_at: isNew ? now : 100 } });
    expect([await rounds(query), await countListed(query)]).toEqual([[begun.sweep.id], isNew ? 0 : 1]);
  });

  it('ends when tasks and records were listed, in any order, and deletes earlier rounds', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await find(query, 'of the first');
    await finish(query, 110);
    await beginSweep(query, 200);
    await find(query, 'of the second');
    await noteListed(query, ['a', 'b', 'a']);
    await noteListed(query, []);
    expect(await recordsSwept(query, await running(query), 210)).toBeUndefined();
    expect([await countListed(query), await rounds(query)]).toEqual([0, [1, 2]]);
    const ended = await tasksSwept(query, await running(query), 7, 220);
    expect(ended).toMatchObject({ id: 2, tasks: 7, tasks_at: 220, records: 2, records_at: 210, finished_at: 220 });
    expect(await findRunningSweep(query)).toBeUndefined();
    expect([await rounds(query), await findingsOf(query)]).toEqual([[2], ['of the second']]);
  });

  it('has the findings from its begin on, even after its end; without a round they are dropped', async () => {
    const { query } = await openTestStore();
    await find(query, 'early');
    expect([await findingsOf(query), await readSweeps(query)]).toEqual([[], { running: null, last: null }]);
    await beginSweep(query, 100);
    await finish(query, 110);
    await beginSweep(query, 200);
    await addFindings(query, [], 205);
    await find(query, 'in the second');
    const { running: second, last: first } = await readSweeps(query);
    expect([first?.found['task-changed'], second?.found['task-changed']]).toEqual([0, 1]);
    await finish(query, 210);
    await find(query, 'after the second');
    expect((await readSweeps(query)).last?.found['task-changed']).toBe(2);
    const reports = await sweepsOf(query.whole, [query.workspace, query.workspace + 1]);
    expect(reports(query.workspace + 1)).toEqual({ running: null, last: null });
  });

  it('does not count the records of a list that began again', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    await noteListed(query, ['a']);
    expect(await beginList(query, await running(query), 150)).toMatchObject({ list_began_at: 150 });
    expect([(await running(query)).list_began_at, await countListed(query)]).toEqual([150, 0]);
  });

  it('finds a record absent if it was known before the list began and the list lacks it, in pages of 100', async () => {
    const { query, commit } = await openTestStore();
    const name = (number: number) => `pull_request:github/1/${String(number).padStart(3, '0')}`;
    const save = (scope: Scope, number: number, known_at: number | null = 1) =>
      saveEntity(scope, { ...blankEntity(name(number), 'pull_request'), known: '{}', known_at });
    for (const [at, time] of [149, 150, null, 1].entries()) await save(query, at, time);
    await noteListed(query, [name(3)]);
    await saveEntity(query, blankEntity(name(4), 'pull_request'));
    await saveEntity(query, { ...blankEntity('link:a>b', 'link'), known: '{}' });
    const absent = async (after: string) => {
      const found = await absentRecords(query, { listBegan: 150, after });
      return { names: found.absent.map(({ entity }) => entity).toSorted(), next: found.next };
    };
    expect(await absent('')).toEqual({ names: [name(0), name(2)], next: undefined });
    await commit(async (transaction) => {
      for (let number = 5; number <= 105; number++) await save(transaction, number);
    });
    const first = await absent('');
    const rest = await absent(first.next ?? '');
    expect([first.next !== undefined, first.names.length + rest.names.length, rest.next]).toEqual([
      true,
      103,
      undefined,
    ]);
  });

  it('reports the latest findings and the repairs of records', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    const records = ['waiting', 'held', 'repaired', 'sending'];
    await addFindings(
      query,
      records.map((entity) => ({ what: 'record-changed', entity }) as const),
      110,
    );
    const more = Array.from({ length: 20 }, (_, at) => ({ what: 'link-added', entity: `link ${at}` }) as const);
    await addFindings(query, more, 120);
    await addFindings(query, [{ what: 'record-missing', entity: 'missing' }], 130);
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    for (const entity of ['waiting', 'held', 'sending', 'link 1'])
      await addDifference(query, { entity, kind: 'pull_request', lane: 'mirror', ...times });
    for (const state of ['held', 'sending'] as const) await updateChange(query, state, { state });
    const { running: report } = await readSweeps(query);
    expect(report).toMatchObject({
      ...{ startedAt: 100, finishedAt: null, tasks: 0, records: 0, repairs: { done: 2, waiting: 2, held: 1 } },
      found: { 'record-changed': 4, 'record-missing': 1, 'link-added': 20, 'link-removed': 0 },
    });
    const whats = report?.latest.map(({ what }) => what);
    expect(whats).toEqual(['record-missing', ...Array(19).fill('link-added')]);
    expect(report?.latest[0]).toEqual({ what: 'record-missing', entity: 'missing', at: 130 });
  });

  it('a round without findings and a workspace without rounds have empty reports', async () => {
    const { query } = await openTestStore();
    expect(await readSweeps(query)).toEqual({ running: null, last: null });
    await beginSweep(query, 100);
    await finish(query, 110);
    const { running, last } = await readSweeps(query);
    expect(running).toBeNull();
    expect(last).toMatchObject({ finishedAt: 110, repairs: { done: 0, waiting: 0, held: 0 }, latest: [] });
  });

  it('each workspace has its own rounds', async () => {
    const { query } = await openTestStore();
    await beginSweep(query, 100);
    const other = query.workspace + 1;
    const reports = await sweepsOf(query.whole, [query.workspace, other]);
    expect(reports(query.workspace).running?.startedAt).toBe(100);
    expect(reports(other)).toEqual({ running: null, last: null });
  });
});

describe('the position of the sweep', () => {
  type Row = readonly [task: string, item: string | null, kind?: 'link' | 'pull_request'];
  const link = (name: string) => ({ kind: 'link', name }) as const;
  const document = (name: string) => ({ kind: 'document', name }) as const;
  const task = (name: string) => ({ kind: 'task', name }) as const;
  const DOCUMENTS = { after: document('') };

  async function recordingStore() {
    const store = await openTestStore();
    await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
    return store;
  }

  /** Links of a work item and of pull requests. */
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

  it('stays over a restart', async () => {
    const { query } = await openTestStore();
    expect(await readSweepPosition(query)).toBeUndefined();
    const position = { startedAt: 5, endedAt: null, readAt: 7, read: 2, after: { ...SWEEP_START, name: 'tsk_2' } };
    await writeSweepPosition(query, position);
    const of = await sweepPositionsOf(query.whole, [query.workspace]);
    expect([await readSweepPosition(query), of(query.workspace), of(query.workspace + 1)]).toEqual([
      position,
      position,
      undefined,
    ]);
  });

  it.each<[what: string, step: SweepStep, rows: readonly Row[], after?: string]>([
    [
      'at the first task with a link of a work item',
      { found: link('t2') },
      [
        ['t1', 'pull'],
        ['t2', 'item'],
        ['t3', 'item'],
      ],
    ],
    [
      'at the next one',
      { found: link('t3') },
      [
        ['t2', 'item'],
        ['t3', 'item'],
      ],
      't2',
    ],
    [
      'not at a task without a link',
      DOCUMENTS,
      [
        ['t2', 'item', 'pull_request'],
        ['t3', null],
      ],
    ],
    ['at documents after the last link', DOCUMENTS, [['t2', 'item']], 't2'],
  ])('is %s', async (_what, step, rows, after = '') => {
    expect(await nextSweepStep(await withLinks(rows), link(after))).toEqual(step);
  });

  const [OLD, NEW] = ['https://github.com/acme/api/pull/1', 'https://github.com/acme/web/pull/1'];

  it.each<[what: string, isRead: boolean, known: string | null, desired: string | null, hand?: 'manual' | 'removed']>([
    ['has the address of its record', false, OLD, OLD],
    ['has the address from before a rename', true, OLD, NEW],
    ['is not known in the workspace', false, null, NEW],
    ['a person removed', false, null, NEW, 'removed'],
    ['a person added, with the address of its record', false, NEW, null, 'manual'],
    ['a person added before a rename', true, OLD, null, 'manual'],
  ])('is at a link of a pull request that %s: %j', async (_what, isRead, known, desired, hand) => {
    const { query } = await recordingStore();
    await saveItem(query, itemRow('pull', { kind: 'pull_request', fields: JSON.stringify({ item: { url: NEW } }) }), 1);
    const row = blankEntity('link:0', 'link', { task_id: 't1', item_key: 'pull' });
    const textOf = (url: string | null) => url && JSON.stringify({ url });
    await saveEntity(query, { ...row, known: textOf(known), desired: textOf(desired), hand: hand ?? null });
    expect(await nextSweepStep(query, SWEEP_START)).toEqual(isRead ? { found: link('t1') } : DOCUMENTS);
  });

  it('passes all tasks with links, except tombstones, and then those without, if pull requests are not recorded', async () => {
    const query = await withLinks([
      ['t1', 'pull'],
      ['t2', 'pull'],
    ]);
    for (const taskId of ['t2', 't3', 't4'])
      await saveTask(query, { taskId, key: taskId, title: '', status: 'open', source: 'api', updatedAt: '' }, 1);
    expect(await nextSweepStep(query, document('document:z'))).toEqual({});
    await writeServerFact(query, 'records', { state: 'closed', since: 0 });
    expect(await nextSweepStep(query, SWEEP_START)).toEqual({ found: link('t1') });
    await saveEntity(query, blankEntity('link:0', 'link', { task_id: 't1', item_key: 'pull', hand: 'gone' }));
    expect(await nextSweepStep(query, SWEEP_START)).toEqual({ found: link('t2') });
    expect(await nextSweepStep(query, document('document:z'))).toEqual({ after: task('') });
    const steps = [await nextSweepStep(query, task('')), await nextSweepStep(query, task('t3'))];
    expect([...steps, await nextSweepStep(query, task('t4'))]).toEqual([
      { found: task('t3') },
      { found: task('t4') },
      {},
    ]);
  });

  it('moves by one page of links in one step', async () => {
    const rows = Array.from({ length: 500 }, (_, at) => [`t${1_000 + at}`, 'pull'] as const);
    const query = await withLinks([...rows, ['t2000', 'item']]);
    expect(await nextSweepStep(query, SWEEP_START)).toEqual({ after: link('t1499') });
    expect(await nextSweepStep(query, link('t1000'))).toEqual({ found: link('t2000') });
  });

  it('examines one page of links in one step', async () => {
    const rows = Array.from({ length: 500 }, (_, at) => [`t${1_000 + at}`, 'pull'] as const);
    const query = await withLinks([...rows, ['t2000', 'item']]);
    expect(await nextSweepStep(query, SWEEP_START)).toEqual({ after: link('t1499') });
    expect(await nextSweepStep(query, link('t1000'))).toEqual({ found: link('t2000') });
  });

  it.each<[what: string, step: SweepStep, known: object | null, task: string | null, after?: string]>([
    ['at one that is attached to its task', { found: document('document:a') }, { taskId: 't1' }, 't1'],
    ['at none after the last one', {}, { taskId: 't1' }, 't1', 'document:a'],
    ['not at one that is attached elsewhere', {}, { taskId: 't2' }, 't1'],
    ['not at one that is not attached', {}, { taskId: null }, null],
    ['not at one without a known state', {}, null, 't1'],
  ])('is, among documents, %s', async (_what, step, known, task_id, after = '') => {
    const { query } = await recordingStore();
    const row = blankEntity('document:a', 'document', { task_id });
    await saveEntity(query, { ...row, known: known && JSON.stringify(known) });
    expect(await nextSweepStep(query, document(after))).toEqual(step);
  });
});
