import { describe, expect, test } from 'vitest';
import type { Connection } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Store } from '../../../../src/store/database.ts';
import { loadNames, storedUnits } from '../../../../src/store/scope-names.ts';
import { openNameBindings } from '../../../../src/sync/intake/name-bindings.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const ENTRIES = ['acme/app', 'acme/web'];
const HOUR = 3_600_000;
const { signal } = new AbortController();

/** A vendor with these ids of names; an error is thrown, and nothing has another name. */
function vendorOf(ids: Readonly<Record<string, string | SyncError>>) {
  const requested: string[] = [];
  const identify: NonNullable<Connection['identify']> = async (name) => {
    requested.push(name);
    const id = ids[name] ?? new SyncError('not_found', 'nothing');
    if (id instanceof SyncError) throw id;
    return { id, name };
  };
  return { requested, identify };
}

async function bench(store: Store) {
  const clock = createTravellingClock();
  const gauges: number[] = [];
  const meter = { ...silentMeter, gauge: (_name: string, value: number) => void gauges.push(value) };
  const logs: string[] = [];
  const log = (_fields: object, message: string) => void logs.push(message);
  const deps = {
    store,
    clock,
    logger: { ...silentLogger, child: () => ({ ...silentLogger, warn: log, info: log }) },
    meter,
  };
  const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  return { store, bindings, clock, gauges, logs };
}

/** Opens bindings of which `acme/app` led to 7 first, and leads to 8 now. */
async function reboundNames(given?: Store) {
  const store = given ?? (await openTestStore());
  const all = await bench(store);
  await all.bindings.refresh(vendorOf({ 'acme/app': '7', 'acme/web': '1' }), signal);
  await all.clock.advance(25 * HOUR);
  const vendor = vendorOf({ 'acme/app': '8', 'acme/web': '1' });
  await all.bindings.refresh(vendor, signal);
  for (const unit of ['acme/app', 'issues:acme/app', 'acme/web'])
    await store.query.insertInto('polls').values({ connection: 'github', unit, watermark: 'w' }).execute();
  await all.bindings.settled();
  return { ...all, vendor };
}

const idsOf = async ({ query }: Store) => (await loadNames(query, 'github', ENTRIES)).map(({ id }) => id).toSorted();

describe('a rebind', () => {
  test('binds a name to the id to which it leads now, and restarts its units; until then the old id stays', async () => {
    const { store, bindings, vendor, gauges, logs, clock } = await reboundNames();
    await clock.advance(25 * HOUR);
    await bindings.refresh(vendor, signal);
    expect(logs).toEqual(['a name leads to another target than before']);
    expect([bindings.idOf('acme/app'), await idsOf(store)]).toEqual(['7', ['1', '7']]);
    expect([gauges[0], gauges.at(-1)]).toEqual([0, 1]);
    const before = bindings.version();
    await bindings.rebind(vendor, signal);
    expect([bindings.idOf('acme/app'), await idsOf(store), gauges.at(-1)]).toEqual(['8', ['1', '8'], 0]);
    expect(bindings.version()).toBeGreaterThan(before);
    expect(await storedUnits(store.query, 'github')).toEqual(['acme/web']);
  });

  test('stores the new id and the restart of its units in one transaction', async () => {
    const rebind = async (store: Store) => {
      const { bindings, vendor } = await reboundNames(store);
      return () => bindings.rebind(vendor, signal);
    };
    expect(await remainsOf(rebind)).toEqual([]);
  });

  test.each([
    ['its old id', vendorOf({ 'acme/app': '7' })],
    ['nothing', vendorOf({})],
  ])('binds no name that leads to %s', async (_what, vendor) => {
    const { bindings, gauges } = await reboundNames();
    const before = bindings.version();
    expect(await bindings.rebind(vendor, signal)).toEqual([]);
    expect([bindings.idOf('acme/app'), gauges.at(-1), bindings.version()]).toEqual(['7', 0, before]);
  });

  test.each([
    ['forbidden', 'acme/app: no; acme/web now means acme/web (id 2)', ['2', '7']],
    ['unreachable', 'acme/app: no', ['1', '7']],
    ['unauthorized', 'acme/app: no', ['1', '7']],
  ] as const)('after %s for a name, rejects with "%s"', async (code, message, ids) => {
    const { store, bindings, clock } = await reboundNames();
    await clock.advance(25 * HOUR);
    await bindings.refresh(vendorOf({ 'acme/app': '8', 'acme/web': '2' }), signal);
    const vendor = vendorOf({ 'acme/app': new SyncError(code, 'no'), 'acme/web': '2' });
    await expect(bindings.rebind(vendor, signal)).rejects.toMatchObject({ code, message });
    expect([await idsOf(store), bindings.idOf('acme/app')]).toEqual([ids, '7']);
  });

  test('uses the ids of deliveries if the vendor cannot resolve names', async () => {
    const { bindings } = await reboundNames();
    await bindings.refresh({}, signal);
    expect(bindings.idOf('acme/app')).toBe('7');
    expect(await bindings.rebind({}, signal)).toMatchObject([{ entry: 'acme/app', id: '8', called: 'acme/app' }]);
  });
});

