import { expect, test } from 'vitest';
import { SyncError } from '../../../src/errors/sync-error.ts';
import { createAddressGuard } from '../../../src/http/address-guard.ts';
import { createPauses } from '../../../src/intake/pauses.ts';
import { createQuietWarnings } from '../../../src/intake/quiet-warnings.ts';
import { type LogFields, silentLogger } from '../../../src/lib/logger.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const PATIENCE = { burst: 60, perSecond: 1 };

test('an address that keeps failing is turned away, the others are not, and it gets its tries back with time', async () => {
  const clock = createTravellingClock();
  const guard = createAddressGuard(clock, PATIENCE);
  for (let index = 0; index < 60; index++) {
    expect(guard.admits('192.0.2.1')).toBe(true);
    guard.failed('192.0.2.1');
  }
  expect(guard.admits('192.0.2.1')).toBe(false);
  expect(guard.admits('192.0.2.2')).toBe(true);
  await clock.advance(1_000);
  expect(guard.admits('192.0.2.1')).toBe(true);
});

test('what an address did long ago is forgotten, however much it was', async () => {
  const clock = createTravellingClock();
  const guard = createAddressGuard(clock, PATIENCE);
  for (let index = 0; index < 1_000; index++) guard.failed('192.0.2.1');
  expect([guard.admits('192.0.2.1'), guard.left('192.0.2.1')]).toEqual([false, 0]);
  await clock.advance(61_000);
  expect(guard.admits('192.0.2.1')).toBe(true);
});

test('remembers a bounded number of addresses', () => {
  const guard = createAddressGuard(createTravellingClock(), PATIENCE);
  for (let index = 0; index < 60; index++) guard.failed('192.0.2.1');
  for (let index = 0; index < 10_000; index++) guard.failed(`2001:db8::${index.toString(16)}`);
  expect(guard.admits('192.0.2.1')).toBe(true);
});

test('a flood of refusals is one line a minute, and the next line tells how many were kept back', async () => {
  const clock = createTravellingClock();
  const lines: LogFields[] = [];
  const logger = { ...silentLogger, warn: (fields: LogFields) => void lines.push(fields) };
  const warn = createQuietWarnings(clock);
  for (let index = 0; index < 500; index++) warn(logger, 'notes', { index });
  warn(logger, 'other', { index: 'other' });
  await clock.advance(60_000);
  warn(logger, 'notes', { index: 'later' });
  expect(lines).toEqual([
    { index: 0, alsoRefused: 0 },
    { index: 'other', alsoRefused: 0 },
    { index: 'later', alsoRefused: 499 },
  ]);
});

test.each<[string, SyncError, number]>([
  ['as long as the provider asks', new SyncError('rate_limited', 'slow', { retryAfter: 90_000 }), 90_000],
  ['a minute where it names no time', new SyncError('rate_limited', 'slow'), 60_000],
  ['an hour at most', new SyncError('rate_limited', 'slow', { retryAfter: 1e12 }), 3_600_000],
  ['a second at least', new SyncError('rate_limited', 'slow', { retryAfter: -5 }), 1_000],
  ['not at all for other errors', new SyncError('server_failed', 'down', { retryAfter: 5_000 }), 0],
])('a limit pauses %s', (_name, error, expected) => {
  const pauses = createPauses(createTravellingClock());
  expect(pauses.note('notes', error, 'poll')).toBe(expected);
  expect(pauses.left('notes', 'poll')).toBe(expected);
});

test('a pause ends by itself, and a shorter one does not cut a longer one', async () => {
  const clock = createTravellingClock();
  const pauses = createPauses(clock);
  expect(pauses.left('notes', 'poll')).toBe(0);
  pauses.pause('notes', 10_000);
  pauses.pause('notes', 1_000);
  await clock.advance(4_000);
  expect(pauses.left('notes', 'poll')).toBe(6_000);
  expect(pauses.left('other', 'poll')).toBe(0);
  await clock.advance(6_000);
  expect(pauses.left('notes', 'poll')).toBe(0);
});

test("a provider's limit is everybody's; one kept for others leaves them free", () => {
  const pauses = createPauses(createTravellingClock());
  const left = () => (['fetch', 'poll', 'background'] as const).map((use) => pauses.left('notes', use));
  pauses.note('notes', new SyncError('rate_limited', 'half is kept', { retryAfter: 3_000 }), 'background');
  expect(left()).toEqual([0, 0, 3_000]);
  pauses.note('notes', new SyncError('rate_limited', 'a little is kept', { retryAfter: 2_000 }), 'poll');
  expect(left()).toEqual([0, 2_000, 3_000]);
  pauses.note('notes', new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 }), 'background');
  expect(left()).toEqual([9_000, 9_000, 9_000]);
});
