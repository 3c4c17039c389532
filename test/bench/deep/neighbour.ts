import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { openStore } from '../../support/harness/store.ts';
import type { Bench } from '../bench.ts';
import { countDeliveries, databaseFile } from '../daemon.ts';
import { pullRequestBodies } from '../deliveries.ts';
import { deliver } from '../load.ts';
import { createFleet, NOWHERE } from '../many/workspaces.ts';
import { appendPages } from '../pages.ts';
import { figure } from '../report.ts';
import { longestOf, runWatched, type Watched } from '../watched.ts';

const WORKSPACES = 20;
/** After the start, until what it left to do is done, milliseconds. */
const SETTLING = 2_000;
/** Between two deliveries to the others, milliseconds. */
const APART = 10;
/** How long it is measured, milliseconds: at rest, and at most beside the backfill. */
const AT_REST = 10_000;
const BESIDE = 60_000;

/**
 * How long senders to 19 workspaces wait for their 2xx while the twentieth takes over a backfill of 100 000 items, whose
 * pages are all there already: more than it would ever read ahead. The limit is the same at rest.
 */
export const neighbour: Bench = {
  figures: ['many.neighbour'],
  async run() {
    const { folder, config, names } = await createFleet(WORKSPACES);
    try {
      const [busy = '', ...others] = names;
      const paths = others.map((name) => `/webhooks/${name}/github`);
      const setup = { folder, config, url: NOWHERE, apiKey: '' };
      const atRest = await runWatched(setup, (daemon) => trickle(daemon, paths, 'rest', AT_REST, () => true));
      const store = await openStore({ file: databaseFile(folder) }, busy);
      await appendPages(store, { source: 'backfill' });
      await store.close();
      let longest = 0;
      let left = 0;
      const beside = await runWatched(setup, async (daemon) => {
        const begin = Date.now();
        const waits = await trickle(daemon, paths, 'beside', BESIDE, () => pendingPages(folder) > 0);
        longest = longestOf(daemon.turnsSince(begin));
        left = pendingPages(folder);
        return waits;
      });
      const refused = beside.filter((wait) => wait === Number.POSITIVE_INFINITY).length;
      const note = `p99 of ${beside.length}, ${refused} refused; longest ${Math.max(...beside.filter(Number.isFinite)).toFixed(0)} ms; longest turn ${longest.toFixed(0)} ms of CPU; ${left} pages left`;
      const meaning = { name: 'many.neighbour', unit: 'ms', better: 'lower', aim: 50, note } as const;
      return [{ ...figure(meaning, [p99(beside)]), limit: p99(atRest) }];
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

/** Sent by the clock, whether or not those before were answered. @returns how long each waited, milliseconds */
async function trickle(
  { port }: Watched,
  paths: readonly string[],
  run: string,
  longest: number,
  goesOn: () => boolean,
): Promise<number[]> {
  const bodies = pullRequestBodies(100);
  await pause(SETTLING);
  const waits: Promise<number>[] = [];
  const begin = performance.now();
  for (let sent = 0; performance.now() - begin < longest; sent++) {
    if (sent % 100 === 0 && !goesOn()) break;
    const path = paths[sent % paths.length] as string;
    const body = bodies[sent % bodies.length] as (typeof bodies)[number];
    // One that was refused waited too long.
    waits.push(deliver({ port, path }, body, `${run}-${sent}`).catch(() => Number.POSITIVE_INFINITY));
    await pause(Math.max(0, begin + (sent + 1) * APART - performance.now()));
  }
  return Promise.all(waits);
}

const pendingPages = (folder: string) => countDeliveries(folder, "state = 'pending' and source = 'backfill'");

function p99(waits: readonly number[]): number {
  return waits.toSorted((left, right) => left - right)[Math.ceil(waits.length * 0.99) - 1] ?? 0;
}
