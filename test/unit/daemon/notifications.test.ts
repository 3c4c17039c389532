import { expect, it, onTestFinished } from 'vitest';
import { createNotifications } from '../../../src/daemon/notifications.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import type { Installation } from '../../../src/store/installation.ts';
import { openTestInstallation } from '../../support/store.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const SECOND = 1_000;

/** A process that is told by others, and whose reading of tokens may fail. */
async function openListener() {
  const clock = createTravellingClock();
  const file = await openTestInstallation({ file: ':memory:' });
  let hear: (payload: string) => void = () => undefined;
  const told: string[] = [];
  const asServer: Partial<NonNullable<Installation['asServer']>> = {
    notify: async (_channel, payload) => void told.push(payload),
    async listen(_channel, heard, missed) {
      hear = heard;
      missed();
      return async () => undefined;
    },
  };
  const installation = { ...file, asServer: asServer as NonNullable<Installation['asServer']> };
  const seen = { reads: 0, fails: false };
  const wakeSignals = createNotifications({
    ...{ installation, clock, logger: silentLogger, wake: () => undefined },
    async rereadTokens() {
      seen.reads++;
      if (seen.fails) throw new Error('the database is away');
    },
  });
  onTestFinished(async () => {
    await wakeSignals.stop();
    await file.close();
  });
  wakeSignals.start();
  await clock.advance(0);
  return { clock, seen, wakeSignals, told, hear: (payload: string) => hear(payload) };
}

it('tokens that could not be read are read again a second later: one of them may be revoked', async () => {
  const { clock, seen, hear } = await openListener();
  seen.fails = true;
  hear('tokens');
  await clock.advance(5 * SECOND);
  seen.fails = false;
  const before = seen.reads;
  expect(before).toBeGreaterThanOrEqual(5);
  await clock.advance(10 * SECOND);
  expect(seen.reads - before).toBe(1);
});

it('tokens are read once a minute though nobody tells of them: who revoked one may have ended before it told', async () => {
  const { clock, seen } = await openListener();
  const before = seen.reads;
  await clock.advance(600 * SECOND);
  expect(seen.reads - before).toBeGreaterThanOrEqual(9);
  expect(seen.reads - before).toBeLessThanOrEqual(10);
});

it('a process that stops tells at once of what it has stored, and tells nothing after that', async () => {
  const { wakeSignals, clock, told } = await openListener();
  wakeSignals.notifyOwner('acme');
  wakeSignals.notifyOwner('other');
  expect(told).toEqual([]);
  await wakeSignals.stop();
  expect(told).toEqual(['["acme","other"]']);
  await clock.advance(SECOND);
  expect(told).toHaveLength(1);
});
