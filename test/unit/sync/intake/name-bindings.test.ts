import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Store } from '../../../../src/store/database.ts';

import { loadNames, storedUnits } from '../../../../src/store/scope-names.ts';
import { openNameBindings } from '../../../../src/sync/intake/name-bindings.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const ENTRIES = ['acme/app', 'acme/web'];
const signal = new AbortController().signal;

/** Opens bindings of which `acme/app` leads to 7 first, and to 8 later. */
async function reboundNames(store: Store) {
  const clock = createTravellingClock();
  const gauges: number[] = [];
  const meter = { ...silentMeter, gauge: (_name: string, value: number) => void gauges.push(value) };
  const deps = { store, clock, logger: { ...silentLogger, child: () => silentLogger }, meter };
  const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  let id = '7';
  const vendor = { identify: async (name: string) => ({ id: name === 'acme/app' ? id : '1', name }) };
  await bindings.refresh(vendor, signal);
  id = '8';
  await clock.advance(25 * 60 * 60_000);
  await bindings.refresh(vendor, signal);
  for (const unit of ['acme/app', 'issues:acme/app', 'acme/web'])
    await store.query.insertInto('polls').values({ connection: 'github', unit, watermark: 'w' }).execute();
  await bindings.settled();
  return { bindings, vendor, clock, gauges };
}

const idsOf = async ({ query }: Store) => (await loadNames(query, 'github', ENTRIES)).map(({ id }) => id).toSorted();

test('keeps the id of a name that leads elsewhere until a rebind, which restarts its units', async () => {
  const store = await openTestStore();
  const { bindings, vendor } = await reboundNames(store);
  expect([bindings.idOf('acme/app'), await idsOf(store)]).toEqual(['7', ['1', '7']]);
  const before = bindings.version();
  await bindings.rebind(vendor, signal);
  expect([bindings.idOf('acme/app'), await idsOf(store)]).toEqual(['8', ['1', '8']]);
  expect(bindings.version()).toBeGreaterThan(before);
  expect(await storedUnits(store.query, 'github')).toEqual(['acme/web']);
});

test('stores the new id and the restart of its units in one transaction', async () => {
  expect(
    await remainsOf(async (store) => {
      const { bindings, vendor } = await reboundNames(store);
      return () => bindings.rebind(vendor, signal);
    }),
  ).toEqual([]);
});

test('has stored the ids after a refresh and after `settled`', async () => {
  const store = await openTestStore();
  const { bindings } = await reboundNames(store);
  expect(await idsOf(store)).toEqual(['1', '7']);
  bindings.report({ id: '7', name: 'acme/renamed' });
  await bindings.settled();
  const names = await loadNames(store.query, 'github', ENTRIES);
  expect(names.find(({ id }) => id === '7')?.called).toBe('acme/renamed');
});

test('resolves a refresh only after the ids are stored', async () => {
  const store = await openTestStore();
  const slow: Store = { ...store, commit: (work) => new Promise(setImmediate).then(() => store.commit(work)) };
  const deps = { store: slow, clock: createTravellingClock(), logger: silentLogger, meter: silentMeter };
  const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  await bindings.refresh({ identify: async (name: string) => ({ id: name, name }) }, signal);
  expect(await idsOf(store)).toEqual(ENTRIES);
});

test('changes no id if the vendor is unreachable', async () => {
  const store = await openTestStore();
  const { bindings } = await reboundNames(store);
  const vendor = { identify: () => Promise.reject(new SyncError('unreachable', 'away')) };
  await expect(bindings.rebind(vendor, signal)).rejects.toThrow('away');
  expect(bindings.idOf('acme/app')).toBe('7');
});

test('binds the other names where the vendor refuses one, and reports all refusals', async () => {
  const store = await openTestStore();
  const { bindings, clock } = await reboundNames(store);
  await clock.advance(25 * 60 * 60_000);
  await bindings.refresh({ identify: async (name: string) => ({ id: name === 'acme/app' ? '8' : '2', name }) }, signal);
  const vendor = {
    async identify(name: string) {
      if (name === 'acme/app') throw new SyncError('forbidden', 'not yours');
      return { id: '2', name };
    },
  };
  await expect(bindings.rebind(vendor, signal)).rejects.toMatchObject({
    code: 'forbidden',
    message: 'acme/app: not yours; acme/web now means acme/web (id 2)',
  });
  expect(await idsOf(store)).toEqual(['2', '7']);
});

test('stops a refresh at a rate limit and rejects with it', async () => {
  const requested: string[] = [];
  const deps = {
    store: await openTestStore(),
    clock: createTravellingClock(),
    logger: silentLogger,
    meter: silentMeter,
  };
  const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  const identify = async (name: string) => {
    requested.push(name);
    throw new SyncError('rate_limited', 'HTTP 429', { status: 429, retryAfter: 60_000 });
  };
  await expect(bindings.refresh({ identify }, signal)).rejects.toMatchObject({
    code: 'rate_limited',
    retryAfter: 60_000,
  });
  expect(requested).toHaveLength(1);
});

