import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import { figure } from '../report.ts';
import { usageOf } from '../usage.ts';
import { costOf, longestOf, runWatched, type Watched } from '../watched.ts';
import { createFleet, type Fleet, NOWHERE } from './workspaces.ts';

const WORKSPACES = 2_000;
const ROUNDS = 3;
/** How long it is at rest, milliseconds. */
const REST = 60_000;
/** After the start, until what the start left to do is done, milliseconds. */
const SETTLING = 10_000;

/**
 * What 2 000 workspaces cost that have nothing to do: to start, to hold, to leave alone, and to ask for. CPU of the whole
 * process as the kernel counts it, so that a busy machine does not count; it has run once before, as after an update.
 */
export const manyAtRest: Bench = {
  figures: [
    ...['many.start', 'many.memory', 'many.idle.cpu', 'many.idle.written'],
    ...['many.scrape.metrics', 'many.scrape.status', 'many.scrape.loop'],
  ],
  async run() {
    const [one, all] = [await createFleet(1), await createFleet(WORKSPACES)];
    try {
      for (const fleet of [one, all]) await run(fleet, async () => undefined);
      const alone = await run(one, async ({ pid }) => usageOf(pid).resident);
      const rounds: Awaited<ReturnType<typeof measure>>[] = [];
      for (let round = 0; round < ROUNDS; round++) rounds.push(await run(all, (daemon) => measure(daemon, all)));
      const values = (read: (each: (typeof rounds)[number]) => number) => rounds.map(read);
      const lower = { better: 'lower' } as const;
      return [
        figure(
          { ...lower, name: 'many.start', unit: 's CPU', aim: 10 },
          values(({ start }) => start),
        ),
        figure(
          { ...lower, name: 'many.memory', unit: 'MB each', aim: 0.25 },
          values(({ resident }) => (resident - alone) / (WORKSPACES - 1) / 1e6),
        ),
        figure(
          { ...lower, name: 'many.idle.cpu', unit: '% of a core', aim: 1 },
          values(({ idle }) => idle),
        ),
        figure(
          { ...lower, name: 'many.idle.written', unit: 'kB/s', aim: 10 },
          values(({ written }) => written),
        ),
        figure(
          { ...lower, name: 'many.scrape.metrics', unit: 's CPU', aim: 0.3 },
          values(({ metrics }) => metrics),
        ),
        figure(
          { ...lower, name: 'many.scrape.status', unit: 's CPU', aim: 0.3 },
          values(({ status }) => status),
        ),
        figure(
          { ...lower, name: 'many.scrape.loop', unit: 'ms', aim: 50 },
          values(({ loop }) => loop),
        ),
      ];
    } finally {
      for (const { folder } of [one, all]) rmSync(folder, { recursive: true, force: true });
    }
  },
};

/** Runs a daemon on it; `use` begins when it has come to rest. */
function run<Result>({ folder, config }: Fleet, use: (daemon: Watched) => Promise<Result>): Promise<Result> {
  return runWatched({ folder, config, url: NOWHERE, apiKey: '' }, async (daemon) => {
    await pause(SETTLING);
    return use(daemon);
  });
}

async function measure(daemon: Watched, { names }: Fleet) {
  const { pid, started } = daemon;
  const before = usageOf(pid);
  await pause(REST);
  const after = usageOf(pid);
  const begin = Date.now();
  const metrics = await costOf(daemon, '/metrics', names);
  const status = await costOf(daemon, '/status.json', names);
  return {
    ...{ start: started.cpu, resident: before.resident, metrics, status },
    idle: ((after.cpu - before.cpu) / (REST / 1_000)) * 100,
    written: (after.written - before.written) / (REST / 1_000) / 1e3,
    loop: longestOf(daemon.turnsSince(begin)),
  };
}
