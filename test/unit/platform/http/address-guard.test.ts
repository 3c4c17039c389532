import { expect, test } from 'vitest';
import { createAddressGuard } from '../../../../src/platform/http/address-guard.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

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
