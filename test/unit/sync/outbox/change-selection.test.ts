import { expect, test } from 'vitest';
import { writeMeta } from '../../../../src/store/meta.ts';
import { findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { writeServerFact } from '../../../../src/store/server-facts.ts';
import { PULL_REQUESTS_READ, TASKS_READ } from '../../../../src/store/workspace-reads.ts';
import { createBreaker } from '../../../../src/sync/outbox/breaker.ts';
import { createChangeScheduler } from '../../../../src/sync/outbox/change-scheduler.ts';
import type { Pace } from '../../../../src/sync/outbox/outbox-context.ts';
import { waits } from '../../../support/changes.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import type { OpenedStore } from '../../../support/store.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const HOUR = 3_600_000;
const RECORD = 'pull_request:github/7/1';

async function bench({ visibility = undefined as number | undefined, isRead = true } = {}) {
  const store = await openTestStore();
  if (isRead) for (const fact of [TASKS_READ, PULL_REQUESTS_READ]) await writeMeta(store.query, fact, '1');
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  return { store, ...schedulerOver(store, visibility) };
}

function schedulerOver(store: Pick<OpenedStore, 'query' | 'commit'>, visibility?: number) {
  const clock = createTravellingClock();
  const breaker = createBreaker();
  const state = { isHalted: false, paces: [] as readonly Pace[] };
  const throttle = {
    ...{ isHalted: () => state.isHalted, paces: () => state.paces, usedShare: () => 0 },
    acquire: () => Promise.reject(new Error('nothing is sent here')),
  };
  const scheduler = createChangeScheduler({
    recordsPullRequests: true,
    store: store as OpenedStore,
    throttle,
    clock,
    breaker,
    visibility,
  });
  return { clock, breaker, state, scheduler };
}

/** A record that differs since now, and is due so much later, milliseconds. */
async function recordDueIn(store: OpenedStore, now: number, ms: number, entity = RECORD) {
  await waits(store.query, entity, { kind: 'pull_request', lane: 'mirror', since: now, due: now + ms });
}

test('a clock that was set back lets nothing wait until the old time has come again, and one that is corrected a little does', async () => {
  const { store, clock, scheduler } = await bench();
  await recordDueIn(store, clock.now(), 5_000);
  expect((await scheduler.nextChange())?.at).toBe(clock.now() + 5_000);
  clock.jumpWall(-1_000);
  expect((await scheduler.nextChange())?.at).toBe(clock.now() + 6_000);
  clock.jumpWall(-1_001);
  expect(await scheduler.nextChange()).toMatchObject({ entity: RECORD, at: clock.now(), due: clock.now() });
  // Only the jump itself: what comes from now on is dated by the new clock.
  await updateChange(store.query, RECORD, { since: clock.now() + 9_000, due: clock.now() + 9_000 });
  await clock.advance(10);
  expect((await scheduler.nextChange())?.at).toBe(clock.now() + 8_990);
});

test('a clock that was set ahead makes due what it says is due, and going back from there counts as set back', async () => {
  const { store, clock, scheduler } = await bench();
  await recordDueIn(store, clock.now(), 2 * HOUR);
  await scheduler.nextChange();
  clock.jumpWall(HOUR);
  expect((await scheduler.nextChange())?.at).toBe(clock.now() + HOUR);
  await updateChange(store.query, RECORD, { since: clock.now() });
  clock.jumpWall(-HOUR);
  expect((await scheduler.nextChange())?.at).toBe(clock.now());
});

test('whichever statement fails after the clock was set back, whoever asks is told', async () => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      const { clock, scheduler } = schedulerOver(store as OpenedStore);
      await waits(store.query, RECORD, { kind: 'pull_request', since: clock.now(), due: clock.now() });
      await scheduler.nextChange();
      clock.jumpWall(-HOUR);
      return () => scheduler.nextChange();
    },
    { inParts: true },
  );
  expect(wrong).toEqual([]);
});

test('until the workspace was read once only reads go; from then on that is remembered', async () => {
  const { store, clock, scheduler } = await bench({ isRead: false });
  await recordDueIn(store, clock.now(), 0);
  expect([await scheduler.nextChange(), scheduler.mayWrite()]).toEqual([undefined, false]);
  await writeMeta(store.query, TASKS_READ, '1');
  expect(await scheduler.nextChange()).toBeUndefined();
  await writeMeta(store.query, PULL_REQUESTS_READ, '1');
  expect([(await scheduler.nextChange())?.entity, scheduler.mayWrite()]).toEqual([RECORD, true]);
});

test('whoever is to send only writes reads nothing', async () => {
  const { store, clock, scheduler } = await bench();
  await waits(store.query, 'read:tasks', { kind: 'read', due: 1 });
  await recordDueIn(store, clock.now(), 0);
  expect((await scheduler.nextChange())?.entity).toBe('read:tasks');
  scheduler.selectWritesOnly();
  expect((await scheduler.nextChange())?.entity).toBe(RECORD);
});

test('before all backfills goes what is live', async () => {
  const { store, clock, scheduler } = await bench();
  await waits(store.query, 'pull_request:old', { kind: 'pull_request', lane: 'backfill' });
  expect([(await scheduler.nextChange())?.entity, await scheduler.nextLiveChange()]).toEqual([
    'pull_request:old',
    undefined,
  ]);
  await recordDueIn(store, clock.now(), 7_000);
  expect(await scheduler.nextLiveChange()).toMatchObject({ entity: RECORD, at: clock.now() + 7_000 });
});

test('while nothing gets through, or our key is refused, changes go in turn', async () => {
  const { store, clock, scheduler, breaker, state } = await bench();
  await recordDueIn(store, clock.now() - 9_000, 0);
  await recordDueIn(store, clock.now() - 5_000, 0, 'pull_request:2');
  await updateChange(store.query, RECORD, { not_before: clock.now() });
  const next = async () => [scheduler.isProbing(), (await scheduler.nextChange())?.entity];
  expect(await next()).toEqual([false, RECORD]);
  state.isHalted = true;
  expect(await next()).toEqual([true, 'pull_request:2']);
  state.isHalted = false;
  for (const entity of ['a', 'b', 'c']) breaker.failed(entity);
  expect(await next()).toEqual([true, 'pull_request:2']);
});

test.each<[what: string, visibility: number | undefined, paces: readonly Pace[], ahead: number]>([
  ['nothing is promised', undefined, [{ slots: 1, hold: HOUR }], 0],
  ['the quota suffices', 60_000, [{ slots: 99, hold: 60_000 }], 0],
  ['one slot must serve two that are due together', 60_000, [{ slots: 1, hold: 60_000 }], 62_000],
])(
  'changes go ahead of their due times where the quota cannot serve all in time: %s',
  async (_what, visibility, paces, ahead) => {
    const { store, clock, scheduler, state } = await bench({ visibility });
    state.paces = paces;
    for (const entity of [RECORD, 'pull_request:2']) await recordDueIn(store, clock.now(), HOUR, entity);
    expect((await scheduler.eligible()).leadTime).toBe(ahead);
    expect((await scheduler.nextChange())?.at).toBe(clock.now() + HOUR - ahead);
    expect((await findChange(store.query, RECORD))?.due).toBe(clock.now() + HOUR);
  },
);
