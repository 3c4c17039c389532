import { expect, test } from 'vitest';
import type { Fetched } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { ItemReference } from '../../../../src/model/item.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { type Random, systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { readStatus } from '../../../../src/store/stored-status.ts';
import { requestFetch } from '../../../../src/store/wanted-fetches.ts';
import type { ActiveConnection } from '../../../../src/sync/intake/active-connection.ts';
import { createFetches, type Fetches } from '../../../../src/sync/intake/fetches.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';

function reference(key: string, locator: Record<string, string> = { number: key }): ItemReference {
  return { kind: 'work_item', key, locator };
}

interface Bench {
  readonly store: Store;
  readonly clock: TravellingClock;
  readonly fetches: Fetches;
  readonly warnings: LogFields[];
  request(key: string, connection?: string): Promise<void>;
}

interface BenchOptions {
  readonly random?: Random;
  /** Returns the store that the fetches use. */
  readonly storeFor?: (store: Store) => Store;
}

async function bench(connections: readonly ActiveConnection[], options: BenchOptions = {}): Promise<Bench> {
  const { random = systemRandom(), storeFor = (given) => given } = options;
  const store = await openTestStore();
  const clock = createTravellingClock();
  const warnings: LogFields[] = [];
  const logger = { ...silentLogger, warn: (fields: LogFields) => void warnings.push(fields) };
  const pauses = createPauses(clock);
  const fetches = createFetches({
    store: storeFor(store),
    connections,
    pauses,
    inbox: createWakeSignal(),
    clock,
    random,
    logger,
  });
  return {
    store,
    clock,
    fetches,
    warnings,
    async request(key, connection = 'notes') {
      await requestFetch(store.query, { connection, reference: reference(key), deliveryId: 7, now: clock.now() });
      fetches.wakeSignal.notify();
    },
  };
}

const rows = (store: Store) => store.query.selectFrom('fetches').selectAll().execute();

/** Waits until the database work is done, while the virtual time stands still. */
async function untilIdle({ fetches, clock }: Bench): Promise<void> {
  while (!fetches.idle()) await clock.advance(0);
}

test('keeps the earliest time and the backoff when a fetch is requested again', async () => {
  const store = await openTestStore();
  const request = (now: number, locator: Record<string, string>) =>
    requestFetch(store.query, { connection: 'notes', reference: reference('a', locator), deliveryId: now, now });
  await request(50, { x: '1', y: '2' });
  await store.query.updateTable('fetches').set({ attempts: 3, not_before: 900 }).execute();
  await request(60, { y: '2', x: '1' });
  await request(40, { x: '1', y: '2' });
  expect(await rows(store)).toMatchObject([{ since: 40, asks: 3, attempts: 3, not_before: 900, delivery_id: 50 }]);
});

test('appends the object as a delivery and deletes the request', async () => {
  const active = activeWith({
    connection: { fetch: async ({ key }) => ({ event: 'object', body: Buffer.from(`object ${key}`) }) },
  });
  const all = await bench([active]);
  await all.request('a');
  expect(all.fetches.idle()).toBe(false);
  all.fetches.start();
  all.fetches.start();
  await untilIdle(all);
  await all.request('b');
  expect(all.fetches.idle()).toBe(false);
  await untilIdle(all);
  expect(await inboxOf(all.store)).toMatchObject([
    { connection: 'notes', source: 'fetch', event: 'object', body: 'object a', state: 'pending' },
    { source: 'fetch', body: 'object b' },
  ]);
  expect((await inboxOf(all.store))[0]?.delivery_key).toMatch(/^fetch:[0-9a-f-]{36}$/);
  expect(await rows(all.store)).toEqual([]);
  await all.fetches.stop();
  await all.fetches.stop();
  expect(all.clock.pending).toBe(0);
});

/** Requests one object, and runs fetches until they are idle. */
const fetchOnce = (fetch: () => Promise<Fetched>) => async (store: Store) => {
  const clock = createTravellingClock();
  const request = { connection: 'notes', reference: reference('a'), deliveryId: 7, now: clock.now() };
  await requestFetch(store.query, request);
  const parts = { clock, random: systemRandom(), logger: silentLogger, pauses: createPauses(clock) };
  const connections = [activeWith({ connection: { fetch } })];
  const fetches = createFetches({ store, connections, inbox: createWakeSignal(), ...parts });
  return async () => {
    fetches.start();
    while (!fetches.idle()) await clock.advance(0);
    await fetches.stop();
  };
};

