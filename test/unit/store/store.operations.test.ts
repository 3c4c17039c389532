import { describe, expect, it } from 'vitest';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import { forgetTasks, saveTask, taskIdPrefixes, tasksByKeys } from '../../../src/store/cached-tasks.ts';
import {
  blankEntity,
  findEntity,
  forgetEntity,
  json,
  linksOfItem,
  linksOfTask,
  saveEntity,
} from '../../../src/store/entities.ts';
import { countAttempt, pendingDeliveries, settleDeliveries } from '../../../src/store/inbox.ts';
import { itemsNaming, saveMentions } from '../../../src/store/item-names.ts';
import {
  findItem,
  itemsAtUrl,
  itemsByDisplayName,
  itemVersions,
  readDeliveries,
  readFields,
  saveItem,
} from '../../../src/store/items.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import { nextRevision } from '../../../src/store/revision.ts';
import { appendAnswer, readAnswer, WORKSPACE } from '../../../src/store/workspace-answers.ts';
import {
  enqueueInitialReads,
  enqueueTaskListRead,
  TASKS_READ,
  tasksWereRead,
} from '../../../src/store/workspace-reads.ts';
import { inboxOf, openTestStore } from '../../support/intake.ts';
import { planOf } from '../../support/plans.ts';
import { allTaskKeys } from '../../support/task-keys.ts';

