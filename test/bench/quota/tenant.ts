import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { createThrottle, type Throttle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { type Bench, figure, figuresOf, type Measured } from '../bench.ts';
import { FULL_SHARE, seededRandom } from './daemon.ts';
import { play } from './play.ts';
import { createChance } from './references/chance.ts';
import {
  HELD_OUT_MANNERS,
  MANNERS,
  type Manner,
  mean,
  regular,
  sendAll,
  type Wait,
  wishesOf,
} from './references/co-tenant.ts';
import { daysOf, type Split } from './references/day.ts';
import { freshness, quantile } from './references/lag.ts';
import { eventLines, eventsOf, type Line } from './references/trace.ts';
import { available, createGate } from './references/windows.ts';
import { createServer, expectWithinWindows, type Server, type ServerAnswer } from './server.ts';

const HOUR = 3_600;
const DAY = 24 * HOUR;
const D = 0.15;
/** Its bursts wait mostly for each other. */
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
  const note = `with up to ${FULL_SHARE.concurrency} in flight before others are detected for the first time, one by one afterwards`;
  const each = { everyRun: true } as const;
  const used = { unit: 'of available', better: 'higher', of: (day: Shared) => day.used / day.available } as const;
  return figuresOf(
    days,
    { ...each, ...used, name, aim: isTuned && 0.87 },
    { ...each, name: `${name}.refused`, unit: 'per hour', aim: refused, of: (day) => day.refusedPerHour },
    { ...each, name: `${name}.per-pause`, unit: 'refusals', aim: 1, note, of: (day) => day.mostPerPause },
    { ...each, name: `${name}.wait`, unit: 's', aim: wait, of: (day) => day.wait },
    { name: `${name}.wait.alone`, unit: 's', of: (day) => day.waitAlone },
  );
}

export type Shared = Awaited<ReturnType<typeof playShared>>[number];

