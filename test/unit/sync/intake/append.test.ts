import { describe, expect, test } from 'vitest';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/yield.ts';
import type { AppendedRow, NewDelivery } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { type CollectorDeps, createCollector, createGroupCommit } from '../../../../src/sync/intake/append.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { ON_POSTGRES } from '../../../support/postgres/store-place.ts';

function delivery(key: string, body = 'body', connection = 'notes'): NewDelivery {
  return { connection, key, source: 'webhook', event: 'note', body: Buffer.from(body) };
}

async function quarantine(store: Store, key: string): Promise<void> {
  await store.query
    .updateTable('inbox')
    .set({ state: 'quarantined', reason: 'unreadable', attempts: 5, settled_at: 7 })
    .where('delivery_key', '=', key)
    .execute();
}

function collectorOver(store: Store, deps: Partial<CollectorDeps> = {}) {
  const clock = deps.clock ?? createTravellingClock();
  const groupCommit = createGroupCommit({ sql: store.query.whole, checkFileReplaced: store.checkFileReplaced, clock });
  return createCollector({ store, groupCommit, wakeSignal: createWakeSignal(), ...deps, clock });
}

function commitsOver(store: Store, look: Store['checkFileReplaced'] = store.checkFileReplaced) {
  const clock = createTravellingClock();
  const commits = createGroupCommit({ sql: store.query.whole, checkFileReplaced: look, clock });
  return { clock, commits, append: (key: string) => commits.append(store.query.workspace, delivery(key)) };
}

const outcomesOf = (rows: readonly AppendedRow[]) => rows.map(({ appended }) => appended);

describe('collector', () => {
  test('rejects the waiting appends if the database closes, without an unhandled rejection', async () => {
    const store = await openTestStore();
    const collector = collectorOver(store);
    // Awaited from the start, because over a network the appends fail before the database is closed.
    const waiting = Promise.allSettled(['a', 'b', 'c'].map((key) => collector.append(delivery(key))));
    await store.close();
    // Another, unhandled rejection would fail the test, because it ends the process.
    for (const each of await waiting) expect(each).toMatchObject({ status: 'rejected', reason: { name: 'SyncError' } });
  });

  test('commits deliveries that arrive together in one commit, and acknowledges them only after it', async () => {
    const steps: string[] = [];
    const store = await openTestStore({ steps: { reached: (kind, edge) => steps.push(`${kind} ${edge}`) } });
    steps.length = 0;
    const collector = collectorOver(store);
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
    await Promise.all(keys.map((key) => collector.append(delivery(key)).then(() => steps.push('acknowledged'))));
    expect(steps).toEqual(['commit before', 'commit after', ...keys.map(() => 'acknowledged')]);
    expect(await inboxOf(store)).toHaveLength(20);
  });

  test('shares a commit between deliveries that keep arriving, and limits the wait of the first', async () => {
    let inserts = 0;
    const store = await openTestStore({
      onStatement: (statement) => {
        if (statement.startsWith('insert into "inbox"')) inserts++;
      },
    });
    const collector = collectorOver(store);
    await collector.append(delivery('alone'));
    expect(inserts).toBe(1);
    const arriveInTurns = async (count: number, name: string) => {
      const arrived: Promise<unknown>[] = [];
      for (let index = 0; index < count; index++) {
        arrived.push(collector.append(delivery(`${name}-${index}`)));
        await yieldToEventLoop();
      }
      await Promise.all(arrived);
    };
    await arriveInTurns(5, 'few');
    expect(inserts).toBe(2);
    await arriveInTurns(50, 'many');
    // Over a socket a commit takes more turns, in which more arrive.
    expect(inserts).toBeGreaterThan(ON_POSTGRES ? 3 : 5);
    expect(inserts).toBeLessThan(20);
  });

  test('is crowded after deliveries that arrive together, for a quarter of a second', async () => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const collector = collectorOver(store, { clock });
    await collector.append(delivery('alone'));
    expect(collector.isCrowded()).toBe(false);
    await Promise.all([collector.append(delivery('a')), collector.append(delivery('b'))]);
    expect(collector.isCrowded()).toBe(true);
    await clock.advance(250);
    expect(collector.isCrowded()).toBe(false);
  });

  test('limits a commit by count and by bytes, but accepts a single larger delivery', async () => {
    let inserts = 0;
    const store = await openTestStore({
      onStatement: (statement) => {
        if (statement.startsWith('insert into "inbox"')) inserts++;
      },
    });
    const collector = collectorOver(store);
    await Promise.all(Array.from({ length: 130 }, (_, index) => collector.append(delivery(`small-${index}`))));
    expect(inserts).toBe(3);
    const large = 'x'.repeat(3 * 1024 * 1024);
    const outcomes = outcomesOf(
      await Promise.all(['one', 'two'].map((key) => collector.append(delivery(key, large + large)))),
    );
    expect(outcomes).toEqual(['new', 'new']);
    expect(inserts).toBe(5);
  });

  test('notifies after new and revived deliveries, and not after repeats', async () => {
    const store = await openTestStore();
    let notified = 0;
    const wakeSignal = { notify: () => void notified++, wait: async () => undefined };
    const collector = collectorOver(store, { wakeSignal });
    await collector.append(delivery('a'));
    await collector.append(delivery('a'));
    expect(notified).toBe(1);
    await quarantine(store, 'a');
    expect(await collector.append(delivery('a'))).toMatchObject({ appended: 'revived' });
    expect(notified).toBe(2);
  });

  test('rejects deliveries while the inbox is full, and accepts them again after rows were settled', async () => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const collector = collectorOver(store, { clock, mostPending: 3 });
    for (const key of ['a', 'b', 'c']) await collector.append(delivery(key));
    await clock.advance(1_000);
    await expect(collector.append(delivery('d'))).rejects.toMatchObject({ code: 'inbox_full', retryAfter: 30_000 });
    await store.query.updateTable('inbox').set({ state: 'applied' }).where('id', '<', 3).execute();
    await clock.advance(1_000);
    expect(await collector.append(delivery('d'))).toMatchObject({ appended: 'new' });
  });

  test('counts the pending rows once for 50 deliveries', async () => {
    let counts = 0;
    const store = await openTestStore({
      onStatement: (statement) => {
        if (statement.includes('count(*) as "count" from (select "id" from "inbox"')) counts++;
      },
    });
    const collector = collectorOver(store);
    for (let index = 0; index < 50; index++) await collector.append(delivery(`key-${index}`));
    expect(counts).toBe(1);
  });
});

