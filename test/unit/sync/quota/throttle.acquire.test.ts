import { afterEach, expect, test } from 'vitest';
import type { Lane } from '../../../../src/model/lane.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { readLedger } from '../../../../src/store/ledger.ts';
import { readMeta } from '../../../../src/store/meta.ts';
import type { QuotaOptions } from '../../../../src/sync/quota/limits.ts';
import type { Slot } from '../../../../src/sync/quota/slot.ts';
import { createThrottle, type Throttle } from '../../../../src/sync/quota/throttle.ts';
import { type OpenedStore, openStore } from '../../../support/store.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/travelling-clock.ts';

const MINUTE = 60_000;
const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

const QUOTA: QuotaOptions = {
  requests: 10,
  window: 15 * MINUTE,
  burst: 4,
  burstWindow: MINUTE,
  share: 1,
  concurrency: 4,
};

const opened: OpenedStore[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

interface Bench {
  readonly clock: TravellingClock;
  readonly store: OpenedStore;
  readonly throttle: Throttle;
  /** Lanes and dues in the order in which they got a slot. */
  readonly given: string[];
  /** Asks for a slot and keeps it. */
  wish(lane: Lane, due?: number, signal?: AbortSignal): Promise<Slot>;
  /** Asks for a slot and completes it at once. */
  send(lane: Lane, due?: number, status?: number, retryAfter?: number): Promise<void>;
  restart(quota?: Partial<QuotaOptions>): Promise<Bench>;
}

async function bench(
  quota: Partial<QuotaOptions> = {},
  clock = createTravellingClock(),
  kept?: OpenedStore,
): Promise<Bench> {
  const store = kept ?? (await openStore({ file: ':memory:' }));
  if (kept === undefined) opened.push(store);
  const options = { store, clock, random, logger: silentLogger, meter: silentMeter };
  const throttle = await createThrottle({ ...options, quota: { ...QUOTA, ...quota } });
  const given: string[] = [];
  const wish = async (lane: Lane, due = 1, signal?: AbortSignal) => {
    const slot = await throttle.acquire({ lane, due, signal });
    given.push(`${lane} ${due}`);
    await store.commit((query) => slot.record(query));
    return slot;
  };
  return {
    clock,
    store,
    throttle,
    given,
    wish,
    async send(lane, due, status = 200, retryAfter) {
      const slot = await wish(lane, due);
      await slot.complete({ status, retryAfter });
    },
    restart: (changed = {}) => bench({ ...quota, ...changed }, clock, store),
  };
}

/** Completes `count` background requests, one after the other. */
async function spend(on: Bench, count: number, lane: Lane = 'mirror'): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) await on.send(lane);
}

test('the most urgent waiting wish goes first, also when it came last; equals in order of arrival; backfills after all', async () => {
  const on = await bench({ concurrency: 1 });
  const first = await on.wish('mirror', 50);
  const rest = [on.send('mirror', 30), on.send('link', 20), on.send('backfill', 20), on.send('triage', 10)];
  await on.clock.advance(1);
  expect(on.given).toEqual(['mirror 50']);
  await first.complete({ status: 200 });
  await on.clock.until(() => on.given.length === 5);
  await Promise.all(rest);
  expect(on.given).toEqual(['mirror 50', 'triage 10', 'link 20', 'mirror 30', 'backfill 20']);
});

test('an urgent wish that comes while no slot is free goes before those that wait longer', async () => {
  const on = await bench();
  await spend(on, 4);
  const late = on.send('mirror', 99);
  await on.clock.advance(30_000);
  const urgent = on.send('mirror', 5);
  await on.clock.advance(31_000);
  await Promise.all([late, urgent]);
  expect(on.given.slice(4)).toEqual(['mirror 5', 'mirror 99']);
});

test('a slot is freed one window after the completion, not after the start', async () => {
  const on = await bench({ burst: 1 });
  const slot = await on.wish('mirror');
  await on.clock.advance(50_000);
  await slot.complete({ status: 200 });
  const next = on.wish('mirror');
  await on.clock.advance(60_000);
  expect(on.given).toHaveLength(1);
  await on.clock.advance(32);
  await next;
  expect(on.clock.elapsed()).toBe(110_032);
});

