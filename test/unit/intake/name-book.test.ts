import { expect, test } from 'vitest';
import { SyncError } from '../../../src/errors/sync-error.ts';
import { openNameBook } from '../../../src/intake/name-book.ts';
import { silentLogger } from '../../../src/lib/logger.ts';
import { silentMeter } from '../../../src/lib/meter.ts';
import type { Store } from '../../../src/store/database.ts';
import { keptUnits, loadNames } from '../../../src/store/scope-names.ts';
import { remainsOf } from '../../support/all-or-nothing.ts';
import { openTestStore } from '../../support/intake.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const ENTRIES = ['acme/app', 'acme/web'];
const signal = new AbortController().signal;

/** The name leads to 7 first, and to 8 later. */
async function reboundBook(store: Store) {
  const clock = createTravellingClock();
  const deps = { store, clock, logger: { ...silentLogger, child: () => silentLogger }, meter: silentMeter };
  const book = await openNameBook(deps, { connection: 'github', entries: ENTRIES });
  let id = '7';
  const vendor = { identify: async (name: string) => ({ id: name === 'acme/app' ? id : '1', name }) };
  await book.refresh(vendor, signal);
  id = '8';
  await clock.advance(25 * 60 * 60_000);
  await book.refresh(vendor, signal);
  for (const unit of ['acme/app', 'issues:acme/app', 'acme/web'])
    await store.query.insertInto('polls').values({ connection: 'github', unit, watermark: 'w' }).execute();
  await book.settled();
  return { book, vendor };
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
  expect(await keptUnits(store.query, 'github')).toEqual(['acme/web']);
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
  book.told({ id: '7', name: 'acme/renamed' });
  await book.settled();
  const names = await loadNames(store.query, 'github', ENTRIES);
  expect(names.find(({ id }) => id === '7')?.called).toBe('acme/renamed');
});

test('a vendor that cannot be asked changes no name', async () => {
  const store = await openTestStore();
  const { book } = await reboundBook(store);
  const vendor = { identify: () => Promise.reject(new SyncError('unreachable', 'away')) };
  await expect(book.rebind(vendor, signal)).rejects.toThrow('away');
  expect(book.idOf('acme/app')).toBe('7');
});
