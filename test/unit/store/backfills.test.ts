import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  advanceBackfill,
  finishBackfillUnit,
  nextBackfillUnit,
  pauseBackfill,
  postponeBackfill,
  readBackfills,
  requestBackfill,
  resumeBackfill,
  splitBackfill,
} from '../../../src/store/backfills.ts';
import { withoutTable } from '../../support/faults/without-table.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const HOUR = 3_600_000;

let store: OpenedStore;
beforeEach(async () => {
  store = await openStore({ file: ':memory:' });
  await requestBackfill(store.query, { connection: 'github', since: null, now: NOW });
});
afterEach(() => store.close());

const next = (now = NOW) => nextBackfillUnit(store.query, 'github', now);

/** The unit to go on with; there is one. */
async function due() {
  const unit = await next();
  if (!unit) throw new Error('nothing is to be read');
  return unit;
}

const isPaused = async () => (await readBackfills(store.query, 'github'))[0]?.isPaused;

it('reports a failure to store the end of a unit', async () => {
  const unit = await due();
  await withoutTable(store.database, 'backfills', () =>
    expect(finishBackfillUnit(store.query, unit, NOW)).rejects.toThrow(),
  );
});

describe('a paused backfill', () => {
  it('has no next unit, at any time, until it is resumed', async () => {
    expect(await isPaused()).toBe(false);
    expect(await pauseBackfill(store.query, 'github')).toBe(true);
    expect([await next(), await next(NOW + 1_000 * HOUR), await isPaused()]).toEqual([undefined, undefined, true]);
    expect(await resumeBackfill(store.query, 'github')).toBe(true);
    expect([await next(), await isPaused()]).toEqual([expect.objectContaining({ unit: '*' }), false]);
  });

  it('stays paused if its units become known meanwhile', async () => {
    const requested = await due();
    await pauseBackfill(store.query, 'github');
    await splitBackfill(store.query, requested, ['app', 'web']);
    expect([await next(), await isPaused()]).toEqual([undefined, true]);
    await resumeBackfill(store.query, 'github');
    expect(await next()).toMatchObject({ unit: 'app' });
  });

  it.each([
    ['a page was read', { read: true, units: ['app', 'web'] }],
    ['a page failed', { read: false, units: ['app', 'web'] }],
  ])('stays paused if %s meanwhile', async (_, { read, units }) => {
    await splitBackfill(store.query, await due(), units);
    const unit = await due();
    await pauseBackfill(store.query, 'github');
    if (read) expect(await advanceBackfill(store.query, unit, { items: 3, total: 9, next: '2' }, NOW)).toBe(true);
    else await postponeBackfill(store.query, unit, { error: 'unavailable: no answer', notBefore: NOW + 5_000 });
    expect([await next(NOW + HOUR), await isPaused()]).toEqual([undefined, true]);
    await resumeBackfill(store.query, 'github');
    const status = { items: read ? 3 : 0, isPaused: false };
    expect((await readBackfills(store.query, 'github'))[0]).toMatchObject(status);
    // The other one goes first: less of it was read.
    expect(await next()).toMatchObject({ unit: read ? 'web' : 'app' });
  });

  it('requires a running backfill', async () => {
    expect(await pauseBackfill(store.query, 'gitlab')).toBe(false);
    expect(await resumeBackfill(store.query, 'gitlab')).toBe(false);
  });
});