test('never more than the concurrency are in flight', async () => {
  const on = await bench({ concurrency: 2 });
  const wishes = [on.wish('mirror'), on.wish('mirror'), on.wish('mirror')];
  await on.clock.advance(10 * MINUTE);
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 2, nextSlotAt: expect.any(Number) });
  expect(on.given).toHaveLength(2);
  await (await wishes[0])?.complete({ status: 200 });
  await Promise.all(wishes);
});

test('a released slot is free at once; releasing again, or completing after it, changes nothing', async () => {
  const on = await bench({ burst: 1 });
  const slot = await on.wish('mirror');
  slot.release();
  slot.release();
  await slot.complete({ status: 200 });
  await on.send('mirror');
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 0, burst: { used: 1 } });
});

test('the reserve is for people: the background keeps to its share, interactive wishes take the whole cap', async () => {
  const on = await bench({ burst: 0, share: 0.8, concurrency: 1 });
  await spend(on, 8);
  const background = on.send('mirror', 1);
  const people = [on.send('interactive', 60), on.send('interactive', 90), on.send('interactive', 70)];
  await on.clock.advance(MINUTE);
  expect(on.given.slice(8)).toEqual(['interactive 60', 'interactive 70']);
  expect(on.throttle.snapshot()).toMatchObject({
    long: { cap: 10, used: 10, usedByBackground: 8, backgroundLimit: 8 },
    burst: { cap: null },
    waiting: { interactive: 1, mirror: 1 },
    effectiveShare: 0.8,
  });
  await on.clock.until(() => on.given.length === 12);
  await Promise.all([background, ...people]);
  expect(on.given.slice(10).toSorted()).toEqual(['interactive 90', 'mirror 1']);
});

test('the background has at least one slot, however small the share', async () => {
  const on = await bench({ share: 0 });
  await on.send('mirror');
  expect(on.throttle.usedShare()).toBe(1);
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(1);
});

test('a lifted limit does not limit', async () => {
  const on = await bench({ requests: 0, burst: 0 });
  await spend(on, 300);
  expect(on.clock.elapsed()).toBe(0);
  expect(on.throttle.usedShare()).toBe(0);
  const { nextSlotAt, long } = on.throttle.snapshot();
  expect(nextSlotAt).toBe(on.clock.now());
  expect(long).toMatchObject({ cap: null, backgroundLimit: null, backfillLimit: null });
});

test('u is the used part of the long window', async () => {
  const on = await bench({ share: 0.5 });
  expect(on.throttle.usedShare()).toBe(0);
  await spend(on, 2, 'interactive');
  expect(on.throttle.usedShare()).toBe(0.2);
  await spend(on, 2);
  expect(on.throttle.usedShare()).toBe(0.4);
  await on.clock.advance(16 * MINUTE);
  expect(on.throttle.usedShare()).toBe(0);
});

test('a refusal pauses every lane until the hint, then lets one at a time until one is let in', async () => {
  const on = await bench({ burst: 0, requests: 100, share: 0.8 });
  await on.send('mirror', 1, 429, 30_000);
  const wishes = [on.wish('interactive'), on.wish('mirror'), on.wish('mirror')];
  await on.clock.advance(29_999);
  expect(on.given).toHaveLength(1);
  expect(on.throttle.snapshot()).toMatchObject({ limited: true, effectiveShare: expect.closeTo(0.436, 3) });
  expect(on.throttle.snapshot().paused?.until).toBe(on.clock.now() + 1);
  await on.clock.advance(1);
  expect(on.given).toHaveLength(2);
  const probe = await Promise.race(wishes);
  await probe.complete({ status: 200 });
  await on.clock.advance(1_000);
  await Promise.all(wishes);
  expect(on.throttle.snapshot()).toMatchObject({ limited: false, paused: null });
});

test('once refused, requests go one by one, and past one that is slow to answer', async () => {
  const on = await bench({ burst: 0, requests: 100, concurrency: 3 });
  await on.send('mirror', 1, 429, 1_000);
  await on.clock.advance(1_000);
  await on.send('mirror');
  const wishes = [on.wish('mirror'), on.wish('mirror'), on.wish('mirror')];
  const first = await Promise.race(wishes);
  await on.clock.advance(999);
  expect(on.given).toHaveLength(3);
  await on.clock.advance(1);
  expect(on.given).toHaveLength(4);
  await first.complete({ status: 200 });
  expect(on.given).toHaveLength(4);
});

