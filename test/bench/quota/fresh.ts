import { type Bench, figuresOf, type Measured } from '../bench.ts';
import { PEERS, type Peer, playPeer } from './peers.ts';
import { play } from './play.ts';
import { leastQuantile, mostWithin } from './references/bound.ts';
import { daysOf } from './references/day.ts';
import { type Freshness, fewestWrites, freshness, lookAhead, quantile } from './references/lag.ts';
import { type Event, eventLines, eventsOf, type Line } from './references/trace.ts';
import { WINDOWS } from './references/windows.ts';
import { expectWithinWindows } from './server.ts';

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

type Seen = Awaited<ReturnType<typeof playDay>>;

/** @param load per cent */
async function ofDays(load: number | 'trace', days: readonly (readonly Line[])[]): Promise<Measured[]> {
  const seen: Seen[] = [];
  for (const lines of days) seen.push(await playDay(lines));
  const name = `quota.fresh.${load}`;
  const p95 = ({ lags }: Freshness) => quantile(lags, 0.95);
  const own = { unit: 's', of: (each: Seen) => p95(each.own) };
  const peer = (each: Seen, of: Peer) => p95(each.peers[of] as Freshness);
  const note =
    'over a time that no schedule can beat, whatever it knows; about 4 is to be expected of one that knows nothing';
  return figuresOf(
    seen,
    ...Object.entries(ALLOWED).map(([quantity, { part, factor, seconds }]) => ({
      ...({ name: `${name}.${quantity}`, unit: 's', aim: 1, everyRun: true } as const),
      of: (each: Seen) => quantile(each.own.lags, part),
      against: ({ look }: Seen) => factor * quantile(look.lags, part) + seconds,
    })),
    {
      ...{ ...own, name: `${name}.p95.against-keyed`, aim: load === 120 && 0.25, everyRun: true },
      against: (each) => peer(each, 'p-queue.keyed'),
    },
    {
      ...{ name: `${name}.stale`, unit: 'item-hours', aim: load === 300 && 1.01, everyRun: true },
      ...{ note: `requests: ${seen.map(({ requests }) => requests).join(', ')}` },
      ...{ of: (each) => each.own.staleHours, against: ({ look }) => look.staleHours },
    },
    { ...own, name: `${name}.p95.clairvoyant`, note, against: ({ least }) => least },
    ...PEERS.map((each) => ({
      ...{ name: `${name}.p95.${each}`, unit: 's' },
      ...{ of: (day: Seen) => peer(day, each), against: ({ look }: Seen) => p95(look) },
    })),
  );
}

async function playDay(lines: readonly Line[]) {
  const events = eventsOf(lines);
  const { server, took } = await play({ lines: eventLines(lines), straight: true });
  expectWithinWindows(server);
  const writes = lookAhead(events, { knows: 5 });
  return {
    own: freshness(events, server.writes, took),
    look: freshness(events, writes, writes.at(-1)?.end ?? 0),
    peers: await playPeers(events),
    requests: server.arrivals.length,
    /** Lower bound of the p95 of any schedule. */
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

/** Promised visibilities, seconds. */
const PROMISES = [10, 60, 300];
const LOAD = 0.7;

/**
 * All requests of days at 70 %, over the fewest that keep the promised visibility; and the part of events that came too
 * late beyond those that no schedule could have shown in time: a release can label more within seconds than the quota takes.
 */
export const calls: Bench = {
  figures: ['quota.calls'],
  async run({ traces, split }) {
    const days = traces.length > 0 ? traces : daysOf(split, LOAD);
    const figures: Measured[] = [];
    for (const promise of PROMISES) {
      const played: Promised[] = [];
      for (const lines of days) played.push(await playPromise(lines, promise));
      const name = `quota.calls.${promise}`;
      const note = `part that no schedule can show in time: ${played.map(({ unavoidable }) => unavoidable.toFixed(4)).join(', ')}`;
      const fewest = { unit: 'requests', against: (each: Promised) => each.fewest };
      figures.push(
        ...figuresOf(
          played,
          { ...fewest, name, aim: 1.02, everyRun: true, of: ({ requests }) => requests },
          {
            ...{ name: `${name}.late`, unit: 'of events', aim: 0.001, everyRun: true, note },
            of: ({ late, unavoidable }) => Math.max(0, late - unavoidable),
          },
          ...PEERS.map((peer) => ({
            ...fewest,
            name: `${name}.${peer}`,
            of: ({ peers }: Promised) => peers[peer] ?? 0,
          })),
        ),
      );
    }
    return figures;
  },
};

type Promised = Awaited<ReturnType<typeof playPromise>>;

async function playPromise(lines: readonly Line[], promise: number) {
  const events = eventsOf(lines);
  const { server, took } = await play({ lines: eventLines(lines), straight: true, visibility: promise * 1_000 });
  expectWithinWindows(server);
  const { lags } = freshness(events, server.writes, took);
  const peers: Record<string, number> = {};
  for (const peer of PEERS) peers[peer] = (await playPeer(peer, events)).requests;
  return {
    peers,
    requests: server.arrivals.length,
    fewest: fewestWrites(events, promise),
    late: lags.filter((lag) => lag > promise).length / lags.length,
    unavoidable: 1 - Math.min(...WINDOWS.map((window) => mostWithin(events, promise, { window }))) / events.length,
  };
}
