import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Store } from '../../../../src/store/database.ts';

import { loadNames, storedUnits } from '../../../../src/store/scope-names.ts';
import { openNameBindings } from '../../../../src/sync/intake/name-bindings.ts';

import { remainsOf } from '../../../support/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const ENTRIES = ['acme/app', 'acme/web'];
const signal = new AbortController().signal;

/** The name leads to 7 first, and to 8 later. */
async function reboundBook(store: Store) {
  const clock = createTravellingClock();
  const gauges: number[] = [];
  const meter = { ...silentMeter, gauge: (_name: string, value: number) => void gauges.push(value) };
  const deps = { store, clock, logger: { ...silentLogger, child: () => silentLogger }, meter };
  const book = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  let id = '7';
  const vendor = { identify: async (name: string) => ({ id: name === 'acme/app' ? id : '1', name }) };
  await book.refresh(vendor, signal);
  id = '8';
  await clock.advance(25 * 60 * 60_000);
  await book.refresh(vendor, signal);
  for (const unit of ['acme/app', 'issues:acme/app', 'acme/web'])
    await store.query.insertInto('polls').values({ connection: 'github', unit, watermark: 'w' }).execute();
  await book.settled();
  return { book, vendor, clock, gauges };
}

const idsOf = async ({ query }: Store) => (await loadNames(query, 'github', ENTRIES)).map(({ id }) => id).toSorted();

test('a name that leads elsewhere keeps its target until it is bound again; then its units are read from the start', async () => {
  const store = await openTestStore();
  const { book, vendor } = await reboundBook(store);
  expect([book.idOf('acme/app'), await idsOf(store)]).toEqual(['7', ['1', '7']]);
  const before = book.version();
  await book.rebind(vendor, signal);
  expect([book.idOf('acme/app'), await idsOf(store)]).toEqual(['8', ['1', '8']]);
  expect(book.version()).toBeGreaterThan(before);
  expect(await storedUnits(store.query, 'github')).toEqual(['acme/web']);
});

test('the new target and the begin of its units are stored together, or neither is', async () => {
  expect(
    await remainsOf(async (store) => {
      const { book, vendor } = await reboundBook(store);
      return () => book.rebind(vendor, signal);
    }),
  ).toEqual([]);
});

test('when names have been asked for, or are said to be settled, what they lead to is stored', async () => {
  const store = await openTestStore();
  const { book } = await reboundBook(store);
  expect(await idsOf(store)).toEqual(['1', '7']);
  book.report({ id: '7', name: 'acme/renamed' });
  await book.settled();
  const names = await loadNames(store.query, 'github', ENTRIES);
  expect(names.find(({ id }) => id === '7')?.called).toBe('acme/renamed');
});

test('whoever asks for names waits until they are stored, however long that takes', async () => {
  const store = await openTestStore();
  const slow: Store = { ...store, commit: (work) => new Promise(setImmediate).then(() => store.commit(work)) };
  const deps = { store: slow, clock: createTravellingClock(), logger: silentLogger, meter: silentMeter };
  const book = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  await book.refresh({ identify: async (name: string) => ({ id: name, name }) }, signal);
  expect(await idsOf(store)).toEqual(ENTRIES);
});

test('a vendor that cannot be asked changes no name', async () => {
  const store = await openTestStore();
  const { book } = await reboundBook(store);
  const vendor = { identify: () => Promise.reject(new SyncError('unreachable', 'away')) };
  await expect(book.rebind(vendor, signal)).rejects.toThrow('away');
  expect(book.idOf('acme/app')).toBe('7');
});

test('a vendor that wants to be left alone is asked for no other name, and the poll that wanted them is told', async () => {
  const asked: string[] = [];
  const deps = {
    store: await openTestStore(),
    clock: createTravellingClock(),
    logger: silentLogger,
    meter: silentMeter,
  };
  const book = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  const identify = async (name: string) => {
    asked.push(name);
    throw new SyncError('rate_limited', 'HTTP 429', { status: 429, retryAfter: 60_000 });
  };
  await expect(book.refresh({ identify }, signal)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 60_000 });
  expect(asked).toHaveLength(1);
});

