import type { Bench } from '../bench.ts';
import { compared, figure, type Measured } from '../report.ts';
import { expectWithinWindows } from './expect.ts';
import { PEERS, playPeer } from './peers.ts';
import { play } from './play.ts';
import { generateDay } from './references/day.ts';
import { freshness } from './references/lag.ts';
import { eventLines, eventsOf } from './references/trace.ts';
import { fewestWrites } from './references/visibility.ts';

/** Promised visibilities, seconds. */
const PROMISES = [10, 60, 300];
const LOAD = 0.7;

/** All requests of the generated day at 70 %, over the fewest that keep the promised visibility; and who came too late. */
export const calls: Bench = {
  figures: ['quota.calls'],
  async run({ trace }) {
    const lines = trace ?? generateDay(1, LOAD).lines;
    const events = eventsOf(lines);
    const figures: Measured[] = [];
    for (const promise of PROMISES) {
      const played = await play({ lines: eventLines(lines), straight: true, visibility: promise * 1_000 });
      expectWithinWindows(played.server);
      const { lags } = freshness(events, played.server.writes, played.took);
      const late = lags.filter((lag) => lag > promise).length / lags.length;
      const name = `quota.calls.${promise}`;
      const requests = played.server.arrivals.length;
      const fewest = fewestWrites(events, promise);
      figures.push(
        compared({ name, unit: 'requests', better: 'lower', aim: 1.02 }, [requests], [fewest]),
        figure({ name: `${name}.late`, unit: 'of events', better: 'lower', aim: 0.001 }, [late]),
      );
      for (const peer of PEERS) {
        const { requests: theirs } = await playPeer(peer, events);
        const meaning = { name: `${name}.${peer}`, unit: 'requests', better: 'lower', aim: false } as const;
        figures.push(compared(meaning, [theirs], [fewest]));
      }
    }
    return figures;
  },
};
