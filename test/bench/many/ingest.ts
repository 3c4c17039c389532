import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, RUNS } from '../bench.ts';
import { announcedPort, countDeliveries, spawnDaemon, stopDaemon } from '../daemon.ts';
import { pullRequestBodies } from '../deliveries.ts';
import { sendDeliveries } from '../load.ts';
import { compared } from '../report.ts';
import { createFleet, NOWHERE } from './workspaces.ts';

const WORKSPACES = 500;

/** Milliseconds: until the code is compiled, and what is measured. */
const WARM_UP = 1_500;
const MEASURED = 2_500;

/** Durable deliveries per second to 500 workspaces in turn, against those to one of them, by the same process. */
export const manyIngest: Bench = {
  figures: ['many.ingest'],
  async run() {
    const { folder, config, names } = await createFleet(WORKSPACES);
    const bodies = pullRequestBodies(256);
    const paths = names.map((name) => `/webhooks/${name}/github`);
    const daemon = spawnDaemon({ folder, config, url: NOWHERE, apiKey: '' });
    try {
      const port = await announcedPort(daemon, folder);
      const measure = async (to: readonly string[], run: string, ms: number) => {
        const { perSecond } = await sendDeliveries({ port, paths: to }, bodies, run, ms);
        while (countDeliveries(folder, "state = 'pending'") > 0) await pause(20);
        return perSecond;
      };
      await measure(paths, 'warm', WARM_UP);
      const spread: number[] = [];
      const one: number[] = [];
      for (let round = 0; round < RUNS; round++) {
        one.push(await measure(paths.slice(0, 1), `one-${round}`, MEASURED));
        spread.push(await measure(paths, `spread-${round}`, MEASURED));
      }
      await stopDaemon(daemon, folder);
      return [compared({ name: 'many.ingest', unit: 'deliveries/s', better: 'higher', aim: 0.8 }, spread, one)];
    } finally {
      if (daemon.exitCode === null) daemon.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  },
};