test.each([
  ['forbidden', ENTRIES.length],
  ['unauthorized', 1],
  ['server_failed', 1],
] as const)('after %s for a name %i names are asked for', async (code, expected) => {
  const asked: string[] = [];
  const deps = {
    store: await openTestStore(),
    clock: createTravellingClock(),
    logger: silentLogger,
    meter: silentMeter,
  };
  const book = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
  const identify = async (name: string) => {
    asked.push(name);
    throw new SyncError(code, 'no');
  };
  await book.refresh({ identify }, signal);
  expect(asked).toHaveLength(expected);
});

test('how many names lead elsewhere is told whenever that changes', async () => {
  const { book, vendor, gauges } = await reboundBook(await openTestStore());
  expect([gauges[0], gauges.at(-1)]).toEqual([0, 1]);
  await book.rebind(vendor, signal);
  expect(gauges.at(-1)).toBe(0);
});

test('whichever statement fails while a name is bound again, nothing is, and whoever does it is told', async () => {
  expect(
    await wrongWhereStatementsFail(async (store) => {
      const { book, vendor } = await reboundBook(store);
      return () => book.rebind(vendor, signal);
    }),
  ).toEqual([]);
});

test('a target that could not be stored is logged, and leaves no error to nobody', async () => {
  expect(
    await wrongWhereStatementsFail(
      async (store) => {
        const { book } = await reboundBook(store);
        return async () => {
          book.report({ id: '7', name: 'acme/renamed' });
          await book.settled();
        };
      },
      { isQuiet: true },
    ),
  ).toEqual([]);
});

const HOUR = 3_600_000;

test.each<[what: string, isDoubted: boolean, age: number, isAsked: boolean, isAskedLater: boolean]>([
  ['a day less a moment', false, 24 * HOUR - 1, false, true],
  ['a day', false, 24 * HOUR, true, false],
  ['a quarter of an hour less a moment, with a doubt, which stays', true, HOUR / 4 - 1, false, true],
  ['a quarter of an hour, with a doubt', true, HOUR / 4, true, false],
  ['a quarter of an hour, without one', false, HOUR / 4, false, false],
  ['less than nothing, by a clock that was set back', false, -1, true, false],
])('a name is asked for again after %s: %#', async (_what, isDoubted, age, isAsked, isAskedLater) => {
  const { book, clock } = await reboundBook(await openTestStore());
  let asked = 0;
  const identify = async (name: string) => {
    asked++;
    return { id: '7', name };
  };
  const asksAfter = async (ms: number) => {
    const before = asked;
    clock.jumpWall(ms);
    await book.refresh({ identify }, signal);
    return asked > before;
  };
  expect(await asksAfter(25 * HOUR)).toBe(true);
  if (isDoubted) book.recheckSoon();
  expect([await asksAfter(age), await asksAfter(HOUR / 4)]).toEqual([isAsked, isAskedLater]);
});

test('a delivery that says that a name went elsewhere is a reason to ask again soon', async () => {
  const { book, clock } = await reboundBook(await openTestStore());
  let asked = 0;
  const identify = async (name: string) => {
    asked++;
    return { id: name === 'acme/web' ? '1' : '7', name };
  };
  await clock.advance(25 * HOUR);
  await book.refresh({ identify }, signal);
  clock.jumpWall(HOUR / 4);
  book.report({ id: '1', name: 'acme/called-anew' });
  await book.refresh({ identify }, signal);
  expect(asked).toBe(2);
  book.report({ id: '9', name: 'acme/web' });
  await book.refresh({ identify }, signal);
  expect(asked).toBe(4);
});

test('a vendor that identifies nothing is not asked: only what was told counts', async () => {
  const store = await openTestStore();
  const { book } = await reboundBook(store);
  await book.refresh({}, signal);
  expect(book.idOf('acme/app')).toBe('7');
  expect(await book.rebind({}, signal)).toMatchObject([{ entry: 'acme/app', id: '8', called: 'acme/app' }]);
});

test('a name that leads back to what it is bound to, or to nothing, is not bound again', async () => {
  for (const found of [{ id: '7', name: 'acme/app' }, undefined]) {
    const { book, gauges } = await reboundBook(await openTestStore());
    const identify = async () => {
      if (!found) throw new SyncError('not_found', 'nothing');
      return found;
    };
    expect(await book.rebind({ identify }, signal)).toEqual([]);
    expect([book.idOf('acme/app'), gauges.at(-1)]).toEqual(['7', 0]);
  }
});
