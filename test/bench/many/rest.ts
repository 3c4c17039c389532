import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import type { Setup } from '../daemon.ts';
import { figure } from '../report.ts';
import { usageOf } from '../usage.ts';
import { ask, costOf, longestOf, type Running, runDaemon, runWatched, type Watched } from '../watched.ts';
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
      for (const fleet of [one, all]) await runDaemon(setupOf(fleet), settle);
      const alone = await runDaemon(setupOf(one), async (daemon) => {
        await settle();
        return usageOf(daemon.pid).resident;
      });
      const rounds: (Awaited<ReturnType<typeof measure>> & { readonly loop: number })[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const costs = await runDaemon(setupOf(all), (daemon) => measure(daemon, all));
        rounds.push({ ...costs, loop: await runWatched(setupOf(all), (daemon) => longestAsked(daemon, all)) });
      }
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

function setupOf({ folder, config }: Fleet): Setup {
  return { folder, config, url: NOWHERE, apiKey: '' };
}

const settle = () => pause(SETTLING);

async function measure(daemon: Running, { names }: Fleet) {
  const { pid, started } = daemon;
  await settle();
  const before = usageOf(pid);
  await pause(REST);
  const after = usageOf(pid);
  const metrics = await costOf(daemon, '/metrics', names);
  const status = await costOf(daemon, '/status.json', names);
  return {
    ...{ start: started.cpu, resident: before.resident, metrics, status },
    idle: ((after.cpu - before.cpu) / (REST / 1_000)) * 100,
    written: (after.written - before.written) / (REST / 1_000) / 1e3,
  };
}

/** Milliseconds of CPU of the longest turn while it is asked, but for the first time, when the code is compiled. */
async function longestAsked(daemon: Watched, { names }: Fleet): Promise<number> {
  await settle();
  const paths = ['/metrics', '/status.json'];
  for (const path of paths) await ask(daemon, path, names);
  const begin = Date.now();
  for (const path of [...paths, ...paths]) await ask(daemon, path, names);
  return longestOf(daemon.turnsSince(begin));
}