test('without a hint the pause is jittered and doubles with each refusal in a row', async () => {
  const on = await bench({ burst: 0, requests: 100 });
  const pauses: number[] = [];
  for (let refusal = 0; refusal < 4; refusal += 1) {
    const sent = on.send('mirror', 1, 429);
    if (refusal > 0) await on.clock.toNextTimer();
    await sent;
    pauses.push((on.throttle.snapshot().paused?.until ?? 0) - on.clock.now());
  }
  expect(pauses).toEqual([500, 1_000, 2_000, 4_000]);
});

test('the share grows back while wishes wait, and a slot that it gains is used at once', async () => {
  const on = await bench({ burst: 0, requests: 200 });
  await spend(on, 99);
  await on.send('mirror', 1, 429, 1_000);
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(100);
  const next = on.send('mirror');
  await on.clock.advance(3_210);
  expect(on.given).toHaveLength(100);
  await on.clock.advance(2);
  await next;
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(101);
});

test('a pause after a refusal, and the share, survive a restart, a reboot and a jump of the wall clock', async () => {
  const before = await bench({ burst: 0, requests: 100 });
  await before.send('mirror', 1, 429, 300_000);
  before.clock.jumpWall(86_400_000);
  const restarted = await before.restart();
  expect(restarted.throttle.snapshot()).toMatchObject({ limited: true, effectiveShare: 0.5 });
  const left = () => (restarted.throttle.snapshot().paused?.until ?? 0) - restarted.clock.now();
  expect(left()).toBe(300_000);
  restarted.clock.jumpWall(-2 * 86_400_000);
  restarted.clock.reboot();
  const rebooted = await restarted.restart();
  const sent = rebooted.send('mirror');
  await rebooted.clock.advance(299_999);
  expect(rebooted.given).toEqual([]);
  await rebooted.clock.advance(1);
  await sent;
});

const REFUSED = { status: 401, key: { code: 'unauthorized', reason: 'the key was refused' } } as const;
const ACCEPTED = { status: 200, key: null } as const;

test('a refused key stops every lane, survives a restart, and is forgotten with the key; a refusal is not', async () => {
  const on = await bench();
  await (await on.wish('mirror')).complete(REFUSED);
  on.given.length = 0;
  expect(on.throttle.snapshot().paused).toEqual({ until: on.clock.now() + 5 * MINUTE, ...REFUSED.key });
  const again = await on.restart();
  const sent = again.send('interactive', 1, 429, 10_000);
  await again.clock.advance(MINUTE);
  expect(again.given).toEqual([]);
  await again.throttle.resume();
  await sent;
  await again.throttle.resume();
  expect(again.throttle.snapshot().paused?.until).toBe(again.clock.now() + 10_000);
});

test('with a refused key nobody goes until the pause is over, then one at a time until one is accepted', async () => {
  const on = await bench();
  const early = await on.wish('mirror');
  const refused = await on.wish('mirror');
  const lanes = ['interactive', 'mirror', 'link'] as const;
  await refused.complete(REFUSED);
  const slots = lanes.map((lane) => on.wish(lane));
  // It was on its way before the key was refused, and proves nothing.
  await early.complete(ACCEPTED);
  await on.clock.advance(5 * MINUTE - 1);
  expect(on.given).toHaveLength(2);
  expect(on.throttle.isHalted()).toBe(true);
  await on.clock.advance(1);
  expect(on.given).toHaveLength(3);
  await on.clock.advance(MINUTE);
  expect(on.given).toHaveLength(3);
  await (await slots[0])?.complete(REFUSED);
  await on.clock.advance(5 * MINUTE);
  expect(on.given).toHaveLength(4);
  await (await Promise.race(slots.slice(1)))?.complete(ACCEPTED);
  await Promise.all(slots);
  expect(on.throttle.snapshot()).toMatchObject({ halt: null, paused: null });
});

