import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { createThrottle, type Throttle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import type { Bench } from '../bench.ts';
import { figure, type Measured } from '../report.ts';
import { mean, sendAll, type Wait } from './another.ts';
import { FULL_SHARE, seededRandom } from './daemon.ts';
import { available } from './references/available.ts';
import { HELD_OUT_MANNERS, MANNERS, type Manner, wishesOf } from './references/co-tenant.ts';
import { createGate } from './references/windows.ts';
import { createServer, type Server, type ServerAnswer } from './server.ts';

const DAY = 86_400;
const D = 0.15;
/** What its bursts wait for is mostly themselves. */
const AIMS: Readonly<Partial<Record<Manner, { refused: number; wait: number }>>> = {
  bursts: { refused: 9, wait: 180 },
};
const USUAL_AIMS = { refused: 7, wait: 40 };

/**
 * Beside another user of the same windows that is not seen: how much we use of what could be used without ever
 * disturbing it, how often we are refused, and how long it waits. We always have something to send. The throttle is
 * real; what is sent comes from no outbox. Each seed is a life of two days, and the second counts. Of the manners that
 * the controller was not tuned beside, those that repeat can be foreseen by `available` and by no controller without a
 * memory of phases: there the part that is used has no aim.
 */
export const tenant: Bench = {
  figures: ['quota.tenant'],
  async run({ split: { seeds } }) {
    const figures: Measured[] = [];
    for (const manner of [...MANNERS, ...HELD_OUT_MANNERS]) figures.push(...(await besides(manner, seeds)));
    return figures;
  },
};

async function besides(manner: Manner, seeds: readonly number[]): Promise<Measured[]> {
  const days: Shared[] = [];
  for (const seed of seeds) days.push((await playShared(manner, seed, 2, DAY)).at(-1) as Shared);
  const name = `quota.tenant.${manner}`;
  const isTuned = (MANNERS as readonly Manner[]).includes(manner);
  const { refused, wait } = AIMS[manner] ?? USUAL_AIMS;
  const all = (of: (day: Shared) => number) => days.map(of);
  const note = `with up to ${FULL_SHARE.concurrency} in flight before others are detected for the first time, one by one afterwards`;
  return [
    figure(
      { name, unit: 'of available', better: 'higher', aim: isTuned ? 0.87 : false, everyRun: true },
      all((day) => day.used / day.available),
    ),
    figure(
      { name: `${name}.refused`, unit: 'per hour', better: 'lower', aim: refused, everyRun: true },
      all((day) => day.refusedPerHour),
    ),
    figure(
      { name: `${name}.per-pause`, unit: 'refusals', better: 'lower', aim: 1, note, everyRun: true },
      all((day) => day.mostPerPause),
    ),
    figure(
      { name: `${name}.wait`, unit: 's', better: 'lower', aim: wait, everyRun: true },
      all((day) => day.wait),
    ),
    figure(
      { name: `${name}.wait.alone`, unit: 's', better: 'lower', aim: false },
      all((day) => day.waitAlone),
    ),
  ];
}

/** What a day brought. */
export interface Shared {
  readonly used: number;
  readonly available: number;
  readonly refusedPerHour: number;
  /** Most refusals of ours within one pause. */
  readonly mostPerPause: number;
  /** Mean seconds that the other user waited for a request to be let in; and had it been alone. */
  readonly wait: number;
  readonly waitAlone: number;
}

/** Plays so many days of so many seconds without interruption; what is under way at the end is left. */
export async function playShared(manner: Manner, seed: number, days: number, length: number): Promise<Shared[]> {
  const wishes = wishesOf(manner, seed, days * length);
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  const server = createServer({ clock, duration: () => D, arrives: () => 0.5 });
  const parts = { store, clock, random: seededRandom(seed), logger: silentLogger, meter: silentMeter };
  const throttle = await createThrottle({ ...parts, quota: FULL_SHARE });
  const refusals: Refusal[] = [];
  const ours = async (): Promise<void> => {
    for (;;) {
      const wait = await sendOne(throttle, store, server);
      if (wait !== undefined) refusals.push({ at: clock.elapsed() / 1_000, wait });
    }
  };
  for (let worker = 0; worker < FULL_SHARE.concurrency; worker++) void ours();
  const waits: Wait[] = [];
  void sendAll(wishes, { gate: server.gate, clock, waits });
  await clock.advance(days * length * 1_000);
  await store.close();
  const alone = await playAlone(wishes);
  const pauses = pausesOf(refusals);
  return Array.from({ length: days }, (_, day) => {
    const from = day * length;
    const isToday = (at: number) => at >= from && at < from + length;
    const waitOf = (all: readonly Wait[]) => mean(all.filter(({ wish }) => isToday(wish)).map(({ wait }) => wait));
    const undisturbed = alone.accepted.filter(isToday).map((at) => at - from);
    return {
      used: server.writes.filter(({ arrival }) => isToday(arrival)).length,
      available: available(undisturbed, length),
      refusedPerHour: refusals.filter(({ at }) => isToday(at)).length / (length / 3_600),
      mostPerPause: Math.max(0, ...pauses.filter(({ from }) => isToday(from)).map((pause) => pause.refusals)),
      wait: waitOf(waits),
      waitAlone: waitOf(alone.waits),
    };
  });
}

/** @returns the seconds that it was told to wait, where it was refused */
export async function sendOne(throttle: Throttle, store: OpenedStore, server: Server): Promise<number | undefined> {
  const slot = await throttle.acquire({ lane: 'mirror', due: 0 });
  await store.commit((query) => slot.record(query));
  const { retryAfter } = await new Promise<ServerAnswer>((resolve) => server.request('ours', resolve));
  const refusal = retryAfter === undefined ? undefined : { status: 429, retryAfter: retryAfter * 1_000 };
  await slot.complete(refusal ?? { status: 200 });
  return retryAfter;
}

interface Refusal {
  readonly at: number;
  /** Seconds that it was told to wait. */
  readonly wait: number;
}

/** A pause lasts until the end of the longest wait that was told before it was over. */
function pausesOf(refusals: readonly Refusal[]): { from: number; until: number; refusals: number }[] {
  const pauses: { from: number; until: number; refusals: number }[] = [];
  for (const { at, wait } of refusals) {
    const last = pauses.at(-1);
    if (last && at < last.until) {
      last.refusals++;
      last.until = Math.max(last.until, at + wait);
    } else {
      pauses.push({ from: at, until: at + wait, refusals: 1 });
    }
  }
  return pauses;
}

async function playAlone(wishes: readonly number[]): Promise<{ accepted: readonly number[]; waits: readonly Wait[] }> {
  const clock = createTravellingClock();
  const gate = createGate();
  const waits: Wait[] = [];
  const sent = sendAll(wishes, { gate, clock, waits });
  while (await clock.toNextTimer());
  await sent;
  return { accepted: gate.accepted, waits };
}
