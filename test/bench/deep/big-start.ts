import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, RUNS } from '../bench.ts';
import { WORKSPACE } from '../daemon.ts';
import { NOWHERE } from '../many/workspaces.ts';
import { figure } from '../report.ts';
import { costOf, longestOf, runWatched, type Watched } from '../watched.ts';
import { type BigInstallation, createBigInstallation } from './big-installation.ts';

const SIZE = { items: 1_000_000, deliveries: 10_000_000, tasks: 100_000, held: 100_000 };
/** After the start, until what the start left to do is done, milliseconds. */
const SETTLING = 3_000;

/**
 * What a start and a look at the status cost after years: 1 000 000 items and 10 000 000 deliveries of one workspace. It has
 * run once before, as after an update.
 */
export const bigStart: Bench = {
  figures: ['big.start', 'big.start.cpu', 'big.status', 'big.metrics', 'big.loop'],
  async run() {
    const big = await createBigInstallation(SIZE);
    try {
      await run(big, async () => undefined);
      const rounds: Awaited<ReturnType<typeof measure>>[] = [];
      for (let round = 0; round < RUNS; round++) rounds.push(await run(big, measure));
      const row = (name: string, unit: string, aim: number, read: (each: (typeof rounds)[number]) => number) =>
        figure({ name, unit, aim, better: 'lower' }, rounds.map(read));
      return [
        row('big.start', 's', 2, ({ wall }) => wall),
        row('big.start.cpu', 's CPU', 2, ({ cpu }) => cpu),
        row('big.status', 'ms CPU', 50, ({ status }) => status),
        row('big.metrics', 'ms CPU', 50, ({ metrics }) => metrics),
        row('big.loop', 'ms', 50, ({ loop }) => loop),
      ];
    } finally {
      big.remove();
    }
  },
};

function run<Result>({ folder, config }: BigInstallation, use: (daemon: Watched) => Promise<Result>): Promise<Result> {
  return runWatched({ folder, config, url: NOWHERE, apiKey: '' }, use);
}

async function measure(daemon: Watched) {
  await pause(SETTLING);
  const begin = Date.now();
  const status = (await costOf(daemon, '/status.json', [WORKSPACE])) * 1_000;
  const metrics = (await costOf(daemon, '/metrics', [WORKSPACE])) * 1_000;
  return { ...daemon.started, status, metrics, loop: longestOf(daemon.turnsSince(begin)) };
}