const OBJECT = async () => ({ event: 'object', body: Buffer.from('object a') });

test('appends the object and deletes the request in one transaction', async () => {
  expect(await remainsOf(fetchOnce(OBJECT))).toEqual([]);
});

test('completes and leaves no unhandled rejection, whichever statement fails', async () => {
  for (const fetch of [OBJECT, () => Promise.reject(new SyncError('not_found', 'gone'))]) {
    expect(await wrongWhereStatementsFail(fetchOnce(fetch), { inParts: true, isQuiet: true })).toEqual([]);
  }
});

test('fetches an object again that was requested during its fetch', async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let calls = 0;
  const active = activeWith({
    connection: {
      async fetch() {
        const call = calls++;
        await gates[call]?.promise;
        return { event: 'object', body: Buffer.from(`state ${call}`) };
      },
    },
  });
  const all = await bench([active]);
  all.fetches.start();
  await all.request('a');
  await all.clock.until(() => calls === 1);
  await all.request('a');
  gates[0]?.resolve();
  gates[1]?.resolve();
  await untilIdle(all);
  expect((await inboxOf(all.store)).map((row) => row.body)).toEqual(['state 0', 'state 1']);
  expect(await rows(all.store)).toEqual([]);
  await all.fetches.stop();
});

test('runs at most four fetches of a connection at a time, the oldest request first', async () => {
  let running = 0;
  let most = 0;
  const order: string[] = [];
  const active = activeWith({
    connection: {
      async fetch({ key }) {
        most = Math.max(most, ++running);
        order.push(key);
        for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
        running--;
        return { event: 'object', body: Buffer.from(key) };
      },
    },
  });
  const all = await bench([active]);
  const keys = Array.from({ length: 20 }, (_, index) => String(index).padStart(2, '0'));
  for (const key of keys) {
    await all.request(key);
    await all.clock.advance(1);
  }
  all.fetches.start();
  await untilIdle(all);
  expect(most).toBe(4);
  expect(order).toEqual(keys);
  await all.fetches.stop();
});

test('records a failure and retries with growing pauses', async () => {
  let calls = 0;
  const active = activeWith({
    connection: {
      async fetch() {
        calls++;
        if (calls <= 2) throw new SyncError('answer_malformed', 'not JSON');
        return { event: 'object', body: Buffer.from('at last') };
      },
    },
  });
  const all = await bench([active], { random: { ...systemRandom(), float: () => 1 } });
  await all.request('a');
  all.fetches.start();
  await untilIdle(all);
  expect(await rows(all.store)).toMatchObject([{ attempts: 1, error: 'answer_malformed: not JSON' }]);
  await all.clock.advance(1_999);
  expect(calls).toBe(1);
  await all.clock.advance(1);
  await untilIdle(all);
  expect(calls).toBe(2);
  await all.clock.advance(4_000);
  await untilIdle(all);
  expect((await inboxOf(all.store)).map((row) => row.body)).toEqual(['at last']);
  await all.fetches.stop();
  expect(all.clock.pending).toBe(0);
});

test('gives up an object after five refusals, until a new delivery or a restart', async () => {
  let requested = 0;
  const connection = {
    fetch: async () => {
      requested++;
      throw new SyncError('not_found', 'GET /projects/7: 404');
    },
  };
  const site = await bench([activeWith({ connection })]);
  site.fetches.start();
  await site.request('a');
  for (let hour = 0; hour < 48; hour++) await site.clock.advance(3_600_000);
  expect(requested).toBe(5);
  const [activity] = (await readStatus(site.store.query, site.clock.now())).connections;
  expect(activity).toMatchObject({
    connection: 'notes',
    fetches: 0,
    refusedFetches: 1,
    fetchRefusal: 'not_found: GET /projects/7: 404',
  });
  await site.request('a');
  await site.clock.advance(3_600_000);
  expect(requested).toBe(6);
  await site.fetches.stop();
  const again = createFetches({
    store: site.store,
    connections: [activeWith({ connection })],
    pauses: createPauses(site.clock),
    inbox: createWakeSignal(),
    clock: site.clock,
    random: systemRandom(),
    logger: silentLogger,
  });
  again.start();
  await site.clock.advance(3_600_000);
  expect(requested).toBe(7);
  await again.stop();
});

