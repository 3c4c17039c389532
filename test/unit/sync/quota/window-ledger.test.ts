import { describe, expect, test } from 'vitest';
import { CALLERS, keyCaller, tokenCaller } from '../../../../src/model/caller.ts';
import { UNKNOWN_GRACE, windowOf } from '../../../../src/model/windows.ts';
import { addLedgerRow, endLedgerRow, readLedger } from '../../../../src/store/ledger.ts';
import { quotaUseSince } from '../../../../src/store/quota-use.ts';
import { createUseCount, leastOfOthers, QUARTER, quarterOf } from '../../../../src/sync/quota/use-count.ts';
import { openWindowLedger, rebaseRow } from '../../../../src/sync/quota/window-ledger.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

async function bench(options: Parameters<typeof openTestStore>[0] = {}) {
  const { query, commit } = await openTestStore(options);
  const clock = createTravellingClock();
  /** Commits work that is rolled back. */
  const rollBack = (work: (transaction: typeof query) => Promise<unknown>) =>
    expect(
      commit(async (transaction) => {
        await work(transaction as typeof query);
        throw new Error('rolled back');
      }),
    ).rejects.toThrow('rolled back');
  return {
    ...{ query, clock, rollBack },
    open: () => openWindowLedger(query, clock, [windowOf(5, 60_000)]),
    rows: () => readLedger(query),
    used: async () =>
      (await quotaUseSince(query, 0)).map(({ caller, requests, refused }) => [caller, requests, refused]),
  };
}

const NOW = 5_000;
const ROW = { id: 7, boot: 'a', lane: 'mirror' as const, caller: null, started: 1_000, completed: 1_500, status: 200 };
const UNANSWERED = { ...ROW, status: null };
const SENT = { ...UNANSWERED, completed: null };

describe('a row at a start', () => {
  type Row = Parameters<typeof rebaseRow>[0];
  const graceful = { completed: NOW + UNKNOWN_GRACE };
  const present = { ...ROW, started: NOW, completed: NOW };
  const future = { ...ROW, started: 9_000, completed: 9_500 };
  const old = { boot: 'b', started: NOW - 2_000 };

  test.each<[string, before: Row, boot: string, after: Row, lastSeen?: number]>([
    ['of this boot with an end is unchanged', ROW, 'a', ROW],
    ['of this boot and the present moment is unchanged', present, 'a', present],
    ['of this boot in flight counts as just sent, with grace', SENT, 'a', { ...SENT, ...graceful }],
    ['of another boot is as old as its boot proves', ROW, 'b', { ...ROW, ...old, completed: NOW - 1_500 }],
    ['of another boot in flight counts as just sent', SENT, 'b', { ...SENT, ...old, ...graceful }],
    ['of another boot without an answer counts as just sent', UNANSWERED, 'b', { ...UNANSWERED, ...old, ...graceful }],
    ['from a restored image proves its age', future, 'a', { ...ROW, started: NOW - 500, completed: NOW }, 9_500],
  ])('%s', (_name, before, boot, after, lastSeen = 3_000) => {
    expect(rebaseRow(before, { boot, now: NOW, lastSeen })).toEqual(after);
  });

  test('without an end counts for the given grace', () => {
    expect(rebaseRow(SENT, { boot: 'a', now: NOW, lastSeen: NOW, grace: 40_000 }).completed).toBe(NOW + 40_000);
  });

  test('of another boot is converted once, also across a second restart in the new boot', async () => {
    const { query, clock, open } = await bench();
    const first = await open();
    await first.record(first.open('mirror'), query);
    await clock.advance(30_000);
    clock.reboot();
    await clock.advance(1_000);
    const second = await open();
    await clock.advance(5_000);
    expect(second.all.completed).toEqual([1_000 + UNKNOWN_GRACE]);
    expect((await open()).all.completed).toEqual(second.all.completed);
  });

  test('of another boot proves only the time until the last heartbeat', async () => {
    const { query, clock, open } = await bench();
    const first = await open();
    const entry = first.open('mirror');
    await first.record(entry, query);
    first.complete(entry, 200);
    await first.recordEnd(entry, query);
    await clock.advance(20_000);
    await first.heartbeat(query);
    // The second boot stores only its start.
    for (const later of [5_000, 3_000]) {
      await clock.advance(later);
      clock.reboot();
      await clock.advance(1_000);
      expect((await open()).all.completed).toEqual([1_000 - 20_000]);
    }
  });

  test('without an answer proves no passed time by its assumed end', async () => {
    const { query, clock, open } = await bench();
    for (const [id, completed, status] of [[1, 40_000, undefined] as const, [2, 12_000, 200] as const]) {
      await addLedgerRow(query, { id, boot: 'before', lane: 'mirror', caller: null, started: 10_000 });
      await endLedgerRow(query, id, completed, status);
    }
    await clock.advance(1_000);
    expect((await open()).all.completed).toEqual([1_000, 1_000 + UNKNOWN_GRACE]);
  });
});

