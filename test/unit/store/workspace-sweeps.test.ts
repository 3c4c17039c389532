import { describe, expect, it, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { ItemKey } from '../../../src/model/item.ts';
import { blankEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { findChange, removeChange, updateChange } from '../../../src/store/changes/outbox-rows.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import {
  beginNotice,
  noticesOf,
  requestNotice,
  settleNotice,
  withdrawNotices,
} from '../../../src/store/items/notices.ts';
import { TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { saveTask } from '../../../src/store/tasks/stored-tasks.ts';
import { noteRouteRefused } from '../../../src/store/workspace/server-capabilities.ts';
import { writeServerFact } from '../../../src/store/workspace/server-facts.ts';
import {
  enqueueInitialReads,
  onTaskListApplied,
  requestTaskList,
  requestTaskReads,
  tasksWereRead,
} from '../../../src/store/workspace/workspace-reads.ts';
import {
  absentRecords,
  addFindings,
  beginSweep,
  countListed,
  findRunningSweep,
  nextSweepStep,
  noteListed,
  recordsSwept,
  SWEEP_START,
  type Sweep,
  type SweepStep,
  tasksSwept,
} from '../../../src/store/workspace/workspace-sweeps.ts';
import type { Scope, Store } from '../../../src/store/workspace-scope.ts';
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
});