describe('a refresh', () => {
  test.each([
    ['not_found', ENTRIES.length, 'resolves'],
    ['forbidden', ENTRIES.length, 'resolves'],
    ['unauthorized', 1, 'resolves'],
    ['server_failed', 1, 'resolves'],
    ['rate_limited', 1, 'rejects'],
  ] as const)('after %s for a name, requests %i names and %s', async (code, expected, end) => {
    const { bindings } = await bench(await openTestStore());
    const error = new SyncError(code, 'no', { retryAfter: 60_000 });
    const vendor = vendorOf({ 'acme/app': error, 'acme/web': error });
    const refresh = bindings.refresh(vendor, signal);
    if (end === 'resolves') await refresh;
    else await expect(refresh).rejects.toBe(error);
    expect(vendor.requested).toHaveLength(expected);
  });

  test('resolves only after the ids are stored', async () => {
    const store = await openTestStore();
    const commit: Store['commit'] = (work) => new Promise(setImmediate).then(() => store.commit(work));
    const { bindings } = await bench({ ...store, commit });
    await bindings.refresh(vendorOf({ 'acme/app': '7', 'acme/web': '1' }), signal);
    expect(await idsOf(store)).toEqual(['1', '7']);
  });

  test.each<[what: string, isDoubted: boolean, age: number, isRequested: boolean, isRequestedLater: boolean]>([
    ['just under a day', false, 24 * HOUR - 1, false, true],
    ['a day', false, 24 * HOUR, true, false],
    ['just under a quarter of an hour, in doubt, which stays', true, HOUR / 4 - 1, false, true],
    ['a quarter of an hour, in doubt', true, HOUR / 4, true, false],
    ['a quarter of an hour, without doubt', false, HOUR / 4, false, false],
    ['no time', false, 0, false, false],
    ['a negative time, because the clock was set back', false, -1, true, false],
  ])('asks again for a name after %s: %#', async (_what, isDoubted, age, isRequested, isRequestedLater) => {
    const { bindings, clock } = await reboundNames();
    const vendor = vendorOf({ 'acme/app': '7', 'acme/web': '7' });
    const requestsAfter = async (ms: number) => {
      const before = vendor.requested.length;
      clock.jumpWall(ms);
      await bindings.refresh(vendor, signal);
      return vendor.requested.length > before;
    };
    expect(await requestsAfter(25 * HOUR)).toBe(true);
    if (isDoubted) bindings.recheckSoon();
    expect([await requestsAfter(age), await requestsAfter(HOUR / 4)]).toEqual([isRequested, isRequestedLater]);
  });

  test.each([
    ['another id for a name', { id: '9', name: 'acme/web' }, ENTRIES.length],
    ['another name for an id', { id: '1', name: 'acme/renamed-again' }, 0],
  ])('asks again soon after a delivery that reports %s: %#', async (_what, unit, expected) => {
    const { bindings, clock } = await reboundNames();
    const vendor = vendorOf({ 'acme/app': '7', 'acme/web': '1' });
    await clock.advance(25 * HOUR);
    await bindings.refresh(vendor, signal);
    clock.jumpWall(HOUR / 4);
    bindings.report(unit);
    await bindings.refresh(vendor, signal);
    expect(vendor.requested.length - ENTRIES.length).toBe(expected);
  });
});

describe('a report of a delivery', () => {
  test('is stored after `settled`', async () => {
    const { store, bindings, logs } = await reboundNames();
    logs.length = 0;
    for (let times = 0; times < 2; times++) bindings.report({ id: '7', name: 'acme/renamed' });
    await bindings.settled();
    expect(logs).toEqual(['a repository, project or team was renamed']);
    const names = await loadNames(store.query, 'github', ENTRIES);
    expect(names.find(({ id }) => id === '7')?.called).toBe('acme/renamed');
  });

  test('that cannot be stored is logged, without an unhandled rejection', async () => {
    const report = async (store: Store) => {
      const { bindings } = await reboundNames(store);
      return async () => {
        bindings.report({ id: '7', name: 'acme/renamed' });
        await bindings.settled();
      };
    };
    expect(await wrongWhereStatementsFail(report, { isQuiet: true })).toEqual([]);
  });
});
