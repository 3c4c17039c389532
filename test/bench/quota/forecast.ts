import type { Throttle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock, type TravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { knowLists } from '../../support/rows/records-route.ts';
import { type Bench, figure, type Measured } from '../bench.ts';
import { ADDRESS, type QuotaDaemon, startDaemon } from './daemon.ts';
import { sendAll, wishesOf } from './references/co-tenant.ts';
import { daysOf } from './references/day.ts';
import { quantile } from './references/lag.ts';
import { eventLines, type Line } from './references/trace.ts';
import { createServer, type Server } from './server.ts';

const HOUR = 3_600;
const DAY = 24 * HOUR;
/** Days of each kind. */
const PLAYED = 2;
/** How often the forecast is read, seconds. */
const LOOK_EVERY = 600;
/** Shorter backlogs say nothing of a rate, seconds. */
const SHORTEST = 900;

/** Part of the quota that a day wants, and when others who use the workspace want to send, seconds. Alone less leaves no backlog
 * of 15 minutes. */
const DAYS = {
  alone: { load: 3, wishes: () => [] },
  office: { load: 1.6, wishes: (seed: number) => wishesOf('office', seed, DAY) },
  turns: { load: 1.6, wishes: (seed: number) => wishesOf('turns', seed, DAY) },
} as const;

/**
 * How far "done in" lies from what then happens, for backlogs of more than 15 minutes, given the requests that then came: the
 * forecast of the moment for as many requests as were sent until nothing waited. `quota.forecast.<others>` is the error at p90
 * over all moments of a day, as a part of the time that it took; the days are those of `quota.fresh`, the share is `auto`.
 */
export const forecast: Bench = {
  figures: ['quota.forecast'],
  async run({ split }) {
    const figures: Measured[] = [];
    for (const [name, { load, wishes }] of Object.entries(DAYS)) {
      const errors: number[][] = [];
      for (const [index, lines] of daysOf(split, load).slice(0, PLAYED).entries())
        errors.push(await errorsOf(lines, wishes(split.seeds[index] as number)));
      const seen = errors.filter((each) => each.length > 0);
      const note = `${seen.flat().length} moments with a backlog in ${seen.length} days`;
      figures.push(
        figure({ name: `quota.forecast.${name}`, unit: 'of the time', aim: 0.2, note }, [ninetieth(seen.flat())]),
        figure({ name: `quota.forecast.${name}.day`, unit: 'of the time' }, seen.map(ninetieth)),
      );
    }
    return figures;
  },
};

const ninetieth = (errors: readonly number[]) => quantile(errors, 0.9);

interface Look {
  /** Seconds since the start. */
  readonly at: number;
  readonly sent: number;
  /** For `index * STEP` requests: when the last can start, seconds since the start. */
  readonly said: readonly number[];
}

/** Requests between two points of what is said. */
const STEP = 50;
const MOST = 12_000;
/** How closely the end of a backlog is seen, seconds. */
const MINUTE = 60;

async function errorsOf(lines: readonly Line[], wishes: readonly number[]): Promise<number[]> {
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  await knowLists(store.query, ADDRESS);
  const server = createServer({ clock, duration: () => 0.15, arrives: () => 0.5 });
  const daemon = await startDaemon({ store, clock, server, straight: true, quota: { share: 'auto' } });
  void sendAll(wishes, { gate: server.gate, clock, waits: [] });
  const errors: number[] = [];
  const looks: Look[] = [];
  const rest = eventLines(lines).toSorted((a, b) => a.at - b.at);
  for (let at = 0; rest.length > 0 || looks.length > 0; at += MINUTE) {
    await playUntil(at, rest, clock, daemon);
    const waiting = await countDue(store, clock.now());
    if (waiting === 0) errors.push(...looks.splice(0).flatMap((look) => errorOf(look, at, server)));
    else if (at % LOOK_EVERY === 0 && isLong(daemon.throttle, waiting, clock))
      looks.push({ at, sent: server.writes.length, said: saidBy(daemon.throttle, clock) });
  }
  await daemon.stop();
  await store.close();
  return errors;
}

async function playUntil(at: number, rest: Line[], clock: TravellingClock, daemon: QuotaDaemon): Promise<void> {
  while (rest[0] && rest[0].at <= at) {
    const end = rest.findIndex((line) => line.at !== rest[0]?.at);
    const together = rest.splice(0, end === -1 ? rest.length : end);
    await clock.advance(Math.max(0, (together[0] as Line).at * 1_000 - clock.elapsed()));
    await daemon.deliver(together);
  }
  await clock.advance(Math.max(0, at * 1_000 - clock.elapsed()));
}

/** Changes that wait for nothing but the quota: those that wait for what may still come are no backlog. */
async function countDue({ query }: OpenedStore, now: number): Promise<number> {
  const { count } = await query
    .selectFrom('outbox')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('due', '<=', now)
    .executeTakeFirstOrThrow();
  return count;
}

function isLong(throttle: Throttle, requests: number, clock: TravellingClock): boolean {
  return throttle.drainedAt(requests) - clock.now() >= SHORTEST * 1_000;
}

function saidBy(throttle: Throttle, clock: TravellingClock): number[] {
  const wall = clock.now() - clock.elapsed();
  return Array.from({ length: MOST / STEP }, (_, index) => (throttle.drainedAt(index * STEP) - wall) / 1_000);
}

/** @param end when nothing waited any more, seconds since the start */
function errorOf({ at, sent, said }: Look, end: number, { writes }: Server): number[] {
  const forecasted = said[Math.round((writes.length - sent) / STEP)];
  return forecasted === undefined ? [] : [Math.abs(forecasted - end) / (end - at)];
}