/** Plays so many days of so many seconds without interruption; what is under way at the end is left. */
export async function playShared(manner: Manner, seed: number, days: number, length: number) {
  const wishes = wishesOf(manner, seed, days * length);
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  const server = createServer({ clock, duration: () => D, arrives: () => 0.5 });
  const parts = { store, clock, random: seededRandom(seed), logger: silentLogger, meter: silentMeter };
  const throttle = await createThrottle(parts, FULL_SHARE);
  const refusals: { at: number; wait: number }[] = [];
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
      /** Mean seconds that the other user waited for a request to be let in; and had it been alone. */
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

/** A pause lasts until the end of the longest wait that was told before it was over. */
function pausesOf(refusals: readonly { at: number; wait: number }[]) {
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

async function playAlone(wishes: readonly number[]) {
  const clock = createTravellingClock();
  const gate = createGate();
  const waits: Wait[] = [];
  const sent = sendAll(wishes, { gate, clock, waits });
  while (await clock.toNextTimer());
  await sent;
  return { accepted: gate.accepted, waits };
}

const LOAD = 1.2;
/** Requests of the job each time. */
const JOB = 30;
/** The results of two daemons side by side, seconds since the first began. */
const BOTH = { from: HOUR, until: 7 * HOUR };
const JOBS = { '20m': HOUR / 3, '1h': HOUR, '3h': 3 * HOUR, '24h': DAY } as const;

/**
 * The share as it is where nobody set it, on days of 120 %: how late events are seen against a daemon that takes all;
 * how long the requests of a job wait that comes every so often from a moment that the seed draws; and what two daemons
 * of one workspace make of each other that always have something to send.
 */
export const automatic: Bench = {
  figures: ['quota.auto'],
  async run({ traces, split }) {
    const days = traces.length > 0 ? traces : daysOf(split, LOAD);
    return [...(await alone(days)), ...(await besideJobs(days, split)), ...(await besideEachOther(split))];
  },
};

async function alone(days: readonly (readonly Line[])[]): Promise<Measured[]> {
  const played: { own: number; full: number }[] = [];
  for (const lines of days)
    played.push({ own: (await playDay(lines, 'auto')).p95, full: (await playDay(lines, 1)).p95 });
  const row = { name: 'quota.auto.p95', unit: 's', aim: 1.5, everyRun: true } as const;
  return figuresOf(played, { ...row, of: ({ own }) => own, against: ({ full }) => full });
}

async function besideJobs(days: readonly (readonly Line[])[], { seeds }: Split): Promise<Measured[]> {
  const figures: Measured[] = [];
  for (const [every, period] of Object.entries(JOBS)) {
    const played: Played[] = [];
    for (const [index, lines] of days.entries()) {
      const first = createChance(seeds[index] ?? index).between(0, period);
      played.push(await playDay(lines, 'auto', regular(first, period, JOB, DAY)));
    }
    const name = `quota.auto.job.${every}`;
    const waits = played.map(({ wait }) => wait);
    const note = `mean wait of each day: ${waits.map((wait) => wait.toFixed(1)).join(', ')} s`;
    figures.push(
      // A day is too short for the mean of what comes once a day: it counts over all of them.
      figure({ name, unit: 's', aim: 20, everyRun: true, note }, period === DAY ? [mean(waits)] : waits),
      ...figuresOf(
        played,
        { name: `${name}.refused`, unit: 'of its requests', of: ({ theirs }) => theirs },
        { name: `${name}.own.refused`, unit: 'per hour', of: ({ refusedPerHour }) => refusedPerHour },
        { name: `${name}.own.p95`, unit: 's', of: ({ p95 }) => p95 },
      ),
    );
  }
  return figures;
}

type Played = Awaited<ReturnType<typeof playDay>>;

async function playDay(lines: readonly Line[], share: 'auto' | 1, wishes: readonly number[] = []) {
  const events = eventsOf(lines);
  const waits: Wait[] = [];
  const { server, took } = await play({
    lines: eventLines(lines),
    straight: true,
    quota: { share },
    others: (clock, { gate }) => void sendAll(wishes, { gate, clock, waits }),
  });
  if (wishes.length === 0) expectWithinWindows(server);
  return {
    p95: quantile(freshness(events, server.writes, took).lags, 0.95),
    // Mean of the other's requests, seconds; and refusals for each of them.
    wait: mean(waits.map(({ wait }) => wait)),
    theirs: mean(waits.map(({ refused }) => refused)),
    refusedPerHour: server.refused / (took / HOUR),
  };
}

/** The lesser of both counts: the part of the quota that it uses; and the more refused. */
async function besideEachOther({ seeds }: Split): Promise<Measured[]> {
  const played: { used: number; refused: number }[] = [];
  const counted = BOTH.until - BOTH.from;
  for (const seed of seeds) {
    const both = await playTwo(seed);
    const accepted = Math.min(...both.map((each) => each.accepted));
    const refused = Math.max(...both.map((each) => each.refused));
    played.push({ used: accepted / ((counted / 900) * FULL_SHARE.requests), refused: refused / (counted / HOUR) });
  }
  const name = 'quota.auto.two';
  return figuresOf(
    played,
    { name, unit: 'of the quota', better: 'higher', aim: 0.4, everyRun: true, of: ({ used }) => used },
    { name: `${name}.refused`, unit: 'per hour', aim: 7, everyRun: true, of: ({ refused }) => refused },
  );
}

/** Two daemons that do not know of each other, the second begins up to a window later. */
async function playTwo(seed: number) {
  const clock = createTravellingClock();
  const chance = createChance(seed);
  const duration = () => 0.15 * chance.lognormal(1, 0.5);
  const server = createServer({ clock, duration, arrives: () => 0.5 });
  const counts = [1, 2].map(() => ({ accepted: 0, refused: 0 }));
  const stores = [];
  for (const count of counts) {
    const store = await openStore({ file: ':memory:' });
    stores.push(store);
    const parts = { store, clock, random: seededRandom(seed), logger: silentLogger, meter: silentMeter };
    const throttle = await createThrottle(parts, { ...FULL_SHARE, share: 'auto' });
    const worker = async (): Promise<void> => {
      for (;;) {
        const isRefused = (await sendOne(throttle, store, server)) !== undefined;
        if (clock.elapsed() > BOTH.from * 1_000) count[isRefused ? 'refused' : 'accepted']++;
      }
    };
    for (let each = 0; each < FULL_SHARE.concurrency; each++) void worker();
    await clock.advance(chance.between(0, 900_000));
  }
  await clock.advance((BOTH.until - clock.elapsed() / 1_000) * 1_000);
  for (const store of stores) await store.close();
  return counts;
}
