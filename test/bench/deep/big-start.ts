import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, figuresOf, RUNS } from '../bench.ts';
import { costOf, expectNoRequests, longestOf, runWatched, type Watched, WORKSPACE } from '../daemon.ts';
import { withBigInstallation } from './big-installation.ts';

const SIZE = { items: 1_000_000, deliveries: 10_000_000, tasks: 100_000, held: 100_000 };
/** After the start, until what the start left to do is done, milliseconds. */
const SETTLING = 3_000;

/**
 * The cost of a start and of a status after years: 1 000 000 items and 10 000 000 deliveries of one workspace. It has
 * run once before, as after an update.
 */
export const bigStart: Bench = {
  figures: ['big.start', 'big.start.cpu', 'big.status', 'big.metrics', 'big.loop'],
  run: () =>
    withBigInstallation(SIZE, async (big) => {
      await runWatched(big, async () => undefined);
      const rounds: Awaited<ReturnType<typeof measure>>[] = [];
      for (let round = 0; round < RUNS; round++) rounds.push(await runWatched(big, measure));
      return figuresOf(
        rounds,
        { name: 'big.start', unit: 's', aim: 2, of: ({ wall }) => wall },
        { name: 'big.start.cpu', unit: 's CPU', aim: 2, of: ({ cpu }) => cpu },
        { name: 'big.status', unit: 'ms CPU', aim: 50, of: ({ status }) => status },
        { name: 'big.metrics', unit: 'ms CPU', aim: 50, of: ({ metrics }) => metrics },
        { name: 'big.loop', unit: 'ms', aim: 50, of: ({ loop }) => loop },
      );
    }),
};

async function measure(daemon: Watched) {
  await pause(SETTLING);
  const begin = Date.now();
  const status = (await costOf(daemon, '/status.json', [WORKSPACE])) * 1_000;
  const metrics = (await costOf(daemon, '/metrics', [WORKSPACE])) * 1_000;
  await expectNoRequests(daemon);
  return { ...daemon.started, status, metrics, loop: longestOf(daemon.turnsSince(begin)) };
}
