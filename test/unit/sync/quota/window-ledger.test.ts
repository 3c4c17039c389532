import { afterEach, expect, test } from 'vitest';
import { UNKNOWN_GRACE, windowOf } from '../../../../src/model/windows.ts';
import { addLedgerRow, endLedgerRow, readLedger } from '../../../../src/store/ledger.ts';
import { openWindowLedger, redated } from '../../../../src/sync/quota/window-ledger.ts';
import { type OpenedStore, openStore } from '../../../support/store.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const row = { id: 7, boot: 'a', lane: 'mirror' as const, caller: null, started: 1_000, completed: 1_500, status: 200 };
const NOW = 5_000;

test.each([
  ['of this boot, ended: as it stands', row, 'a', row],
  [
    'of this boot and this very moment: as it stands',
    { ...row, started: NOW, completed: NOW },
    'a',
    { ...row, started: NOW, completed: NOW },
  ],
  [
    'in flight: just sent, with grace',
    { ...row, completed: null, status: null },
    'a',
    { ...row, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'of another boot: as long ago as that boot tells of',
    row,
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW - 1_500 },
  ],
  [
    'of another boot, in flight: from now, with grace',
    { ...row, completed: null, status: null },
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'of another boot, ended without an answer: from now, with grace',
    { ...row, status: null },
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'from the future, as in a restored machine image: as long ago as it tells of',
    { ...row, started: 9_000, completed: 9_500 },
    'a',
    { ...row, started: NOW - 500, completed: NOW },
    9_500,
  ],
] as const)('a row %s', (_name, before, boot, after, lastSeen: number = 3_000) => {
  expect(redated(before, { boot, now: NOW, lastSeen })).toEqual(after);
});

test('a row without an end counts for as long as a successor says that it may be on its way', () => {
  const sent = { ...row, completed: null, status: null };
  const known = { boot: 'a', now: NOW, lastSeen: NOW };
  expect(redated(sent, { ...known, grace: 40_000 }).completed).toBe(NOW + 40_000);
  expect(redated(sent, known).completed).toBe(NOW + UNKNOWN_GRACE);
});

let store: OpenedStore | undefined;
afterEach(async () => {
  await store?.close();
  store = undefined;
});

async function open() {
  store ??= await openStore({ file: ':memory:' });
  return store;
}

test('an entry is a row from its record to one window after its end; deletion rides along with the next record', async () => {
  const { query } = await open();
  const clock = createTravellingClock();
  const book = await openWindowLedger(query, clock, [windowOf(5, 60_000)]);
  const entry = book.open('mirror');
  await book.record(entry, query);
  book.complete(entry, 201);
  await book.recordEnd(entry, query);
  await clock.advance(60_100);
  expect(await readLedger(query)).toMatchObject([{ id: entry.id, status: 201, completed: 0 }]);
  const next = book.open('read');
  await book.record(next, query);
  expect(await readLedger(query)).toMatchObject([{ id: next.id, completed: null, status: null }]);
});

test('a released entry leaves memory at once and the database with the next record', async () => {
  const { query } = await open();
  const clock = createTravellingClock();
  const book = await openWindowLedger(query, clock, [windowOf(5, 60_000)]);
  const entry = book.open('mirror');
  await book.record(entry, query);
  book.release(entry);
  expect([book.all.inFlight, book.background.inFlight]).toEqual([0, 0]);
  const next = book.open('mirror');
  await book.record(next, query);
  expect((await readLedger(query)).map(({ id }) => id)).toEqual([next.id]);
});

test('a workspace that has sent nothing is opened without a write', async () => {
  const statements: string[] = [];
  store = await openStore({ file: ':memory:', onStatement: (statement) => void statements.push(statement) });
  statements.length = 0;
  await openWindowLedger(store.query, createTravellingClock(), [windowOf(5, 60_000)]);
  expect(statements.filter((statement) => !statement.startsWith('select'))).toEqual([]);
  expect(statements.length).toBeGreaterThan(0);
});

test('where old rows cannot be removed no request is recorded', async () => {
  let failures = 0;
  const steps = {
    reached() {
      if (failures-- > 0) throw new Error('the disk is full');
    },
  };
  store = await openStore({ file: ':memory:', steps });
  const { query } = store;
  const book = await openWindowLedger(query, createTravellingClock(), [windowOf(5, 60_000)]);
  const entry = book.open('mirror');
  // Only the first statement of it.
  failures = 1;
  await expect(book.record(entry, query)).rejects.toThrow('the disk is full');
  expect(await readLedger(query)).toEqual([]);
});

test('an id is not given twice, also where its row was rolled back', async () => {
  const database = await open();
  const clock = createTravellingClock();
  const book = await openWindowLedger(database.query, clock, [windowOf(5, 60_000)]);
  const lost = book.open('mirror');
  const failing = database.commit(async (query) => {
    await book.record(lost, query);
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  const kept = book.open('mirror');
  await book.record(kept, database.query);
  book.release(lost);
  const next = book.open('mirror');
  await book.record(next, database.query);
  expect((await readLedger(database.query)).map(({ id }) => id)).toEqual([kept.id, next.id]);
});

test('rows of another boot are re-dated once, also over a second restart in the new boot', async () => {
  const { query } = await open();
  const clock = createTravellingClock();
  const windows = [windowOf(5, 60_000)];
  const first = await openWindowLedger(query, clock, windows);
  await first.record(first.open('mirror'), query);
  await clock.advance(30_000);
  clock.reboot();
  await clock.advance(1_000);
  const second = await openWindowLedger(query, clock, windows);
  await clock.advance(5_000);
  const third = await openWindowLedger(query, clock, windows);
  expect(second.all.completed).toEqual([1_000 + UNKNOWN_GRACE]);
  expect(third.all.completed).toEqual(second.all.completed);
});

test('after a reboot, what passed until the last beat has passed, and no more', async () => {
  const { query } = await open();
  const clock = createTravellingClock();
  const windows = [windowOf(5, 60_000)];
  const first = await openWindowLedger(query, clock, windows);
  const entry = first.open('mirror');
  await first.record(entry, query);
  first.complete(entry, 200);
  await first.recordEnd(entry, query);
  await clock.advance(20_000);
  await first.beat(query);
  await clock.advance(5_000);
  clock.reboot();
  await clock.advance(1_000);
  const second = await openWindowLedger(query, clock, windows);
  expect(second.all.completed).toEqual([1_000 - 20_000]);
  await clock.advance(3_000);
  clock.reboot();
  await clock.advance(1_000);
  // The second boot told only of its start.
  expect((await openWindowLedger(query, clock, windows)).all.completed).toEqual([1_000 - 20_000]);
});

test('the end of a request without an answer lies ahead, and is no time that its boot has seen', async () => {
  const { query } = await open();
  const clock = createTravellingClock();
  const rows = [
    { id: 1, completed: 40_000, status: undefined },
    { id: 2, completed: 12_000, status: 200 },
  ];
  for (const { id, completed, status } of rows) {
    await addLedgerRow(query, { id, boot: 'before', lane: 'mirror', caller: null, started: 10_000 });
    await endLedgerRow(query, id, completed, status);
  }
  await clock.advance(1_000);
  const { all } = await openWindowLedger(query, clock, [windowOf(5, 60_000)]);
  expect(all.completed).toEqual([1_000, 1_000 + UNKNOWN_GRACE]);
});