test('pauses a limited connection and continues with the others', async () => {
  let limited = true;
  const slow = activeWith({
    name: 'slow',
    connection: {
      async fetch() {
        if (limited) throw new SyncError('rate_limited', 'too many', { retryAfter: 120_000 });
        return { event: 'object', body: Buffer.from('slow') };
      },
    },
  });
  const quick = activeWith({
    name: 'quick',
    connection: { fetch: async () => ({ event: 'object', body: Buffer.from('quick') }) },
  });
  const all = await bench([slow, quick]);
  all.fetches.start();
  await all.request('a', 'slow');
  await untilIdle(all);
  limited = false;
  await all.request('b', 'slow');
  await all.request('c', 'quick');
  await untilIdle(all);
  await all.clock.advance(119_000);
  expect((await inboxOf(all.store)).map((row) => row.body)).toEqual(['quick']);
  await all.clock.advance(1_000);
  await untilIdle(all);
  expect((await inboxOf(all.store)).map((row) => row.body)).toEqual(['quick', 'slow', 'slow']);
  await all.fetches.stop();
});

test('backs off from a vendor that does not answer, however many objects wait', async () => {
  let calls = 0;
  const active = activeWith({
    connection: {
      async fetch() {
        calls++;
        throw new SyncError('unreachable', 'connection refused');
      },
    },
  });
  const all = await bench([active], { random: { ...systemRandom(), float: () => 1 } });
  for (let index = 0; index < 200; index++) await all.request(`item-${index}`);
  all.fetches.start();
  await all.clock.advance(60_000);
  const before = calls;
  await all.clock.advance(300_000);
  expect(calls - before).toBeLessThanOrEqual(10 * 4);
  expect(calls - before).toBeGreaterThan(0);
  await all.fetches.stop();
});

test('does not repeat fetches in a loop while nothing can be stored', async () => {
  let requested = 0;
  const fetch = async () => {
    requested++;
    return { event: 'object', body: Buffer.from('an object') };
  };
  let isFull = true;
  const refuse = () => {
    throw new SyncError('disk_full', 'no space');
  };
  const whole = (store: Store): Store => ({
    ...store,
    commit: (work) => (isFull ? refuse() : store.commit(work)),
    query: new Proxy(store.query, {
      get: (query, name) => (isFull && name === 'updateTable' ? refuse : Reflect.get(query, name)),
    }),
  });
  const all = await bench([activeWith({ connection: { fetch } })], { storeFor: whole });
  await all.request('a');
  all.fetches.start();
  for (let second = 0; second < 60; second++) {
    await untilIdle(all);
    await all.clock.advance(1_000);
  }
  expect(requested).toBeGreaterThan(3);
  expect(requested).toBeLessThan(15);
  isFull = false;
  await all.clock.advance(10_000);
  await untilIdle(all);
  expect(await inboxOf(all.store)).toHaveLength(1);
  await all.fetches.stop();
});

test('drops the requests of a connection that is no longer configured, with a warning', async () => {
  const all = await bench([activeWith()]);
  await all.request('a', 'gone');
  all.fetches.start();
  await untilIdle(all);
  expect(await rows(all.store)).toEqual([]);
  expect(all.warnings).toEqual([{ connection: 'gone' }]);
  await all.fetches.stop();
});

test('aborts the running fetch on stop, waits for it and keeps its request', async () => {
  const active = activeWith({
    connection: {
      fetch: (_reference, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new SyncError('aborted', 'stopping')));
        }),
    },
  });
  const all = await bench([active]);
  await all.request('a');
  all.fetches.start();
  await all.clock.advance(0);
  await all.fetches.stop();
  expect(await rows(all.store)).toMatchObject([{ attempts: 0, error: null }]);
  expect(all.clock.pending).toBe(0);
});