test('a wish is withdrawn by its signal while it waits; a slot that was given is not', async () => {
  const on = await bench({ burst: 1 });
  const control = new AbortController();
  const slot = await on.wish('mirror', 1, control.signal);
  const second = on.wish('mirror', 1, control.signal);
  const third = on.wish('mirror', 2);
  control.abort();
  await expect(second).rejects.toMatchObject({ code: 'aborted' });
  await expect(on.wish('mirror', 1, control.signal)).rejects.toMatchObject({ code: 'aborted' });
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 1, waiting: { mirror: 1 } });
  await slot.complete({ status: 200 });
  await on.clock.advance(MINUTE + 32);
  await third;
});

test('stop turns away who waits, and waits for who was served', async () => {
  const on = await bench({ burst: 1 });
  const slot = await on.wish('mirror');
  const waiting = on.wish('mirror');
  let stopped = false;
  const stopping = on.throttle.stop().then(() => {
    stopped = true;
  });
  await expect(waiting).rejects.toMatchObject({ code: 'aborted' });
  await on.clock.advance(MINUTE);
  expect(stopped).toBe(false);
  await slot.complete({ status: 200 });
  await stopping;
  await expect(on.wish('mirror')).rejects.toMatchObject({ code: 'aborted' });
  expect(on.clock.pending).toBe(0);
});