test.each([
  ['forbidden', ENTRIES.length],
  ['unauthorized', 1],
  ['server_failed', 1],
] as const)('after %s for a name, requests %i names', async (code, expected) => {
  const requested: string[] = [];
  const deps = {
    store: await openTestStore(),
    clock: createTravellingClock(),
    logger: silentLogger,
    meter: silentMeter,
  };
  const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  const identify = async (name: string) => {
    requested.push(name);
    throw new SyncError(code, 'no');
  };
  await bindings.refresh({ identify }, signal);
  expect(requested).toHaveLength(expected);
});

test('reports the number of rebound names after each change', async () => {
  const { bindings, vendor, gauges } = await reboundNames(await openTestStore());
  expect([gauges[0], gauges.at(-1)]).toEqual([0, 1]);
  await bindings.rebind(vendor, signal);
  expect(gauges.at(-1)).toBe(0);
});

test('binds nothing and rejects if any statement of a rebind fails', async () => {
  expect(
    await wrongWhereStatementsFail(async (store) => {
      const { bindings, vendor } = await reboundNames(store);
      return () => bindings.rebind(vendor, signal);
    }),
  ).toEqual([]);
});

test('logs an id that could not be stored, without an unhandled rejection', async () => {
  expect(
    await wrongWhereStatementsFail(
      async (store) => {
        const { bindings } = await reboundNames(store);
        return async () => {
          bindings.report({ id: '7', name: 'acme/renamed' });
          await bindings.settled();
        };
      },
      { isQuiet: true },
    ),
  ).toEqual([]);
});

const HOUR = 3_600_000;

test.each<[what: string, isDoubted: boolean, age: number, isRequested: boolean, isRequestedLater: boolean]>([
  ['just under a day', false, 24 * HOUR - 1, false, true],
  ['a day', false, 24 * HOUR, true, false],
  ['just under a quarter of an hour, in doubt, which stays', true, HOUR / 4 - 1, false, true],
  ['a quarter of an hour, in doubt', true, HOUR / 4, true, false],
  ['a quarter of an hour, without doubt', false, HOUR / 4, false, false],
  ['a negative time, because the clock was set back', false, -1, true, false],
])('asks again for a name after %s: %#', async (_what, isDoubted, age, isRequested, isRequestedLater) => {
  const { bindings, clock } = await reboundNames(await openTestStore());
  let requested = 0;
  const identify = async (name: string) => {
    requested++;
    return { id: '7', name };
  };
  const requestsAfter = async (ms: number) => {
    const before = requested;
    clock.jumpWall(ms);
    await bindings.refresh({ identify }, signal);
    return requested > before;
  };
  expect(await requestsAfter(25 * HOUR)).toBe(true);
  if (isDoubted) bindings.recheckSoon();
  expect([await requestsAfter(age), await requestsAfter(HOUR / 4)]).toEqual([isRequested, isRequestedLater]);
});

test('asks again soon after a delivery reports another id for a name', async () => {
  const { bindings, clock } = await reboundNames(await openTestStore());
  let requested = 0;
  const identify = async (name: string) => {
    requested++;
    return { id: name === 'acme/web' ? '1' : '7', name };
  };
  await clock.advance(25 * HOUR);
  await bindings.refresh({ identify }, signal);
  clock.jumpWall(HOUR / 4);
  bindings.report({ id: '1', name: 'acme/renamed-again' });
  await bindings.refresh({ identify }, signal);
  expect(requested).toBe(2);
  bindings.report({ id: '9', name: 'acme/web' });
  await bindings.refresh({ identify }, signal);
  expect(requested).toBe(4);
});

test('uses the ids of deliveries if the vendor cannot resolve names', async () => {
  const store = await openTestStore();
  const { bindings } = await reboundNames(store);
  await bindings.refresh({}, signal);
  expect(bindings.idOf('acme/app')).toBe('7');
  expect(await bindings.rebind({}, signal)).toMatchObject([{ entry: 'acme/app', id: '8', called: 'acme/app' }]);
});

test('binds no name again that leads to its old id or to nothing', async () => {
  for (const found of [{ id: '7', name: 'acme/app' }, undefined]) {
    const { bindings, gauges } = await reboundNames(await openTestStore());
    const identify = async () => {
      if (!found) throw new SyncError('not_found', 'nothing');
      return found;
    };
    expect(await bindings.rebind({ identify }, signal)).toEqual([]);
    expect([bindings.idOf('acme/app'), gauges.at(-1)]).toEqual(['7', 0]);
  }
});
