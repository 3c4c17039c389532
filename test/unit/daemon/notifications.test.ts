import { expect, it, onTestFinished } from 'vitest';
import { createNotifications } from '../../../src/daemon/notifications.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import type { Installation } from '../../../src/store/installation.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const SECOND = 1_000;

/** A process that receives notifications, and whose reads of tokens may fail. */
async function openReceiver() {
  const clock = createTravellingClock();
  const file = await openTestInstallation({ file: ':memory:' });
  let receive: (payload: string) => void = () => undefined;
  const sent: string[] = [];
  const asServer: Partial<NonNullable<Installation['asServer']>> = {
    notify: async (_channel, payload) => void sent.push(payload),
    async listen(_channel, call, missed) {
      receive = call;
      missed();
      return async () => undefined;
    },
  };
  const installation = { ...file, asServer: asServer as NonNullable<Installation['asServer']> };
  const tokens = { reads: 0, fails: false };
  const notifications = createNotifications({
    installation,
    clock,
    logger: silentLogger,
    wake: () => undefined,
    async rereadTokens() {
      tokens.reads++;
      if (tokens.fails) throw new Error('the database is away');
    },
  });
  onTestFinished(async () => {
    await notifications.stop();
    await file.close();
  });
  notifications.start();
  await clock.advance(0);
  return { clock, tokens, notifications, sent, receive: (payload: string) => receive(payload) };
}

it('reads tokens again each second after a failed read, because one may be revoked', async () => {
  const { clock, tokens, receive } = await openReceiver();
  tokens.fails = true;
  receive('tokens');
  await clock.advance(5 * SECOND);
  tokens.fails = false;
  const before = tokens.reads;
  expect(before).toBeGreaterThanOrEqual(5);
  await clock.advance(10 * SECOND);
  expect(tokens.reads - before).toBe(1);
});

it('reads tokens once a minute without a notification, because its sender may have ended', async () => {
  const { clock, tokens } = await openReceiver();
  const before = tokens.reads;
  await clock.advance(600 * SECOND);
  expect(tokens.reads - before).toBeGreaterThanOrEqual(9);
  expect(tokens.reads - before).toBeLessThanOrEqual(10);
});

it('sends pending notifications at a stop, and none later', async () => {
  const { notifications, clock, sent } = await openReceiver();
  notifications.notifyOwner('acme');
  notifications.notifyOwner('other');
  expect(sent).toEqual([]);
  await notifications.stop();
  expect(sent).toEqual(['["acme","other"]']);
  await clock.advance(SECOND);
  expect(sent).toHaveLength(1);
});
