import { expect, test } from 'vitest';
import { UNKNOWN_GRACE, windowOf } from '../../../../src/model/windows.ts';
import { addLedgerRow, endLedgerRow, readLedger } from '../../../../src/store/ledger.ts';
import { openWindowLedger, rebaseRow } from '../../../../src/sync/quota/window-ledger.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const row = { id: 7, boot: 'a', lane: 'mirror' as const, caller: null, started: 1_000, completed: 1_500, status: 200 };
const NOW = 5_000;

test.each([
  ['of this boot with an end unchanged', row, 'a', row],
  [
    'of this boot and the present moment unchanged',
    { ...row, started: NOW, completed: NOW },
    'a',
    { ...row, started: NOW, completed: NOW },
  ],
  [
    'in flight as just sent, with grace',
    { ...row, completed: null, status: null },
    'a',
    { ...row, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'of another boot as old as its boot proves',
    row,
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW - 1_500 },
  ],
  [
    'of another boot in flight as just sent, with grace',
    { ...row, completed: null, status: null },
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'of another boot without an answer as just sent, with grace',
    { ...row, status: null },
    'b',
    { ...row, boot: 'b', started: NOW - 2_000, completed: NOW + UNKNOWN_GRACE, status: null },
  ],
  [
    'from the future, as in a restored machine image, as old as its boot proves',
    { ...row, started: 9_000, completed: 9_500 },
    'a',
    { ...row, started: NOW - 500, completed: NOW },
    9_500,
  ],
] as const)('returns a row %s', (_name, before, boot, after, lastSeen: number = 3_000) => {
  expect(rebaseRow(before, { boot, now: NOW, lastSeen })).toEqual(after);
});

test('counts a row without an end for the given grace', () => {
  const sent = { ...row, completed: null, status: null };
  const known = { boot: 'a', now: NOW, lastSeen: NOW };
  expect(rebaseRow(sent, { ...known, grace: 40_000 }).completed).toBe(NOW + 40_000);
  expect(rebaseRow(sent, known).completed).toBe(NOW + UNKNOWN_GRACE);
});

test('keeps the row of an entry until one window after its end, and deletes it with the next record', async () => {
  const { query } = await openTestStore();
  const clock = createTravellingClock();
  const ledger = await openWindowLedger(query, clock, [windowOf(5, 60_000)]);
  const entry = ledger.open('mirror');
  await ledger.record(entry, query);
  ledger.complete(entry, 201);
  await ledger.recordEnd(entry, query);
  await clock.advance(60_100);
  expect(await readLedger(query)).toMatchObject([{ id: entry.id, status: 201, completed: 0 }]);
  const next = ledger.open('read');
  await ledger.record(next, query);
  expect(await readLedger(query)).toMatchObject([{ id: next.id, completed: null, status: null }]);
});

test('removes a released entry from memory at once, and from the database with the next record', async () => {
  const { query } = await openTestStore();
  const clock = createTravellingClock();
  const ledger = await openWindowLedger(query, clock, [windowOf(5, 60_000)]);
  const entry = ledger.open('mirror');
  await ledger.record(entry, query);
  ledger.release(entry);
  expect([ledger.all.inFlight, ledger.background.inFlight]).toEqual([0, 0]);
  const next = ledger.open('mirror');
  await ledger.record(next, query);
  expect((await readLedger(query)).map(({ id }) => id)).toEqual([next.id]);
});

test('opens a workspace that has sent nothing without a write', async () => {
  const statements: string[] = [];
  const { query } = await openTestStore({ onStatement: (statement) => void statements.push(statement) });
  statements.length = 0;
  await openWindowLedger(query, createTravellingClock(), [windowOf(5, 60_000)]);
  expect(statements.filter((statement) => !statement.startsWith('select'))).toEqual([]);
  expect(statements.length).toBeGreaterThan(0);
});

test('records no request if old rows cannot be deleted', async () => {
  let failures = 0;
  const steps = {
    reached() {
      if (failures-- > 0) throw new Error('the disk is full');
    },
  };
  const { query } = await openTestStore({ steps });
  const ledger = await openWindowLedger(query, createTravellingClock(), [windowOf(5, 60_000)]);
  const entry = ledger.open('mirror');
  // Only its first statement fails.
  failures = 1;
  await expect(ledger.record(entry, query)).rejects.toThrow('the disk is full');
  expect(await readLedger(query)).toEqual([]);
});

test('never reuses an id, even if its row was rolled back', async () => {
  const database = await openTestStore();
  const clock = createTravellingClock();
  const ledger = await openWindowLedger(database.query, clock, [windowOf(5, 60_000)]);
  const lost = ledger.open('mirror');
  const failing = database.commit(async (query) => {
    await ledger.record(lost, query);
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  const recorded = ledger.open('mirror');
  await ledger.record(recorded, database.query);
  ledger.release(lost);
  const next = ledger.open('mirror');
  await ledger.record(next, database.query);
  expect((await readLedger(database.query)).map(({ id }) => id)).toEqual([recorded.id, next.id]);
});

test('converts rows of another boot once, also across a second restart in the new boot', async () => {
  const { query } = await openTestStore();
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

test('assumes after a reboot that only the time until the last heartbeat has passed', async () => {
  const { query } = await openTestStore();
  const clock = createTravellingClock();
  const windows = [windowOf(5, 60_000)];
  const first = await openWindowLedger(query, clock, windows);
  const entry = first.open('mirror');
  await first.record(entry, query);
  first.complete(entry, 200);
  await first.recordEnd(entry, query);
  await clock.advance(20_000);
  await first.heartbeat(query);
  await clock.advance(5_000);
  clock.reboot();
  await clock.advance(1_000);
  const second = await openWindowLedger(query, clock, windows);
  expect(second.all.completed).toEqual([1_000 - 20_000]);
  await clock.advance(3_000);
  clock.reboot();
  await clock.advance(1_000);
  // The second boot stored only its start.
  expect((await openWindowLedger(query, clock, windows)).all.completed).toEqual([1_000 - 20_000]);
});

test('ignores the assumed end of an unanswered request as a proof of passed time', async () => {
  const { query } = await openTestStore();
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
