import type { Bench } from '../bench.ts';
import { compared, type Measured } from '../report.ts';
import { daysOf } from './days.ts';
import { expectWithinWindows } from './expect.ts';
import { PEERS, playPeer } from './peers.ts';
import { play } from './play.ts';
import { leastQuantile } from './references/bound.ts';
import { type Freshness, freshness, quantile } from './references/lag.ts';
import { lookAhead } from './references/look-ahead.ts';
import { type Event, eventLines, eventsOf, type Line } from './references/trace.ts';

const LOADS = [70, 120, 300];
/** Seconds that a lag may exceed that of the look-ahead schedule: `factor * look-ahead + seconds`. */
const ALLOWED = {
  p95: { part: 0.95, factor: 1.05, seconds: 5 },
  p99: { part: 0.99, factor: 1.15, seconds: 10 },
  max: { part: 1, factor: 1.15, seconds: 10 },
} as const;

/**
 * How long events take to be seen, on days of three loads, with the policy that is not told the load. The limit of a lag is what is allowed over the schedule that knows the next 5 s; the ratio to it is to be 1 at most.
 */
export const fresh: Bench = {
  figures: ['quota.fresh'],
  async run({ traces, split }) {
    if (traces.length > 0) return ofDays('trace', traces);
    const figures: Measured[] = [];
    for (const load of LOADS) {
      figures.push(...(await ofDays(load, daysOf(split, load / 100))));
    }
    return figures;
  },
};

interface Seen {
  readonly own: Freshness;
  readonly look: Freshness;
  readonly peers: Readonly<Record<string, Freshness>>;
  readonly requests: number;
  /** Lower bound of the p95 of any schedule. */
  readonly least: number;
}

/** @param load per cent */
async function ofDays(load: number | 'trace', days: readonly (readonly Line[])[]): Promise<Measured[]> {
  const seen: Seen[] = [];
  for (const lines of days) seen.push(await playDay(lines));
  const name = `quota.fresh.${load}`;
  const figures = Object.entries(ALLOWED).map(([quantity, { part, factor, seconds }]) =>
    compared(
      { name: `${name}.${quantity}`, unit: 's', better: 'lower', aim: 1, everyRun: true },
      seen.map(({ own }) => quantile(own.lags, part)),
      seen.map(({ look }) => factor * quantile(look.lags, part) + seconds),
    ),
  );
  const p95 = (of: (each: Seen) => Freshness) => seen.map((each) => quantile(of(each).lags, 0.95));
  const keyed = (each: Seen) => each.peers['p-queue.keyed'] as Freshness;
  const own = p95((each) => each.own);
  const against = {
    name: `${name}.p95.against-keyed`,
    unit: 's',
    better: 'lower',
    aim: load === 120 ? 0.25 : false,
    everyRun: true,
  } as const;
  figures.push(compared(against, own, p95(keyed)));
  const isCrowded = load === 300;
  const aim = isCrowded ? 1.01 : false;
  const stale = { name: `${name}.stale`, unit: 'item-hours', better: 'lower', aim, everyRun: true } as const;
  figures.push(
    compared(
      { ...stale, note: `requests: ${seen.map(({ requests }) => requests).join(', ')}` },
      seen.map((each) => each.own.staleHours),
      seen.map(({ look }) => look.staleHours),
    ),
  );
  const note =
    'over a time that no schedule can beat, whatever it knows; about 4 is to be expected of one that knows nothing';
  const clairvoyant = { name: `${name}.p95.clairvoyant`, unit: 's', better: 'lower', aim: false, note } as const;
  figures.push(
    compared(
      clairvoyant,
      own,
      seen.map(({ least }) => least),
    ),
  );
  for (const peer of PEERS) {
    const meaning = { name: `${name}.p95.${peer}`, unit: 's', better: 'lower', aim: false } as const;
    const theirs = p95((each) => each.peers[peer] as Freshness);
    figures.push(
      compared(
        meaning,
        theirs,
        p95((each) => each.look),
      ),
    );
  }
  return figures;
}

async function playDay(lines: readonly Line[]): Promise<Seen> {
  const events = eventsOf(lines);
  const { server, took } = await play({ lines: eventLines(lines), straight: true });
  expectWithinWindows(server);
  const writes = lookAhead(events, { knows: 5 });
  return {
    own: freshness(events, server.writes, took),
    look: freshness(events, writes, writes.at(-1)?.end ?? 0),
    peers: await playPeers(events),
    requests: server.arrivals.length,
    least: leastQuantile(events, ALLOWED.p95.part),
  };
}

async function playPeers(events: readonly Event[]): Promise<Readonly<Record<string, Freshness>>> {
  const all: Record<string, Freshness> = {};
  for (const peer of PEERS) {
    const { writes, took } = await playPeer(peer, events);
    all[peer] = freshness(events, writes, took);
  }
  return all;
}
