import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { createThrottle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openStore } from '../../support/harness/store.ts';
import type { Bench } from '../bench.ts';
import { compared, figure, type Measured } from '../report.ts';
import { mean, sendAll, type Wait } from './another.ts';
import { FULL_SHARE, seededRandom } from './daemon.ts';
import { daysOf, type Split } from './days.ts';
import { expectWithinWindows } from './expect.ts';
import { play } from './play.ts';
import { createChance } from './references/chance.ts';
import { regular } from './references/co-tenant.ts';
import { freshness, quantile } from './references/lag.ts';
import { eventLines, eventsOf, type Line } from './references/trace.ts';
import { createServer } from './server.ts';
import { sendOne } from './tenant.ts';

const LOAD = 1.2;
const HOUR = 3_600;
const DAY = 24 * HOUR;
/** Requests of the job each time. */
const JOB = 30;
/** What counts of two daemons beside each other, seconds since the first began. */
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
  const own = [];
  const full = [];
  for (const lines of days) {
    own.push((await playDay(lines, 'auto')).p95);
    full.push((await playDay(lines, 1)).p95);
  }
  return [compared({ name: 'quota.auto.p95', unit: 's', better: 'lower', aim: 1.5, everyRun: true }, own, full)];
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
      figure(
        { name, unit: 's', better: 'lower', aim: 20, everyRun: true, note },
        period === DAY ? [mean(waits)] : waits,
      ),
      figure(
        { name: `${name}.refused`, unit: 'of its requests', better: 'lower', aim: false },
        played.map(({ theirs }) => theirs),
      ),
      figure(
        { name: `${name}.own.refused`, unit: 'per hour', better: 'lower', aim: false },
        played.map(({ refusedPerHour }) => refusedPerHour),
      ),
      figure(
        { name: `${name}.own.p95`, unit: 's', better: 'lower', aim: false },
        played.map(({ p95 }) => p95),
      ),
    );
  }
  return figures;
}

interface Played {
  readonly p95: number;
  /** Mean of the other's requests, seconds; and refusals for each of them. */
  readonly wait: number;
  readonly theirs: number;
  readonly refusedPerHour: number;
}

async function playDay(lines: readonly Line[], share: 'auto' | 1, wishes: readonly number[] = []): Promise<Played> {
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
    wait: mean(waits.map(({ wait }) => wait)),
    theirs: mean(waits.map(({ refused }) => refused)),
    refusedPerHour: server.refused / (took / HOUR),
  };
}

/** The lesser of both counts: the part of the quota that it uses; and the more refused. */
async function besideEachOther({ seeds }: Split): Promise<Measured[]> {
  const used = [];
  const refused = [];
  const counted = BOTH.until - BOTH.from;
  for (const seed of seeds) {
    const both = await playTwo(seed);
    used.push(Math.min(...both.map(({ accepted }) => accepted)) / ((counted / 900) * FULL_SHARE.requests));
    refused.push(Math.max(...both.map((each) => each.refused)) / (counted / HOUR));
  }
  return [
    figure({ name: 'quota.auto.two', unit: 'of the quota', better: 'higher', aim: 0.4, everyRun: true }, used),
    figure({ name: 'quota.auto.two.refused', unit: 'per hour', better: 'lower', aim: 7, everyRun: true }, refused),
  ];
}

/** Two daemons that do not know of each other, the second begins up to a window later. */
async function playTwo(seed: number): Promise<{ accepted: number; refused: number }[]> {
  const clock = createTravellingClock();
  const chance = createChance(seed);
  const duration = () => 0.15 * chance.lognormal(1, 0.5);
  const server = createServer({ clock, duration, arrives: () => 0.5 });
  const counts = [
    { accepted: 0, refused: 0 },
    { accepted: 0, refused: 0 },
  ];
  const stores = [];
  for (const count of counts) {
    const store = await openStore({ file: ':memory:' });
    stores.push(store);
    const parts = { store, clock, random: seededRandom(seed), logger: silentLogger, meter: silentMeter };
    const throttle = await createThrottle({ ...parts, quota: { ...FULL_SHARE, share: 'auto' } });
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