describe('the position of the sweep', () => {
  const link = (name: string) => ({ kind: 'link', name }) as const;
  const document = (name: string) => ({ kind: 'document', name }) as const;
  const task = (name: string) => ({ kind: 'task', name }) as const;
  const DOCUMENTS = { after: document('') };

  async function recordingStore() {
    const store = await openTestStore();
    await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
    return store;
  }

  /** @param rows links of tasks to a work item or a pull request, as `task item`; a third word is the kind of another row */
  async function withLinks(...rows: readonly string[]) {
    const { query, commit } = await recordingStore();
    for (const [key, kind] of [['item', 'work_item'] as const, ['pull', 'pull_request'] as const])
      await saveItem(query, itemRow(key, { kind }), 1);
    await commit(async (transaction) => {
      for (const [at, row] of rows.entries()) {
        const [task_id, item_key = null, kind = 'link'] = row.split(' ');
        await saveEntity(transaction, blankEntity(`link:${at}`, kind as 'link', { task_id, item_key }));
      }
    });
    return query;
  }

  it.each<[what: string, step: SweepStep, rows: string, after?: string]>([
    ['at the first task with a link of a work item', { found: link('t2') }, 't1 pull, t2 item, t3 item'],
    ['at the next one', { found: link('t3') }, 't2 item, t3 item', 't2'],
    ['at documents after the last link', DOCUMENTS, 't2 item', 't2'],
  ])('is %s', async (_what, step, rows, after = '') => {
    expect(await nextSweepStep(await withLinks(...rows.split(', ')), link(after))).toEqual(step);
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
    const query = await withLinks('t1 pull', 't2 pull');
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

  it.each<[what: string, step: SweepStep, known: object | null, task: string | null, after?: string]>([
    ['at one that is attached to its task', { found: document('document:a') }, { taskId: 't1' }, 't1'],
    ['not at one that is attached elsewhere', {}, { taskId: 't2' }, 't1'],
    ['not at one without a known state', {}, null, 't1'],
  ])('is, among documents, %s', async (_what, step, known, task_id, after = '') => {
    const { query } = await recordingStore();
    const row = blankEntity('document:a', 'document', { task_id });
    await saveEntity(query, { ...row, known: known && JSON.stringify(known) });
    expect(await nextSweepStep(query, document(after))).toEqual(step);
  });
});

describe('reads of the workspace', () => {
  const NOW = 1_000_000;
  const MINUTE = 60_000;

  /** The due time of each pending read, relative to `NOW`. */
  async function due({ query }: Store): Promise<Record<string, number>> {
    const rows = await query.selectFrom('outbox').select(['entity', 'due']).orderBy('entity').execute();
    return Object.fromEntries(rows.map((row) => [row.entity.replace('read:', ''), row.due - NOW]));
  }

  const read = ({ query }: Store, taskIds: readonly string[], at = 0) =>
    requestTaskReads(query, taskIds, { now: NOW + at, usedShare: 0 });

  /** The list is sent and answered at once. */
  async function answerList({ query }: Store, at: number): Promise<void> {
    await removeChange(query, entity.readTasks);
    await onTaskListApplied(query, NOW + at, NOW + at);
  }

  test('reads up to three tasks singly, each once', async () => {
    const store = await openTestStore();
    await read(store, ['a', 'b', 'a']);
    await read(store, ['a', 'c'], 100);
    expect(await due(store)).toEqual({ 'task:a': 2_400, 'task:b': 2_400, 'task:c': 2_500 });
  });

  test('reads more than three tasks within a minute by one list, which replaces the single reads', async () => {
    const store = await openTestStore();
    await read(store, ['a', 'b', 'c']);
    await updateChange(store.query, entity.readTask('b'), { state: 'sending', sent: '{}' });
    await read(store, ['d'], 50_000);
    expect(await due(store)).toEqual({ 'task:b': 2_400, tasks: 50_000 + MINUTE });
  });

  test('reads tasks singly again after a minute', async () => {
    const store = await openTestStore();
    await read(store, ['a', 'b', 'c']);
    for (const taskId of ['a', 'b', 'c']) await removeChange(store.query, entity.readTask(taskId));
    await read(store, ['d'], MINUTE + 1);
    expect(await due(store)).toEqual({ 'task:d': MINUTE + 1 + 2_400 });
  });

  test('reads even one task by a list if the server has no route for a single task', async () => {
    const store = await openTestStore();
    const refusal = { status: 404, resource: 'a', isCertain: true };
    await noteRouteRefused(store.query, 'getTask', refusal, NOW);
    await read(store, ['a']);
    expect(await due(store)).toEqual({ tasks: MINUTE });
  });

  test('events cause at most one list in five minutes', async () => {
    const store = await openTestStore();
    await requestTaskList(store.query, NOW);
    await answerList(store, MINUTE);
    expect(await due(store)).toEqual({});
    await requestTaskList(store.query, NOW + 2 * MINUTE);
    await requestTaskList(store.query, NOW + 3 * MINUTE);
    expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
  });

  test('repeats a list that may be older than an event', async () => {
    const store = await openTestStore();
    await requestTaskList(store.query, NOW);
    await requestTaskList(store.query, NOW + 30_000);
    expect(await due(store)).toEqual({ tasks: MINUTE });
    await answerList(store, MINUTE);
    expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
    await answerList(store, 6 * MINUTE);
    expect(await due(store)).toEqual({});
  });

  describe('the initial reads', () => {
    it('are both lists if a connection records; writes wait only for the tasks', async () => {
      const { query } = await openTestStore();
      await enqueueInitialReads(query, 50, false);
      expect(await findChange(query, 'read:pull_requests')).toBeUndefined();
      await enqueueInitialReads(query, 50, true);
      expect(await findChange(query, 'read:tasks')).toMatchObject({ kind: 'read', due: 50, state: 'pending' });
      expect(await findChange(query, 'read:pull_requests')).toMatchObject({ kind: 'read', due: 50, state: 'pending' });
      expect(await tasksWereRead(query)).toBe(false);
      await writeMeta(query, TASKS_READ, '60');
      expect(await tasksWereRead(query)).toBe(true);
    });
  });

  describe('notices', () => {
    const keyOf = (index: number | string) => `note:${index}` as ItemKey;
    const WANTED = { comment: ['kept'], close: ['kept'], status: ['kept'] };

    test('withdraws what another configuration wanted, by how far it came', async () => {
      const store = await openTestStore();
      const { query } = store;
      const request = (name: string, wanted: string, connection = 'other') =>
        requestNotice(query, { itemKey: keyOf(name), kind: 'comment', connection, wanted, now: 0 });
      const noticeOf = async (name: string) => (await noticesOf(query, keyOf(name)))[0]!;
      await request('kept', 'first', 'kept');
      await request('new', 'first');
      await request('tried', 'first');
      await beginNotice(query, await noticeOf('tried'));
      await request('written', 'first');
      await settleNotice(query, await noticeOf('written'));
      await request('written', 'second');
      await withdrawNotices(store, WANTED);
      expect(await noticesOf(query, keyOf('new'))).toEqual([]);
      expect(await noticeOf('kept')).toMatchObject({ state: 'waiting', wanted: 'first', done: null });
      expect(await noticeOf('tried')).toMatchObject({ state: 'done', wanted: null, done: '' });
      expect(await noticeOf('written')).toMatchObject({ state: 'done', wanted: 'first', done: 'first' });
    });
  });
});