const many = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('entities', () => {
  it('are saved over what was there, found, and forgotten', async () => {
    const { query } = await openTestStore();
    const row = blankEntity('link:i>t', 'link', { item_key: 'i', task_id: 't' });
    await saveEntity(query, { ...row, desired: '{"url":"u"}', remote_id: 'r' });
    await saveEntity(query, { ...row, known: '{}', known_at: 5, hand: 'manual' });
    expect(await findEntity(query, 'link:i>t')).toMatchObject({ ...row, known: '{}', known_at: 5, hand: 'manual' });
    await forgetEntity(query, 'link:i>t');
    expect(await findEntity(query, 'link:i>t')).toBeUndefined();
  });

  it('links are found by item and by task, and nothing else is', async () => {
    const { query } = await openTestStore();
    const save = (entity: string, kind: 'link' | 'pull_request', item: string, task: string | null) =>
      saveEntity(query, blankEntity(entity, kind, { item_key: item, task_id: task }));
    await save('link:a>1', 'link', 'a', '1');
    await save('link:a>2', 'link', 'a', '2');
    await save('link:b>1', 'link', 'b', '1');
    await save('pull_request:a', 'pull_request', 'a', null);
    expect((await linksOfItem(query, 'a')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:a>2']);
    expect((await linksOfTask(query, '1')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:b>1']);
  });

  it('null columns are no objects', () => {
    expect(json(null)).toBeUndefined();
    expect(json('{"url":"u"}')).toEqual({ url: 'u' });
    expect(json('null')).toBeNull();
  });
});

describe('the inbox', () => {
  const append = (store: Awaited<ReturnType<typeof openTestStore>>, bodies: readonly string[]) =>
    appendDeliveries(
      store.query,
      bodies.map((body, index) => ({
        connection: 'c',
        key: `k${index}`,
        source: 'webhook',
        event: 'e',
        body: Buffer.from(body),
      })),
      7,
    );

  it('gives pending deliveries, oldest first, within count and size, and always one', async () => {
    const store = await openTestStore();
    await append(store, ['a'.repeat(100), 'b'.repeat(10), 'c'.repeat(10), 'd']);
    const idsOf = async (most: number, bytes: number) =>
      (await pendingDeliveries(store.query, most, bytes)).map(({ id }) => id);
    expect(await idsOf(10, 1_000)).toEqual([1, 2, 3, 4]);
    expect(await idsOf(2, 1_000)).toEqual([1, 2]);
    expect(await idsOf(10, 120)).toEqual([1, 2, 3]);
    expect(await idsOf(10, 50)).toEqual([1]);
    expect(await idsOf(10, 0)).toEqual([1]);
  });

  it('does not let a small one overtake a large one', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b'.repeat(100), 'c']);
    expect((await pendingDeliveries(store.query, 10, 50)).map(({ id }) => id)).toEqual([1]);
  });

  it('gives what came, with an empty body where that was purged', async () => {
    const store = await openTestStore();
    await append(store, ['a']);
    const [delivery] = await pendingDeliveries(store.query, 1, 1);
    expect(delivery).toEqual({
      id: 1,
      isReplayed: false,
      key: 'k0',
      connection: 'c',
      source: 'webhook',
      event: 'e',
      body: Buffer.from('a'),
      stored: { body: Buffer.from('a'), unpacked_length: null },
      bytes: 1,
      receivedAt: 7,
      attempts: 0,
    });
    await store.query.updateTable('inbox').set({ body: null }).execute();
    expect((await pendingDeliveries(store.query, 1, 1))[0]?.body.byteLength).toBe(0);
  });

  it('packs large bodies and gives them back byte by byte, counted as they came', async () => {
    const store = await openTestStore();
    const large = JSON.stringify({ text: 'much the same '.repeat(1_000) });
    await append(store, [large, large, 'small']);
    const stored = await store.query.selectFrom('inbox').select(['body', 'unpacked_length']).orderBy('id').execute();
    expect(stored.map(({ unpacked_length }) => unpacked_length)).toEqual([large.length, large.length, null]);
    expect(stored[0]?.body?.length).toBeLessThan(large.length / 10);
    const [first, second] = await pendingDeliveries(store.query, 10, 2 * large.length);
    expect([first, second].map((delivery) => delivery?.body.toString())).toEqual([large, large]);
    expect(await pendingDeliveries(store.query, 10, 2 * large.length)).toHaveLength(2);
    expect(await pendingDeliveries(store.query, 10, 2 * large.length - 1)).toHaveLength(1);
  });

  it('makes a damaged body the fault of its delivery alone', async () => {
    const store = await openTestStore();
    await append(store, ['x'.repeat(10_000), 'sound']);
    await store.query
      .updateTable('inbox')
      .set({ body: Buffer.from('no frame') })
      .where('id', '=', 1)
      .execute();
    const [damaged, sound] = await pendingDeliveries(store.query, 10, 100_000);
    expect(() => damaged?.body).toThrow();
    expect(sound?.body.toString()).toBe('sound');
  });

  it('gives large bodies that were stored before bodies were packed', async () => {
    const store = await openTestStore();
    const body = Buffer.from('as it came '.repeat(1_000));
    await append(store, ['']);
    await store.query.updateTable('inbox').set({ body }).execute();
    expect((await pendingDeliveries(store.query, 1, 1))[0]?.body).toEqual(body);
  });

  it('settles each delivery to its own end', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b', 'c', 'd', 'e']);
    await settleDeliveries(
      store.query,
      [
        { id: 1, state: 'applied' },
        { id: 2, state: 'ignored', reason: 'x' },
        { id: 3, state: 'ignored', reason: 'y' },
        { id: 4, state: 'applied' },
      ],
      9,
    );
    expect((await inboxOf(store)).map(({ state, reason, settled_at }) => [state, reason, settled_at])).toEqual([
      ['applied', null, 9],
      ['ignored', 'x', 9],
      ['ignored', 'y', 9],
      ['applied', null, 9],
      ['pending', null, null],
    ]);
    await settleDeliveries(store.query, [], 10);
  });

  it('counts attempts', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b']);
    await countAttempt(store.query, [1]);
    await countAttempt(store.query, [1, 2]);
    expect((await pendingDeliveries(store.query, 9, 9)).map(({ attempts }) => attempts)).toEqual([2, 1]);
  });
});

describe('answers', () => {
  it('go through the inbox as they are', async () => {
    const store = await openTestStore();
    const answer = {
      action: 'read-tasks',
      entity: 'read:tasks',
      sentAt: 5,
      body: { tasks: [{ title: 'ä🐛' }] },
    } as const;
    await appendAnswer(store.query, answer, 'id-1', 8);
    await appendAnswer(store.query, answer, 'id-2', 9);
    const rows = await pendingDeliveries(store.query, 9, 9_999);
    expect(rows.map(({ connection, source, event, receivedAt }) => [connection, source, event, receivedAt])).toEqual([
      [WORKSPACE, 'answer', 'read-tasks', 8],
      [WORKSPACE, 'answer', 'read-tasks', 9],
    ]);
    expect(rows.map(({ body }) => readAnswer(body))).toEqual([answer, answer]);
  });

  it('to requests carry the revision at their receipt, however late they are processed', async () => {
    const store = await openTestStore();
    await nextRevision(store.query);
    const answer = { action: 'read-links', entity: 'read:links:t1', sentAt: 5, asOf: 0, body: null } as const;
    await appendAnswer(store.query, answer, 'id-1', 8);
    await nextRevision(store.query);
    const [row] = await pendingDeliveries(store.query, 9, 9_999);
    expect(readAnswer(row!.body)).toMatchObject({ asOf: 0, receivedRevision: 1 });
  });
});

describe('items', () => {
  const row = (key: string, time = 1): Parameters<typeof saveItem>[1] => ({
    key,
    kind: 'pull_request',
    connector: 'github',
    connection: 'c',
    provider_time: time,
    hash: `h${time}`,
    finished: 0,
    gone: 0,
    seen_at: 3,
    fields: JSON.stringify({ item: { key, updatedAt: time }, older: { title: { updatedAt: 0 } } }),
  });

  it('are saved over what was there', async () => {
    const { query } = await openTestStore();
    await saveItem(query, row('a'), 7);
    await saveItem(query, row('a', 2), 9);
    const found = await findItem(query, 'a');
    expect(found).toMatchObject({ ...row('a', 2), standing: null, deliveries: '[7,9]' });
    expect(readFields(row('a', 2))).toEqual({
      item: { key: 'a', updatedAt: 2 },
      older: { title: { updatedAt: 0 } },
    });
    expect(await findItem(query, 'b')).toBeUndefined();
  });

  it('remember the last twenty deliveries that changed them, each once', async () => {
    const { query } = await openTestStore();
    for (const delivery of [...many(25), 10]) await saveItem(query, row('a'), delivery);
    const kept = readDeliveries(await findItem(query, 'a'));
    expect(kept).toEqual([
      ...many(25)
        .slice(5)
        .filter((id) => id !== 10),
      10,
    ]);
    expect(kept).toHaveLength(20);
  });

  it.each([
    ['pull_request', { repoName: 'acme/api', identifier: '12' }, 'acme/api#12', 'acme/api!12'],
    ['work_item', { containerName: 'acme/api', identifier: '#13' }, 'acme/api#13', 'acme/api!13'],
    ['work_item', { containerName: 'ENG', identifier: 'ENG-14' }, 'ENG-14', 'ENG-14'],
  ] as const)('are found by what people call them, and by their address: %s %j', async (kind, names, called, spelt) => {
    const statements: string[] = [];
    const store = await openTestStore({ onStatement: (text) => statements.push(text) });
    const { query } = store;
    const url = 'https://forge.example/a/1';
    const fields = (item: object) => JSON.stringify({ item, older: {} });
    await saveItem(query, { ...row('a'), kind, fields: fields({ ...names, url }) }, 1);
    await saveItem(query, { ...row('b'), kind, fields: fields({ identifier: 'other', url: `${url}2` }) }, 1);
    statements.length = 0;
    for (const name of [called, spelt]) expect(await itemsByDisplayName(query, name)).toEqual(['a']);
    expect(await itemsAtUrl(query, url)).toEqual(['a']);
    expect(await itemsByDisplayName(query, 'nobody')).toEqual([]);
    for (const text of [...statements]) {
      const { indexes } = await planOf(store.database, text);
      expect(indexes).toEqual([expect.stringMatching(/^items_(url|called)$/)]);
    }
  });

  it('marks are found for any number of keys', async () => {
    const store = await openTestStore();
    const keys = many(1_201).map((index) => `k${index}`);
    await store.commit(async (query) => {
      for (const key of keys) await saveItem(query, row(key), 1);
    });
    const marks = await itemVersions(store.query, [...keys, 'unknown']);
    expect(marks.size).toBe(1_201);
    expect(marks.get('k1201')).toEqual({ key: 'k1201', provider_time: 1, hash: 'h1', unverified: 0 });
    expect(await itemVersions(store.query, [])).toEqual(new Map());
  });
});

describe('mentions', () => {
  const mention = (name: string) => ({ name, reason: { rule: 'task-key' } });

  it('are replaced, and find their items', async () => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
    await saveMentions(query, 'b', [mention('BUG-2')], undefined);
    expect((await itemsNaming(query, ['BUG-1', 'BUG-2'])).toSorted()).toEqual(['a', 'b']);
    await saveMentions(query, 'a', [mention('BUG-3')], undefined);
    expect(await itemsNaming(query, ['BUG-1'])).toEqual([]);
    expect(await itemsNaming(query, ['BUG-3'])).toEqual(['a']);
    await saveMentions(query, 'a', [], undefined);
    expect(await itemsNaming(query, ['BUG-3'])).toEqual([]);
    expect(await itemsNaming(query, [])).toEqual([]);
  });

  it('find each item once, for any number of keys', async () => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-1100')], undefined);
    expect(
      await itemsNaming(
        query,
        many(1_200).map((index) => `BUG-${index}`),
      ),
    ).toEqual(['a']);
  });
});