test('an end inside a transaction that is rolled back can be written again', async () => {
  const on = await bench();
  const slot = await on.wish('mirror');
  const failing = on.store.commit(async (query) => {
    await slot.complete({ status: 429, retryAfter: 60_000 }, query);
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  expect(await readLedger(on.store.query)).toMatchObject([{ completed: null }]);
  await on.clock.advance(5_000);
  await slot.complete({ status: 429, retryAfter: 60_000 });
  expect(await readLedger(on.store.query)).toMatchObject([{ completed: 0, status: 429 }]);
  const again = await on.restart();
  expect(again.throttle.snapshot().paused?.until).toBe(on.clock.now() + 55_000);
});

test('however many wait there is one timer for them, and a request costs one commit before it and one after it', async () => {
  let commits = 0;
  const steps = { reached: (kind: string, edge: string) => void (kind === 'commit' && edge === 'after' && commits++) };
  const store = await openStore({ file: ':memory:', steps });
  opened.push(store);
  const on = await bench({}, createTravellingClock(), store);
  commits = 0;
  await spend(on, 4);
  expect(commits).toBe(8);
  const waiting = Array.from({ length: 100 }, (_each, due) => on.wish('mirror', due));
  const outcomes = Promise.allSettled(waiting);
  await on.clock.advance(1);
  // The other one notes the time.
  expect(on.clock.pending).toBe(2);
  await on.throttle.stop();
  expect((await outcomes).every(({ status }) => status === 'rejected')).toBe(true);
});

test('while a window holds something the time is noted every few seconds, and then no more', async () => {
  const on = await bench({ burst: 0, requests: 100 });
  await spend(on, 1);
  const noted = async () =>
    (JSON.parse((await readMeta(on.store.query, 'throttle.beat')) ?? '{}') as { at?: number }).at;
  await on.clock.advance(60_000);
  expect(on.clock.monotonic() - ((await noted()) ?? 0)).toBeLessThanOrEqual(5_000);
  await on.clock.advance(16 * MINUTE);
  const last = await noted();
  await on.clock.advance(60_000);
  expect(await noted()).toBe(last);
});

test('backfills go evenly, leave slots to the live lanes, and wait while these use theirs', async () => {
  const on = await bench({ burst: 0, requests: 100 });
  const backfills = Array.from({ length: 120 }, () => on.send('backfill'));
  await on.clock.advance(8_999);
  expect(on.given).toHaveLength(1);
  await on.clock.advance(90_000);
  expect(on.given).toHaveLength(11);
  await on.clock.advance(13 * MINUTE);
  // Three stay free for live lanes, and one for who might come although nobody came lately.
  expect(on.given).toHaveLength(96);
  await spend(on, 3);
  expect(on.given.slice(-3)).toEqual(['mirror 1', 'mirror 1', 'mirror 1']);
  expect(on.throttle.usedShare()).toBeCloseTo(0.03, 9);
  await on.clock.until(() => on.given.length === 123);
  await Promise.all(backfills);
});

test('at full share a little is kept for people from when one asks, and a slot in time is foretold', async () => {
  const on = await bench({ burst: 0, requests: 100 });
  await spend(on, 100);
  await on.clock.advance(5 * MINUTE);
  const background = Array.from({ length: 100 }, () => on.send('mirror'));
  const foretold = on.throttle.snapshot().nextForPeopleAt;
  expect(foretold - on.clock.now()).toBeCloseTo(10 * MINUTE, -3);
  const person = on.wish('interactive', 99);
  await on.clock.until(() => on.given.includes('interactive 99'));
  expect(on.clock.now()).toBe(foretold);
  await (await person).complete({ status: 200 });
  await on.clock.advance(1);
  expect(on.throttle.snapshot().long).toMatchObject({ usedByBackground: 95, backgroundLimit: 95 });
  await on.send('interactive');
  await on.clock.advance(15 * MINUTE + 1_000);
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(100);
  await Promise.all(background);
});

test('an automatic share leaves room at first, rises while nobody else is noticed, and falls at the first sign of somebody', async () => {
  const HOUR = 60 * MINUTE;
  const on = await bench({ requests: 200, burst: 0, share: 'auto' });
  const limit = () => on.throttle.snapshot().long.backgroundLimit;
  expect(limit()).toBe(170);
  await on.clock.advance(3.5 * HOUR);
  expect(limit()).toBe(183);
  // What was seen so far is not lost by a restart, nor by a reboot.
  on.clock.reboot();
  const later = await on.restart();
  await on.clock.advance(2.5 * HOUR);
  expect(later.throttle.snapshot()).toMatchObject({ configuredShare: 'auto', effectiveShare: 0.985, ceiling: 0.985 });
  await later.send('mirror', 1, 429, 60_000);
  expect(later.throttle.snapshot().effectiveShare).toBeCloseTo(0.985 / 2, 9);
  await on.clock.advance(HOUR);
  expect(later.throttle.snapshot().long.backgroundLimit).toBe(170);
  await on.clock.advance(5 * HOUR);
  expect(later.throttle.snapshot().long.backgroundLimit).toBe(197);
});

test('the first start with another share than before says so; one that is new or the same says nothing', async () => {
  const said: string[] = [];
  const logger = { ...silentLogger, info: (_fields: object, text: string) => void said.push(text) };
  const store = await openStore({ file: ':memory:' });
  opened.push(store);
  const clock = createTravellingClock();
  const start = (share: QuotaOptions['share']) =>
    createThrottle({ store, clock, random, logger, meter: silentMeter, quota: { ...QUOTA, share } });
  const former = await start('auto');
  const slot = await former.acquire({ lane: 'mirror', due: 1 });
  await store.commit((query) => slot.record(query));
  await slot.complete({ status: 200 });
  await former.stop();
  await start('auto');
  expect(said).toEqual([]);
  // As a version left it that noted no share: an unset one was 0.8.
  await store.query.deleteFrom('meta').where('name', '=', 'throttle.share').execute();
  await start('auto');
  expect(said).toEqual([expect.stringContaining('quota.share is auto now')]);
  await start('auto');
  expect(said).toHaveLength(1);
  await start(0.5);
  expect(said[1]).toContain('quota.share has changed');
});

test('after an unclean end requests go one by one for a window, past those that are slow', async () => {
  const dead = await bench();
  const careful = await dead.restart();
  const first = await careful.wish('mirror');
  const second = careful.wish('mirror');
  expect(careful.given).toHaveLength(1);
  await careful.clock.advance(30_000);
  expect(careful.given).toHaveLength(2);
  await first.complete({ status: 200 });
  await (await second).complete({ status: 200 });
  await careful.clock.advance(16 * MINUTE);
  const slots = await Promise.all([careful.wish('mirror'), careful.wish('mirror'), careful.wish('mirror')]);
  for (const slot of slots) await slot.complete({ status: 200 });

  await careful.throttle.stop();
  await careful.clock.advance(2 * MINUTE);
  const rested = await careful.restart();
  await Promise.all([rested.wish('mirror'), rested.wish('link')]);
  expect(rested.given).toHaveLength(2);
});

test('a slot that nobody can complete keeps neither the next one nor the end of the throttle waiting', async () => {
  const on = await bench({ concurrency: 1 });
  const slot = await on.wish('mirror');
  slot.leave();
  (await on.wish('mirror')).leave();
  await on.throttle.stop();
  const rows = await readLedger(on.store.query);
  expect(rows.map(({ completed }) => completed)).toEqual([null, null]);
});
