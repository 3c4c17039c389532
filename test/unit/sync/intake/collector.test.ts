import { describe, expect, test } from 'vitest';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/yield.ts';
import type { AppendedRow, NewDelivery } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { type CollectorDeps, createCollector, createGroupCommit } from '../../../../src/sync/intake/append.ts';
import { inboxOf, openTestStore } from '../../../support/intake.ts';
import { ON_POSTGRES } from '../../../support/store-place.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

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
  const groupCommit = createGroupCommit({ sql: store.query.whole, look: store.look, clock });
  return createCollector({ store, groupCommit, wakeSignal: createWakeSignal(), ...deps, clock });
}

const outcomesOf = (rows: readonly AppendedRow[]) => rows.map(({ appended }) => appended);

describe('collector', () => {
  test('whoever waits when the database closes hears of it, and nothing else does', async () => {
    const store = await openTestStore();
    const collector = collectorOver(store);
    // Heard from the start: over a network the database takes longer to close than they take to fail.
    const waiting = Promise.allSettled(['a', 'b', 'c'].map((key) => collector.append(delivery(key))));
    await store.close();
    // Another rejection, which nobody hears, would fail the test, as it ends the process.
    for (const each of await waiting) expect(each).toMatchObject({ status: 'rejected', reason: { name: 'SyncError' } });
  });

  test('what arrives together becomes durable in one commit, and is acknowledged only after it', async () => {
    const course: string[] = [];
    const store = await openTestStore({ steps: { reached: (kind, edge) => course.push(`${kind} ${edge}`) } });
    course.length = 0;
    const collector = collectorOver(store);
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
    await Promise.all(keys.map((key) => collector.append(delivery(key)).then(() => course.push('acknowledged'))));
    expect(course).toEqual(['commit before', 'commit after', ...keys.map(() => 'acknowledged')]);
    expect(await inboxOf(store)).toHaveLength(20);
  });

  test('what keeps arriving shares a commit, but the first does not wait for ever', async () => {
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

  test('tells a crowd from deliveries that come one by one, and that it has passed', async () => {
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

  test('bounds a commit by count and by bytes, and a single large delivery still goes through', async () => {
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

  test('rings for what is to be reconciled, and not for repeats', async () => {
    const store = await openTestStore();
    let rung = 0;
    const wakeSignal = { notify: () => void rung++, wait: async () => undefined };
    const collector = collectorOver(store, { wakeSignal });
    await collector.append(delivery('a'));
    await collector.append(delivery('a'));
    expect(rung).toBe(1);
    await quarantine(store, 'a');
    expect(await collector.append(delivery('a'))).toMatchObject({ appended: 'revived' });
    expect(rung).toBe(2);
  });

  test('a full inbox refuses, and takes deliveries again when it was worked off', async () => {
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

  test('counts the pending rows a few times, not once for each delivery', async () => {
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
