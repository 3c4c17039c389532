import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/yield.ts';
import { requestBackfill } from '../../../../src/store/backfills.ts';
import type { Store } from '../../../../src/store/database.ts';
import { createBackfills } from '../../../../src/sync/intake/backfill-stage.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';

const MINUTE = 60_000;

/** Returns a function that reads one page of a backfill of one unit. */
async function backfill(
  store: Store,
  history: () => Promise<{ event: string; body: Buffer }>,
  clock = createTravellingClock(),
) {
  const requested = Promise.withResolvers<void>();
  const active = activeWith({
    connection: {
      units: async () => ['unit'],
      async history() {
        requested.resolve();
        return history();
      },
    },
  });
  await requestBackfill(store.query, { connection: active.name, since: null, now: clock.now() });
  await store.query.updateTable('backfills').set({ unit: 'unit' }).execute();
  const stage = createBackfills({
    store,
    clock,
    random: systemRandom(),
    logger: silentLogger,
    meter: silentMeter,
    connections: [active],
    pauses: createPauses(clock),
    inbox: createWakeSignal(),
  });
  return async (meanwhile: () => Promise<void> = () => clock.advance(0)) => {
    stage.start();
    await requested.promise;
    await meanwhile();
    await stage.stop();
  };
}

const rows = ({ query }: Store) =>
  query.selectFrom('backfills').select(['unit', 'error', 'attempts', 'finished_at']).execute();

const PAGE = { event: 'list', body: Buffer.from('one') };

test('finishes a unit whose pages form a circle with an error, and keeps the pages', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  let count = 0;
  const circle = async () => ({ ...PAGE, body: Buffer.from(`${count}`), next: ['A', 'B'][count++ % 2] as string });
  const course = await backfill(store, circle, clock);
  await course(async () => {
    for (let page = 0; page < 20; page++) {
      await clock.advance(MINUTE);
      await store.query.updateTable('inbox').set({ state: 'applied' }).execute();
    }
  });
  expect((await rows(store))[0]).toMatchObject({
    error: expect.stringMatching(/^list_endless: /),
    finished_at: expect.any(Number),
  });
  expect(await inboxOf(store)).toHaveLength(4);
});

test.each([
  ['retries a temporary failure', 'server_failed', 'server_failed: down', false],
  ['retries a failure that a person must resolve', 'unauthorized', 'unauthorized: down', false],
  ['finishes a unit that can never be read', 'refused', 'refused: down', true],
  ['finishes a unit that the vendor has switched off, without an error', 'feature_off', null, true],
] as const)('%s', async (_what, code, error, isOver) => {
  const store = await openTestStore();
  await (await backfill(store, () => Promise.reject(new SyncError(code, 'down'))))();
  const [row] = await rows(store);
  expect([row?.error, row?.finished_at !== null]).toEqual([error, isOver]);
});

test.each([
  ['while it waited', async (clock: TravellingClock) => clock.jumpWall(-50 * MINUTE), 1],
  ['before the process began', async () => undefined, 0],
])('does not wait for an old time after the clock was set back %s', async (_what, meanwhile, begun) => {
  const store = await openTestStore();
  const requested: number[] = [];
  const clock = createTravellingClock();
  const course = await backfill(
    store,
    async () => {
      requested.push(clock.elapsed());
      if (requested.length === begun) throw new SyncError('server_failed', 'down', { retryAfter: 5 * MINUTE });
      return PAGE;
    },
    clock,
  );
  if (begun === 0)
    await store.query
      .updateTable('backfills')
      .set({ not_before: clock.now() + 50 * MINUTE })
      .execute();
  await course(async () => {
    await meanwhile(clock);
    await clock.advance(6 * MINUTE);
  });
  expect(requested.length).toBe(begun + 1);
});

test('waits on stop for the page that is being read', async () => {
  const store = await openTestStore();
  const page = Promise.withResolvers<typeof PAGE>();
  let hasEnded = false;
  const end = (await backfill(store, () => page.promise))().then(() => {
    hasEnded = true;
  });
  for (let turn = 0; turn < 50; turn++) await yieldToEventLoop();
  expect(hasEnded).toBe(false);
  page.resolve(PAGE);
  await end;
});

test.each([
  ['a page that it read', async () => PAGE],
  ['a failure', () => Promise.reject(new SyncError('server_failed', 'down'))],
  ['a failure for good', () => Promise.reject(new SyncError('refused', 'down'))],
])('stores nothing of %s after the loss of the workspace', async (_what, history) => {
  expect(await remainsOfLost((store) => backfill(store, history))).toEqual([]);
});
