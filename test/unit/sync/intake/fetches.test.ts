import { describe, expect, onTestFinished, test } from 'vitest';
import type { Connection, Connector, Fetched } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import type { ItemReference } from '../../../../src/model/item.ts';
import { type Random, systemRandom } from '../../../../src/platform/lib/clock.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { requestFetch } from '../../../../src/store/deliveries/wanted-fetches.ts';
import { saveItem } from '../../../../src/store/items/items.ts';
import { readStatus } from '../../../../src/store/status/stored-status.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { createFetches } from '../../../../src/sync/intake/fetches.ts';
import { createPauses, recordRateLimits } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { itemRow, pull } from '../../../support/rows/items.ts';

const HOUR = 3_600_000;
/** Each pause has its full length. */
const WITHOUT_JITTER: Random = { ...systemRandom(), float: () => 1 };

type Fetch = Connection['fetch'];

interface Parts {
  readonly store?: Store;
  readonly clock?: ReturnType<typeof createTravellingClock>;
  readonly connector?: Partial<Connector<unknown>>;
}

const referenceTo = (key: string, locator: Record<string, string> = { number: key }): ItemReference => ({
  ...{ kind: 'work_item', key, locator },
});

const object = (body: string): Fetched => ({ event: 'object', body: Buffer.from(body) });
const OBJECT: Fetch = async ({ key }) => object(`object ${key}`);
const fail = (code: ConstructorParameters<typeof SyncError>[0], retryAfter?: number) =>
  new SyncError(code, 'no', { ...(retryAfter && { retryAfter }) });

/** Opens the fetches of connections by name, or of the connection `notes`. */
async function bench(given: Fetch | Readonly<Record<string, Fetch>>, parts: Parts = {}) {
  const { store = await openTestStore(), clock = createTravellingClock() } = parts;
  const warnings: LogFields[] = [];
  const requested: string[] = [];
  const { connector = {} } = parts;
  const connections = Object.entries(typeof given === 'function' ? { notes: given } : given).map(([name, fetch]) => {
    const record: Fetch = (reference, ...rest) => {
      requested.push(reference.key);
      return fetch(reference, ...rest);
    };
    return activeWith({ name, connector, connection: { fetch: record } });
  });
  const logger = { ...silentLogger, warn: (fields: LogFields) => void warnings.push(fields) };
  const context = workspaceContext({ store, clock, connections, random: WITHOUT_JITTER, logger });
  const fetches = createFetches(context);
  onTestFinished(() => fetches.stop());
  return {
    ...{ store, clock, fetches, warnings, requested },
    async request(key: string, connection = 'notes', reference = referenceTo(key)) {
      await requestFetch(store.query, { connection, reference, deliveryId: 7, now: clock.now() });
      context.fetches.notify();
    },
    /** Waits until the database work is done, while the virtual time stands still. */
    async untilIdle() {
      while (!fetches.idle()) await clock.advance(0);
    },
    rows: () => store.query.selectFrom('fetches').selectAll().execute(),
    bodies: async () => (await inboxOf(store)).map(({ body }) => body),
  };
}

test('appends the object as a delivery and deletes the request', async () => {
  const { store, clock, fetches, request, untilIdle, rows } = await bench(OBJECT);
  await request('a');
  expect(fetches.idle()).toBe(false);
  fetches.start();
  fetches.start();
  await untilIdle();
  await request('b');
  expect(fetches.idle()).toBe(false);
  await untilIdle();
  const row = { connection: 'notes', source: 'fetch', event: 'object', state: 'pending' };
  expect(await inboxOf(store)).toMatchObject(['object a', 'object b'].map((body) => ({ ...row, body })));
  expect((await inboxOf(store))[0]?.delivery_key).toMatch(/^fetch:[0-9a-f-]{36}$/);
  expect(await rows()).toEqual([]);
  await fetches.stop();
  await fetches.stop();
  expect(clock.pending).toBe(0);
});

test('appends the object and deletes the request in one transaction', async () => {
  const fetchOnce = async (given: Store) => {
    const { fetches, request, untilIdle } = await bench(OBJECT, { store: given });
    await request('a');
    return async () => {
      fetches.start();
      await untilIdle();
      await fetches.stop();
    };
  };
  expect(await remainsOf(fetchOnce)).toEqual([]);
});