describe('an entry', () => {
  test('has a row until one window after its end, which the next record deletes', async () => {
    const { query, clock, open, rows } = await bench();
    const ledger = await open();
    const entry = ledger.open('mirror');
    await ledger.record(entry, query);
    ledger.complete(entry, 201);
    await ledger.recordEnd(entry, query);
    await clock.advance(60_100);
    expect(await rows()).toMatchObject([{ id: entry.id, status: 201, completed: 0 }]);
    const next = ledger.open('read');
    await ledger.record(next, query);
    expect(await rows()).toMatchObject([{ id: next.id, completed: null, status: null }]);
  });

  test('that is released leaves memory at once, and the database with the next record', async () => {
    const { query, open, rows } = await bench();
    const ledger = await open();
    const entry = ledger.open('mirror');
    await ledger.record(entry, query);
    ledger.release(entry);
    expect([ledger.all.inFlight, ledger.background.inFlight]).toEqual([0, 0]);
    const next = ledger.open('mirror');
    await ledger.record(next, query);
    expect((await rows()).map(({ id }) => id)).toEqual([next.id]);
  });

  test('is not recorded if old rows cannot be deleted', async () => {
    let fails = false;
    const reached = () => {
      const isFailing = fails;
      // Only the first statement fails.
      fails = false;
      if (isFailing) throw new Error('the disk is full');
    };
    const { query, open, rows } = await bench({ steps: { reached } });
    const ledger = await open();
    fails = true;
    await expect(ledger.record(ledger.open('mirror'), query)).rejects.toThrow('the disk is full');
    expect(await rows()).toEqual([]);
  });

  test('never has the id of another one, even if that row was rolled back', async () => {
    const { query, open, rows, rollBack } = await bench();
    const ledger = await open();
    const lost = ledger.open('mirror');
    await rollBack((transaction) => ledger.record(lost, transaction));
    const recorded = ledger.open('mirror');
    await ledger.record(recorded, query);
    ledger.release(lost);
    const next = ledger.open('mirror');
    await ledger.record(next, query);
    expect((await rows()).map(({ id }) => id)).toEqual([recorded.id, next.id]);
  });

  test('is counted once if its end is written twice, never if rolled back, and at the next start if interrupted', async () => {
    const { query, open, used, rollBack } = await bench();
    const ledger = await open();
    const twice = ledger.open('mirror');
    await ledger.record(twice, query);
    ledger.complete(twice, 200);
    await rollBack((transaction) => ledger.recordEnd(twice, transaction));
    expect(await used()).toEqual([]);
    for (let times = 0; times < 2; times++) await ledger.recordEnd(twice, query);
    await ledger.record(ledger.open('interactive', CALLERS.command), query);
    expect(await used()).toEqual([['mirror', 1, 0]]);
    for (let starts = 0; starts < 2; starts++) await open();
    expect(await used()).toEqual([
      ['command', 1, 0],
      ['mirror', 1, 0],
    ]);
  });
});

test('opens a workspace that has sent nothing without a write', async () => {
  const statements: string[] = [];
  const { open } = await bench({ onStatement: (statement) => void statements.push(statement) });
  statements.length = 0;
  await open();
  expect(statements.filter((statement) => !statement.startsWith('select'))).toEqual([]);
  expect(statements.length).toBeGreaterThan(0);
});

describe('the count of uses', () => {
  const key = (name: string) => keyCaller(Buffer.from(name).toString('hex').padEnd(64, '0'));

  test('is of requests and refusals, by caller and quarter of an hour', async () => {
    const { query, clock } = await bench();
    const uses = createUseCount(clock);
    const first = quarterOf(clock.now());
    for (const status of [200, 429, undefined]) await uses.add(query, { caller: 'mirror', status });
    await uses.add(query, { caller: tokenCaller('gwt_1'), status: 200 });
    await clock.advance(QUARTER);
    await uses.add(query, { caller: 'mirror', status: 404 });
    expect(await quotaUseSince(query, 0)).toEqual([
      { since: first, caller: 'mirror', requests: 3, refused: 1 },
      { since: first, caller: 'token:gwt_1', requests: 1, refused: 0 },
      { since: first + QUARTER, caller: 'mirror', requests: 1, refused: 0 },
    ]);
  });

  test('limits the rows of a flood of keys, also across a restart, and has one row for unknown keys', async () => {
    const { query, clock, used } = await bench();
    const send = async (uses: ReturnType<typeof createUseCount>, count: number, name: string, status: number) => {
      for (let made = 0; made < count; made++) await uses.add(query, { caller: key(`${name}${made}`), status });
    };
    const uses = createUseCount(clock);
    await send(uses, 50, 'wrong ', 401);
    // The token is known, so it keeps its row.
    await uses.add(query, { caller: tokenCaller('gwt_1'), status: 401 });
    expect(await used()).toEqual([
      ['token:gwt_1', 1, 0],
      [CALLERS.wrongKeys, 50, 0],
    ]);
    await send(uses, 59, '', 200);
    const restarted = createUseCount(clock);
    await send(restarted, 100, '', 200);
    const rows = await used();
    expect(rows).toHaveLength(64 + 2);
    expect(rows).toContainEqual([CALLERS.otherKeys, 37, 0]);
    expect(rows).toContainEqual([key('0'), 2, 0]);
    expect(rows).toContainEqual([key('62'), 1, 0]);
    // In the next quarter the rows begin anew.
    await clock.advance(QUARTER);
    await send(restarted, 1, 'late ', 200);
    expect(await used()).toContainEqual([key('late 0'), 1, 0]);
  });

  test('has the largest use by others that refusals show within a quarter', async () => {
    const { query, clock, used } = await bench();
    const uses = createUseCount(clock);
    for (const [window, othersLong, othersBurst] of [
      ['long', 90, 0] as const,
      ['burst', 90, 12] as const,
      ['long', 0, 0] as const,
    ])
      await uses.addOthers(query, { at: 0, window, othersLong, othersBurst });
    expect(await used()).toEqual([[CALLERS.others, 90, 0]]);
  });

  test.each([
    ['long', 90, 12, 90],
    ['burst', 90, 12, 12],
    ['either', 90, 12, 12],
    ['either', 5, 12, 5],
    ['either', null, 12, 12],
    ['long', null, 12, 0],
  ] as const)(
    'of a refusal at a full %s window with %s and %s requests of others: %s',
    (window, long, burst, least) => {
      expect(leastOfOthers({ at: 0, window, othersLong: long, othersBurst: burst })).toBe(least);
    },
  );
});
