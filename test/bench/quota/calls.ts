import type { Bench } from '../bench.ts';
import { compared, figure, type Measured } from '../report.ts';
import { daysOf } from './days.ts';
import { expectWithinWindows } from './expect.ts';
import { PEERS, playPeer } from './peers.ts';
import { play } from './play.ts';
import { mostWithin } from './references/bound.ts';
import { freshness } from './references/lag.ts';
import { eventLines, eventsOf, type Line } from './references/trace.ts';
import { fewestWrites } from './references/visibility.ts';
import { WINDOWS } from './references/windows.ts';

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
      const played = [];
      for (const lines of days) played.push(await playPromise(lines, promise));
      const name = `quota.calls.${promise}`;
      const fewest = played.map((each) => each.fewest);
      const note = `part that no schedule can show in time: ${played.map(({ unavoidable }) => unavoidable.toFixed(4)).join(', ')}`;
      figures.push(
        compared(
          { name, unit: 'requests', better: 'lower', aim: 1.02, everyRun: true },
          played.map(({ requests }) => requests),
          fewest,
        ),
        figure(
          { name: `${name}.late`, unit: 'of events', better: 'lower', aim: 0.001, everyRun: true, note },
          played.map(({ late, unavoidable }) => Math.max(0, late - unavoidable)),
        ),
      );
      for (const peer of PEERS) {
        const theirs = [];
        for (const lines of days) theirs.push((await playPeer(peer, eventsOf(lines))).requests);
        figures.push(
          compared({ name: `${name}.${peer}`, unit: 'requests', better: 'lower', aim: false }, theirs, fewest),
        );
      }
    }
    return figures;
  },
};

interface Promised {
  readonly requests: number;
  readonly fewest: number;
  /** Parts of all events. */
  readonly late: number;
  readonly unavoidable: number;
}

async function playPromise(lines: readonly Line[], promise: number): Promise<Promised> {
  const events = eventsOf(lines);
  const { server, took } = await play({ lines: eventLines(lines), straight: true, visibility: promise * 1_000 });
  expectWithinWindows(server);
  const { lags } = freshness(events, server.writes, took);
  return {
    requests: server.arrivals.length,
    fewest: fewestWrites(events, promise),
    late: lags.filter((lag) => lag > promise).length / lags.length,
    unavoidable: 1 - Math.min(...WINDOWS.map((window) => mostWithin(events, promise, { window }))) / events.length,
  };
}