test.each([
  ['needs', true, { commitsSha: 'a1' }],
  ['does not need', false, {}],
])('names the head whose commits are stored if the vendor %s it', async (_what, fetchesCommits, expected) => {
  const known: unknown[] = [];
  const fetch: Fetch = async (_reference, _signal, given) => {
    known.push(given);
    return object('a pull request');
  };
  const connector = { fetchesCommits: () => fetchesCommits };
  const { store, fetches, request, untilIdle } = await bench(fetch, { connector });
  const item = pull({ commitsSha: 'a1' });
  await saveItem(store.query, itemRow(item.key, { kind: item.kind, fields: JSON.stringify({ item, older: {} }) }), 1);
  await request(item.key, 'notes', { kind: item.kind, key: item.key, locator: {} });
  fetches.start();
  await untilIdle();
  expect(known).toEqual([expected]);
});

test('fetches an object again that was requested during its fetch', async () => {
  const gate = Promise.withResolvers<void>();
  const { clock, fetches, request, requested, untilIdle, rows, bodies } = await bench(async () => {
    const call = requested.length;
    await gate.promise;
    return object(`state ${call}`);
  });
  fetches.start();
  await request('a');
  await clock.until(() => requested.length === 1);
  await request('a');
  gate.resolve();
  await untilIdle();
  expect(await bodies()).toEqual(['state 1', 'state 2']);
  expect(await rows()).toEqual([]);
});

test('runs at most four fetches of a connection at a time, the oldest request first', async () => {
  let running = 0;
  let most = 0;
  const { clock, fetches, request, requested, untilIdle } = await bench(async ({ key }) => {
    most = Math.max(most, ++running);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    running--;
    return object(key);
  });
  const keys = Array.from({ length: 20 }, (_, index) => String(index).padStart(2, '0'));
  for (const key of keys) {
    await request(key);
    await clock.advance(1);
  }
  fetches.start();
  await untilIdle();
  expect(most).toBe(4);
  expect(requested).toEqual(keys);
});

test('records a failure and retries with growing pauses', async () => {
  const { clock, fetches, request, requested, untilIdle, rows, bodies } = await bench(async () => {
    if (requested.length <= 2) throw fail('answer_malformed');
    return object('at last');
  });
  await request('a');
  fetches.start();
  await untilIdle();
  expect(await rows()).toMatchObject([{ attempts: 1, error: 'answer_malformed: no' }]);
  await clock.advance(1_999);
  expect(requested).toHaveLength(1);
  await clock.advance(1);
  await untilIdle();
  expect(requested).toHaveLength(2);
  await clock.advance(4_000);
  await untilIdle();
  expect(await bodies()).toEqual(['at last']);
  await fetches.stop();
  expect(clock.pending).toBe(0);
});

test.each([
  ['forbidden', 5],
  ['unauthorized', 58],
] as const)('after %s, requests an object %i times in two days, and again after a restart', async (code, times) => {
  const fetch = () => Promise.reject(fail(code));
  const { store, clock, fetches, request, requested } = await bench(fetch);
  fetches.start();
  await request('a');
  for (let hour = 0; hour < 48; hour++) await clock.advance(HOUR);
  expect(requested).toHaveLength(times);
  const [activity] = (await readStatus(store.query, clock.now())).connections;
  const refused = { fetches: 0, refusedFetches: 1, fetchRefusal: `${code}: no` };
  expect(activity).toMatchObject(times === 5 ? refused : { fetches: 1, refusedFetches: 0 });
  expect(fetches.failureOf('notes')?.code).toBe(times === 5 ? undefined : code);
  await request('a');
  await clock.advance(HOUR);
  expect(requested).toHaveLength(times + 1);
  await fetches.stop();
  const again = await bench(fetch, { store, clock });
  again.fetches.start();
  await again.untilIdle();
  expect(again.requested).toHaveLength(1);
  expect(again.fetches.failureOf('notes')?.code).toBe(times === 5 ? undefined : code);
  await again.fetches.stop();
});

test.each([
  [0, 1],
  [1, 0],
] as const)('deletes the request of an item that is not found and is gone: %i', async (gone, left) => {
  const { store, fetches, request, untilIdle, rows } = await bench(() => Promise.reject(fail('not_found')));
  await saveItem(store.query, itemRow('a', { gone }), 1);
  await request('a');
  fetches.start();
  await untilIdle();
  expect(await rows()).toHaveLength(left);
});

test('pauses a limited connection and continues with the others', async () => {
  let limited = true;
  const slow = async () => {
    if (limited) throw fail('rate_limited', 120_000);
    return object('slow');
  };
  const { clock, fetches, request, untilIdle, bodies } = await bench({ slow, quick: async () => object('quick') });
  fetches.start();
  await request('a', 'slow');
  await untilIdle();
  limited = false;
  await request('b', 'slow');
  await request('c', 'quick');
  await untilIdle();
  await clock.advance(119_000);
  expect(await bodies()).toEqual(['quick']);
  await clock.advance(1_000);
  await untilIdle();
  expect(await bodies()).toEqual(['quick', 'slow', 'slow']);
});

