import { expect, test } from 'vitest';
import { postgresFaultOf } from '../../../../src/platform/database/postgres-fault.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/yield.ts';
import type { Store } from '../../../../src/store/database.ts';
import type { Sql } from '../../../../src/store/workspace-scope.ts';
import { type CollectorDeps, createCollector, createGroupCommit } from '../../../../src/sync/intake/append.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { ON_POSTGRES } from '../../../support/postgres/store-place.ts';

type StoreOptions = NonNullable<Parameters<typeof openTestStore>[0]>;

interface Parts extends StoreOptions, Partial<Pick<CollectorDeps, 'wakeSignal' | 'mostPending'>> {
  readonly checkFileReplaced?: Store['checkFileReplaced'];
  /** Errors of the first statements. */
  readonly failures?: unknown[];
}

function failingAtFirst(sql: Sql, failures: unknown[]): Sql {
  const executeQuery: Sql['executeQuery'] = (...args) =>
    failures.length > 0 ? Promise.reject(failures.shift() as Error) : sql.executeQuery(...args);
  return new Proxy(sql, {
    get(target, name) {
      if (name === 'executeQuery') return executeQuery;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Opens a store and the collector of its inbox, and counts the statements that store deliveries. */
async function bench({ checkFileReplaced, onStatement, steps, failures = [], ...deps }: Parts = {}) {
  let inserts = 0;
  const store = await openTestStore({
    ...(steps && { steps }),
    onStatement(statement, ...rest) {
      if (statement.startsWith('insert into "inbox"')) inserts++;
      onStatement?.(statement, ...rest);
    },
  });
  const clock = createTravellingClock();
  const look = checkFileReplaced ?? store.checkFileReplaced;
  const groupCommit = createGroupCommit({
    sql: failingAtFirst(store.query.whole, failures),
    checkFileReplaced: look,
    clock,
  });
  const collector = createCollector({ store, groupCommit, wakeSignal: createWakeSignal(), ...deps, clock });
  const append = async (key: string, body = Buffer.from('body')) => {
    const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body };
    return (await collector.append(delivery)).appended;
  };
  return { store, clock, append, isCrowded: collector.isCrowded, inserts: () => inserts };
}

const keys = (count: number) => Array.from({ length: count }, (_, index) => `key-${index}`);

test('rejects the waiting appends if the database closes, without an unhandled rejection', async () => {
  const { store, append } = await bench();
  // Awaited from the start, because over a network the appends fail before the database is closed.
  const waiting = Promise.allSettled(['a', 'b', 'c'].map((key) => append(key)));
  await store.close();
  // Another, unhandled rejection would fail the test, because it ends the process.
  for (const each of await waiting) expect(each).toMatchObject({ status: 'rejected', reason: { name: 'SyncError' } });
});

test('stores deliveries although the server ended their statement because of a deadlock', async () => {
  const deadlock = postgresFaultOf(Object.assign(new Error('deadlock detected'), { code: '40P01' }), 'server');
  const { store, append } = await bench({ failures: [deadlock] });
  expect(await Promise.all(['a', 'b'].map((key) => append(key)))).toEqual(['new', 'new']);
  expect(await inboxOf(store)).toHaveLength(2);
});

test('commits deliveries that arrive together in one commit, and acknowledges them only after it', async () => {
  const steps: string[] = [];
  const { store, append } = await bench({ steps: { reached: (kind, edge) => steps.push(`${kind} ${edge}`) } });
  steps.length = 0;
  await Promise.all(keys(20).map((key) => append(key).then(() => steps.push('acknowledged'))));
  expect(steps).toEqual(['commit before', 'commit after', ...keys(20).map(() => 'acknowledged')]);
  expect(await inboxOf(store)).toHaveLength(20);
});

test('shares a commit between deliveries that keep arriving, and limits the wait of the first', async () => {
  const { append, inserts } = await bench();
  await append('alone');
  expect(inserts()).toBe(1);
  const arriveInTurns = async (count: number, name: string) => {
    const arrived: Promise<unknown>[] = [];
    for (let index = 0; index < count; index++) {
      arrived.push(append(`${name}-${index}`));
      await yieldToEventLoop();
    }
    await Promise.all(arrived);
  };
  await arriveInTurns(5, 'few');
  expect(inserts()).toBe(2);
  await arriveInTurns(50, 'many');
  // Over a socket a commit takes more turns, in which more arrive.
  expect(inserts()).toBeGreaterThan(ON_POSTGRES ? 3 : 5);
  expect(inserts()).toBeLessThan(20);
});

test('commits a single delivery without a wait for others', async () => {
  let statements = 0;
  const { append } = await bench({ onStatement: (text) => void (statements += text.includes('"inbox"') ? 1 : 0) });
  await append('a');
  statements = 0;
  const stored = append('b');
  // One turn in which another delivery might arrive, and some to start the statement.
  for (let turn = 0; turn < 4; turn++) await yieldToEventLoop();
  expect(statements).toBeGreaterThan(0);
  await stored;
});

const LIMIT = 4 * 1024 * 1024;

test.each<[what: string, sizes: number[], commits: number]>([
  ['64 deliveries', Array(64).fill(1), 1],
  ['130 deliveries', Array(130).fill(1), 3],
  ['two that fill the limit in bytes', [LIMIT / 2, LIMIT / 2], 1],
  ['two that exceed it by a byte', [LIMIT / 2, LIMIT / 2 + 1], 2],
  ['two that are each larger', [LIMIT + 1, LIMIT + 1], 2],
])('commits %s together, as far as the limits allow', async (_what, sizes, commits) => {
  const { append, inserts } = await bench();
  const outcomes = await Promise.all(sizes.map((bytes, index) => append(`${index}`, Buffer.alloc(bytes))));
  expect([new Set(outcomes), inserts()]).toEqual([new Set(['new']), commits]);
});

test('rejects all appends of a failed commit, and continues with the next', async () => {
  let fails = true;
  const { store, append } = await bench({
    onStatement(statement) {
      if (fails && statement.startsWith('insert into "inbox"')) throw new Error('the disk is full');
    },
  });
  const failed = { status: 'rejected', reason: { name: 'SyncError' } };
  expect(await Promise.allSettled([append('a'), append('b')])).toMatchObject([failed, failed]);
  fails = false;
  expect(await append('a')).toBe('new');
  expect(await inboxOf(store)).toHaveLength(1);
});

test('rejects an append into a database file that was deleted', async () => {
  const fault = Object.assign(new Error('the file is gone'), { code: 'database_failed' });
  const { append } = await bench({
    checkFileReplaced: () => fault as unknown as ReturnType<Store['checkFileReplaced']>,
  });
  await expect(append('a')).rejects.toMatchObject({ code: 'database_failed' });
});

test('is crowded until a quarter of a second after the last shared commit', async () => {
  const { clock, append, isCrowded } = await bench();
  await append('alone');
  expect(isCrowded()).toBe(false);
  await Promise.all([append('a'), append('b')]);
  await clock.advance(249);
  expect(isCrowded()).toBe(true);
  // A single delivery neither begins a crowd nor ends one.
  await append('c');
  expect(isCrowded()).toBe(true);
  await clock.advance(1);
  expect(isCrowded()).toBe(false);
});

test('notifies after new and revived deliveries, and not after repeats', async () => {
  let notified = 0;
  const wakeSignal = { notify: () => void notified++, wait: async () => undefined };
  const { store, append } = await bench({ wakeSignal });
  expect([await append('a'), await append('a'), notified]).toEqual(['new', 'repeated', 1]);
  const quarantined = { state: 'quarantined', reason: 'unreadable', attempts: 5, settled_at: 7 } as const;
  await store.query.updateTable('inbox').set(quarantined).where('delivery_key', '=', 'a').execute();
  expect([await append('a'), notified]).toEqual(['revived', 2]);
});

test('rejects deliveries while the inbox is full, and accepts them again after rows were settled', async () => {
  const { store, clock, append } = await bench({ mostPending: 3 });
  for (const key of ['a', 'b', 'c']) await append(key);
  await clock.advance(1_000);
  const full = { code: 'inbox_full', retryAfter: 30_000 };
  await expect(append('d')).rejects.toMatchObject(full);
  await store.query.updateTable('inbox').set({ state: 'applied' }).where('id', '<', 3).execute();
  // The rows are counted at most once a second.
  await clock.advance(999);
  await expect(append('d')).rejects.toMatchObject(full);
  await clock.advance(1);
  expect(await append('d')).toBe('new');
});

test('counts the pending rows once for 50 deliveries', async () => {
  let counts = 0;
  const { append } = await bench({
    onStatement: (text) => void (counts += text.includes('count(*) as "count" from (select "id" from "inbox"') ? 1 : 0),
  });
  for (const key of keys(50)) await append(key);
  expect(counts).toBe(1);
});