describe('group commit', () => {
  test('commits a single delivery without a wait for others', async () => {
    let statements = 0;
    const store = await openTestStore({
      onStatement: (statement) => void (statements += statement.includes('"inbox"') ? 1 : 0),
    });
    const { append } = commitsOver(store);
    await append('a');
    statements = 0;
    const stored = append('b');
    // One turn in which another delivery might arrive, and some to start the statement.
    for (let turn = 0; turn < 4; turn++) await yieldToEventLoop();
    expect(statements).toBeGreaterThan(0);
    await stored;
  });

  test.each([
    [0, 1],
    [1, 2],
  ])('commits two deliveries that exceed the limit of a commit by %d bytes in %d commits', async (more, expected) => {
    const HALF = 2 * 1024 * 1024;
    let stored = 0;
    const store = await openTestStore({
      onStatement: (statement) => void (stored += statement.startsWith('insert into "inbox"') ? 1 : 0),
    });
    const { commits } = commitsOver(store);
    const append = (key: string, bytes: number) =>
      commits.append(store.query.workspace, { ...delivery(key), body: Buffer.alloc(bytes) });
    await Promise.all([append('a', HALF), append('b', HALF + more)]);
    expect(stored).toBe(expected);
  });

  test('rejects the append and stores nothing, whichever statement fails', async () => {
    const wrong = await wrongWhereStatementsFail(async (store) => {
      const { append } = commitsOver(store);
      return () => append('a');
    });
    expect(wrong).toEqual([]);
  });

  test('rejects all appends of a failed commit, and continues with the next', async () => {
    let fails = true;
    const store = await openTestStore({
      onStatement(statement) {
        if (fails && statement.startsWith('insert into "inbox"')) throw new Error('the disk is full');
      },
    });
    const { append } = commitsOver(store);
    const ended = await Promise.allSettled([append('a'), append('b')]);
    expect(ended.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(ended).toMatchObject([{ reason: { name: 'SyncError' } }, { reason: { name: 'SyncError' } }]);
    fails = false;
    expect(await append('a')).toMatchObject({ appended: 'new' });
    expect(await inboxOf(store)).toHaveLength(1);
  });

  test('rejects an append into a database file that was deleted', async () => {
    const store = await openTestStore();
    const fault = Object.assign(new Error('the file is gone'), { code: 'database_failed' });
    const { append } = commitsOver(store, () => fault as unknown as ReturnType<Store['checkFileReplaced']>);
    await expect(append('a')).rejects.toMatchObject({ code: 'database_failed' });
  });

  test('is crowded until a quarter of a second after the last shared commit', async () => {
    const store = await openTestStore();
    const { clock, commits, append } = commitsOver(store);
    expect(commits.isCrowded()).toBe(false);
    await Promise.all([append('a'), append('b')]);
    await clock.advance(249);
    expect(commits.isCrowded()).toBe(true);
    // A single delivery neither begins a crowd nor ends one.
    await append('c');
    expect(commits.isCrowded()).toBe(true);
    await clock.advance(1);
    expect(commits.isCrowded()).toBe(false);
  });
});
