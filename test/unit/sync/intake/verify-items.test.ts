import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { purposeNow } from '../../../../src/platform/lib/purpose.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveItem } from '../../../../src/store/items.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { createVerification } from '../../../../src/sync/intake/verify-items.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { createForge, forgeItem } from '../../../support/fakes/forge.ts';
import { activeWith, openTestStore } from '../../../support/harness/intake.ts';
import { itemRow } from '../../../support/rows/items.ts';

const MINUTE = 60_000;

/** Stores unverified pull requests with these numbers; 1 and 2 are merged. @param fetch throws the vendor's error */
async function verifying(numbers: readonly number[], fetch: (number: string, time: number) => void) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  for (const number of numbers) {
    const item = forgeItem('app', { number, title: '', state: number < 3 ? 'merged' : 'open', updatedAt: 1 });
    const of = { connection: 'forge', kind: 'pull_request', finished: number < 3 ? 1 : 0, unverified: 1 } as const;
    await saveItem(store.query, itemRow(item.key, { ...of, fields: JSON.stringify({ item, older: {} }) }), 1);
  }
  const { connector } = createForge({ app: [] });
  const requested: { number: string; time: number; purpose: string | undefined }[] = [];
  const connection = {
    ...connector.connect({}, {} as never),
    async fetch({ key }: { readonly key: string }) {
      const number = key.split(':').at(-1) ?? '';
      requested.push({ number, time: clock.elapsed(), purpose: purposeNow() });
      fetch(number, clock.elapsed());
      return { event: 'item', body: Buffer.from(number) };
    },
  };
  const verification = createVerification({
    store,
    clock,
    random: systemRandom(),
    logger: silentLogger,
    inbox: createWakeSignal(),
    pauses: createPauses(clock),
    connections: [activeWith({ name: 'forge', connector, connection })],
  });
  return { ...store, clock, requested, verification };
}

test('fetches open items first, one every two seconds, for the purpose `restore`', async () => {
  const { clock, requested, verification, query } = await verifying([1, 2, 3, 4], () => undefined);
  verification.start();
  await clock.advance(MINUTE);
  expect(requested.map(({ number }) => number)).toEqual(['3', '4', '1', '2']);
  expect(requested.every(({ purpose }) => purpose === 'restore')).toBe(true);
  const times = requested.map(({ time }) => time);
  expect(times.slice(1).every((time, index) => time - (times[index] ?? 0) >= 2_000)).toBe(true);
  const rows = await query.selectFrom('inbox').select(['source', 'connection']).execute();
  expect(rows).toEqual(Array.from({ length: 4 }, () => ({ source: 'fetch', connection: 'forge' })));
  await verification.stop();
});

test('skips items that the vendor refuses, and waits during a rate limit', async () => {
  const { clock, requested, verification } = await verifying([3, 4, 5], (number, time) => {
    if (number === '3') throw new SyncError('forbidden', 'no');
    if (number === '4' && time < 10 * MINUTE) throw new SyncError('rate_limited', 'wait', { retryAfter: 10 * MINUTE });
  });
  verification.start();
  await clock.advance(5 * MINUTE);
  expect(requested.map(({ number }) => number)).toEqual(['3', '4']);
  await clock.advance(10 * MINUTE);
  expect(requested.map(({ number }) => number)).toEqual(['3', '4', '4', '5']);
  await verification.stop();
});

test('continues after repeated failures of one item, and tries it again later', async () => {
  const { clock, requested, verification } = await verifying([3, 4], (number) => {
    if (number === '3') throw new SyncError('server_failed', 'status 500');
  });
  verification.start();
  await clock.advance(60 * MINUTE);
  expect(requested.map(({ number }) => number)).toEqual(['3', '3', '3', '3', '3', '3', '4']);
  await clock.advance(3 * 60 * MINUTE);
  expect(requested.filter(({ number }) => number === '3').length).toBeGreaterThan(6);
  expect(requested.filter(({ number }) => number === '4')).toHaveLength(1);
  await verification.stop();
});

test('retries within a minute after a database failure', async () => {
  const { clock, requested, verification, query } = await verifying([3], () => undefined);
  const { schema } = query.whole;
  await schema.alterTable('items').renameTo('items_away').execute();
  verification.start();
  await clock.advance(1_000);
  await schema.alterTable('items_away').renameTo('items').execute();
  await clock.advance(MINUTE);
  expect(requested.map(({ number }) => number)).toEqual(['3']);
  await verification.stop();
});

test('requests nothing if no item is unverified', async () => {
  const { clock, requested, verification, query } = await verifying([3], () => undefined);
  await query.updateTable('items').set({ unverified: 0 }).execute();
  verification.start();
  await clock.advance(2 * 60 * MINUTE);
  expect(requested).toEqual([]);
  await verification.stop();
});