describe('tasks', () => {
  const task = (number: number, key = `BUG-${number}`) => ({
    taskId: `t${number}`,
    key,
    title: 'A door',
    status: 'open',
    source: 'api',
    updatedAt: '2026-01-05T08:00:00Z',
  });

  it('are found by their keys, as they were last seen', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 10);
    await saveTask(query, task(2, 'BUG-7'), 20);
    expect(await tasksByKeys(query, ['BUG-1', 'BUG-2', 'BUG-7'])).toEqual(
      new Map([
        ['BUG-1', task(1)],
        ['BUG-7', task(2, 'BUG-7')],
      ]),
    );
    expect((await allTaskKeys(query)).get('t2')).toBe('BUG-7');
  });

  it('are forgotten, unless they were seen later than that', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 30);
    expect(await forgetTasks(query, ['t1', 't2', 't3'], 20)).toEqual(['BUG-1']);
    expect([...(await allTaskKeys(query)).keys()]).toEqual(['t2']);
  });

  it.each<[ids: string[], prefixes: string[]]>([
    [[], ['tsk_']],
    [['tsk_1', 'tsk_9_x', 'tsk_B'], ['tsk_']],
    [
      ['0f1e', 'bug_1', 'ini_1', 'ini_2', 'x_1', 'zz9_4'],
      ['bug_', 'ini_', 'zz9_'],
    ],
    [Array.from({ length: 20 }, (_, at) => `0f${at}`), []],
  ])('whose ids are %j have ids that begin with %j', async (ids, prefixes) => {
    const { query } = await openTestStore();
    for (const taskId of ids) await saveTask(query, { ...task(1), taskId, key: taskId }, 10);
    expect(await taskIdPrefixes(query)).toEqual(prefixes);
  });

  it('are none for no key and for a key that is no task', async () => {
    const { query } = await openTestStore();
    expect(await tasksByKeys(query, [])).toEqual(new Map());
    expect(await tasksByKeys(query, ['UTF-8'])).toEqual(new Map());
    expect(await allTaskKeys(query)).toEqual(new Map());
  });
});

describe('the first reads', () => {
  it('are both lists where a connection records; writes wait for the tasks alone', async () => {
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

  it('are not asked for twice, nor where they were done', async () => {
    const { query } = await openTestStore();
    await writeMeta(query, TASKS_READ, '1');
    await enqueueInitialReads(query, 50, true);
    await enqueueInitialReads(query, 90, true);
    expect(await findChange(query, 'read:tasks')).toBeUndefined();
    expect(await findChange(query, 'read:pull_requests')).toMatchObject({ due: 50 });
  });

  it('a list is wished for once, at the time of its lane and not earlier than it proves something', async () => {
    const { query } = await openTestStore();
    await enqueueTaskListRead(query, { now: 1_000, usedShare: 0, lane: 'triage', notBefore: 61_000 });
    expect(await findChange(query, 'read:tasks')).toMatchObject({ lane: 'triage', due: 3_400, not_before: 61_000 });
  });
});

describe('single facts', () => {
  it('are written over', async () => {
    const { query } = await openTestStore();
    expect(await readMeta(query, 'a')).toBeUndefined();
    await writeMeta(query, 'a', '1');
    await writeMeta(query, 'a', '');
    expect(await readMeta(query, 'a')).toBe('');
  });
});