test('drops the requests of a connection that is no longer configured, with a warning', async () => {
  const { fetches, request, untilIdle, rows, warnings } = await bench(OBJECT);
  await request('a', 'gone');
  fetches.start();
  await untilIdle();
  expect(await rows()).toEqual([]);
  expect(warnings).toEqual([{ connection: 'gone' }]);
});

test('aborts the running fetch on stop, waits for it and keeps its request', async () => {
  const { clock, fetches, request, rows } = await bench(
    (_reference, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new SyncError('aborted', 'stopping')));
      }),
  );
  await request('a');
  fetches.start();
  await clock.advance(0);
  await fetches.stop();
  expect(await rows()).toMatchObject([{ attempts: 0, error: null }]);
  expect(clock.pending).toBe(0);
});

describe('pauses of a connection', () => {
  /** A limit that worksync applied; with a status, one that the vendor reported. */
  const limit = (retryAfter?: number, status?: number) =>
    new SyncError('rate_limited', 'slow', {
      ...(retryAfter !== undefined && { retryAfter }),
      ...(status !== undefined && { status }),
    });
  const REPORTED = limit(9_000, 429);
  const DOWN = new SyncError('server_failed', 'down', { retryAfter: 5_000, status: 503 });

  test.each<[string, SyncError, number]>([
    ['as long as the vendor requests', limit(90_000), 90_000],
    ['for a minute if the vendor names no time', limit(), 60_000],
    ['for an hour at most', limit(1e12), 3_600_000],
    ['for a second at least', limit(-5), 1_000],
    ['not at all for other errors', DOWN, 0],
  ])('pauses %s after a rate limit', (_name, error, expected) => {
    const pauses = createPauses(createTravellingClock());
    expect(pauses.recordFailure('notes', error, 'poll')).toBe(expected);
    expect([pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')]).toEqual([expected, 0]);
  });

  test('ends a pause by itself, and keeps a longer pause when a shorter one follows', async () => {
    const clock = createTravellingClock();
    const pauses = createPauses(clock);
    const left = (connection = 'notes') => pauses.left(connection, 'poll');
    pauses.pause('notes', 10_000);
    pauses.pause('notes', 1_000);
    await clock.advance(4_000);
    expect([left(), left('other')]).toEqual([6_000, 0]);
    await clock.advance(6_000);
    expect(left()).toBe(0);
  });

  test('applies a limit of the vendor to all uses, and a limit of worksync to less urgent ones', () => {
    const pauses = createPauses(createTravellingClock());
    const left = () => (['fetch', 'poll', 'background'] as const).map((use) => pauses.left('notes', use));
    pauses.recordFailure('notes', limit(3_000), 'background');
    expect(left()).toEqual([0, 0, 3_000]);
    pauses.recordFailure('notes', limit(2_000), 'poll');
    expect(left()).toEqual([0, 2_000, 3_000]);
    pauses.recordFailure('notes', REPORTED, 'background');
    expect(left()).toEqual([9_000, 9_000, 9_000]);
  });

  test.each<[string, SyncError, number]>([
    ['limit that the vendor reported', REPORTED, 9_000],
    ['failure of another kind', DOWN, 0],
  ])('records, after a %s, its pause', async (_name, error, expected) => {
    const pauses = createPauses(createTravellingClock());
    const identify = () => Promise.reject(error);
    const connection = recordRateLimits({ identify } as unknown as Connection, 'notes', pauses);
    await expect(connection.identify?.('acme', new AbortController().signal)).rejects.toBe(error);
    expect([pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')]).toEqual([expected, expected]);
  });
});

test.each([
  ['unreachable', 40],
  ['answer_malformed', 200],
] as const)('after %s of each of 40 objects, sends at most %i requests in five minutes', async (code, most) => {
  const { clock, fetches, request, requested } = await bench(() => Promise.reject(fail(code)));
  for (let index = 0; index < 40; index++) await request(`item-${index}`);
  fetches.start();
  await clock.advance(60_000);
  const before = requested.length;
  await clock.advance(300_000);
  expect(requested.length - before).toBeLessThanOrEqual(most);
  expect(requested.length - before).toBeGreaterThan(most === 40 ? 0 : 40);
});
