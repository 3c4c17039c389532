import { expect, test } from 'vitest';
import { CALLERS, keyCaller, tokenCaller } from '../../../../src/model/caller.ts';
import { windowOf } from '../../../../src/model/windows.ts';
import { quotaUseSince } from '../../../../src/store/quota-use.ts';
import { createUseCount, leastOfOthers, QUARTER, quarterOf } from '../../../../src/sync/quota/use-count.ts';
import { openWindowLedger } from '../../../../src/sync/quota/window-ledger.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

async function setUp() {
  const { query, commit } = await openTestStore();
  const clock = createTravellingClock();
  const used = async () =>
    (await quotaUseSince(query, 0)).map(({ caller, requests, refused }) => [caller, requests, refused]);
  return { query, commit, clock, used };
}

const key = (name: string) => keyCaller(Buffer.from(name).toString('hex').padEnd(64, '0'));

test('counts requests and refusals by caller and quarter of an hour', async () => {
  const { query, clock } = await setUp();
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

test('limits the rows of a flood of keys, also across a restart, and counts unknown keys in one row', async () => {
  const { query, clock, used } = await setUp();
  const uses = createUseCount(clock);
  for (let made = 0; made < 50; made++) await uses.add(query, { caller: key(`wrong ${made}`), status: 401 });
  expect(await used()).toEqual([[CALLERS.wrongKeys, 50, 0]]);
  for (let made = 0; made < 60; made++) await uses.add(query, { caller: key(`${made}`), status: 200 });
  const restarted = createUseCount(clock);
  for (let made = 0; made < 100; made++) await restarted.add(query, { caller: key(`${made}`), status: 200 });
  const rows = await used();
  expect(rows).toHaveLength(64 + 2);
  expect(rows).toContainEqual([CALLERS.otherKeys, 36, 0]);
  expect(rows).toContainEqual([key('0'), 2, 0]);
  expect(rows).toContainEqual([key('63'), 1, 0]);
});

test('stores the largest use by others that refusals show within a quarter', async () => {
  const { query, clock, used } = await setUp();
  const uses = createUseCount(clock);
  const at = 0;
  await uses.addOthers(query, { at, window: 'long', othersLong: 90, othersBurst: 0 });
  await uses.addOthers(query, { at, window: 'burst', othersLong: 90, othersBurst: 12 });
  await uses.addOthers(query, { at, window: 'long', othersLong: 0, othersBurst: 0 });
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
  'a refusal at a full %s window with %s and %s requests of others proves %s',
  (window, othersLong, othersBurst, least) => {
    expect(leastOfOthers({ at: 0, window, othersLong, othersBurst })).toBe(least);
  },
);

test('counts an end that is written twice once, a rolled-back one never, and an interrupted one at the next start', async () => {
  const { query, commit, clock, used } = await setUp();
  const windows = [windowOf(5, 60_000)];
  const ledger = await openWindowLedger(query, clock, windows);
  const twice = ledger.open('mirror');
  await ledger.record(twice, query);
  ledger.complete(twice, 200);
  const lost = commit(async (transaction) => {
    await ledger.recordEnd(twice, transaction);
    throw new Error('rolled back');
  });
  await expect(lost).rejects.toThrow('rolled back');
  expect(await used()).toEqual([]);
  for (let times = 0; times < 2; times++) await ledger.recordEnd(twice, query);
  await ledger.record(ledger.open('interactive', CALLERS.command), query);
  expect(await used()).toEqual([['mirror', 1, 0]]);
  for (let starts = 0; starts < 2; starts++) await openWindowLedger(query, clock, windows);
  expect(await used()).toEqual([
    ['command', 1, 0],
    ['mirror', 1, 0],
  ]);
});
