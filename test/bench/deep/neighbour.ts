import { setTimeout as pause } from 'node:timers/promises';
import { openStore } from '../../support/harness/store.ts';
import { type Bench, expectPremise, figure } from '../bench.ts';
import { countDeliveries, databaseFile, longestOf, runWatched, type Watched } from '../daemon.ts';
import { pullRequestBodies } from '../deliveries.ts';
import { withFleet } from '../fleet.ts';
import { appendPages, ITEMS, PAGE } from '../known-items.ts';
import { deliver } from '../load.ts';
import { quantile } from '../quota/references/lag.ts';

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
  run: () =>
    withFleet(WORKSPACES, async (fleet) => {
      const [busy = ''] = fleet.names;
      const paths = fleet.paths.slice(1);
      const atRest = await runWatched(fleet, (daemon) => trickle(daemon, paths, 'rest', AT_REST, () => true));
      const store = await openStore({ file: databaseFile(fleet.folder) }, busy);
      await appendPages(store, { source: 'backfill' });
      await store.close();
      const left = () => countDeliveries(fleet.folder, "state = 'pending' and source = 'backfill'");
      const beside = await runWatched(fleet, async (daemon) => {
        const begin = Date.now();
        const waits = await trickle(daemon, paths, 'beside', BESIDE, () => left() > 0);
        return { waits, longest: longestOf(daemon.turnsSince(begin)), left: left() };
      });
      expectPremise(beside.left < ITEMS / PAGE, 'no page of the backfill was taken over');
      const answered = beside.waits.filter(Number.isFinite);
      const refused = beside.waits.length - answered.length;
      const note = `p99 of ${beside.waits.length}, ${refused} refused; longest ${Math.max(...answered).toFixed(0)} ms; longest turn ${beside.longest.toFixed(0)} ms of CPU; ${beside.left} pages left`;
      const meaning = { name: 'many.neighbour', unit: 'ms', aim: 50, note } as const;
      return [{ ...figure(meaning, [quantile(beside.waits, 0.99)]), limit: quantile(atRest, 0.99) }];
    }),
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
