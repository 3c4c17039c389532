/**
 * A process that works off the backfill of one unit of three pages and ends; for tests that kill it on the way.
 *
 *   node backfill-child.ts PLACE STEP    PLACE: a file, or an address; STEP: the number of the step at which it kills itself; 0 for never
 *
 * Prints how many steps it took, and what it asked for, as one JSON line.
 */

import { systemRandom } from '../../../src/platform/lib/random.ts';
import { readBackfills } from '../../../src/store/connections/backfills.ts';
import { openInstallationFile } from '../../../src/store/installation/installation.ts';
import { createBackfills } from '../../../src/sync/intake/backfill-stage.ts';
import { fastClock } from '../fakes/crash-clock.ts';
import { connectionWith, notesConnector } from '../fakes/notes.ts';
import { workspaceContext } from '../harness/workspace-context.ts';
import { numberedSteps } from './numbered-steps.ts';

const [place, step] = process.argv.slice(2);
const steps = numberedSteps(Number(step));
const installation = await openInstallationFile({ file: place as string, random: systemRandom(), steps });
const store = await installation.store('test');
const asked: string[] = [];
const clock = fastClock();
const connection = connectionWith({
  async units() {
    asked.push('units');
    return ['unit'];
  },
  async history({ page = '1' }) {
    asked.push(page);
    const next = page === '3' ? {} : { next: String(Number(page) + 1) };
    return { event: 'list', body: Buffer.from(`page ${page}`), total: 3, ...next };
  },
});
const notes = { name: 'notes', connector: notesConnector, options: {}, connection, secrets: [] };
const connections = [{ ...notes, schedule: 'off', sweep: 'off' } as const];
const backfills = createBackfills(workspaceContext({ store, clock, connections }));
backfills.start();
while ((await readBackfills(store.query, 'notes'))[0]?.finishedAt === null)
  await new Promise((resolve) => setTimeout(resolve, 2));
await backfills.stop();
await installation.close();
process.stdout.write(`${JSON.stringify({ steps: steps.count(), asked })}\n`);
