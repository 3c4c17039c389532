/**
 * A process that polls or backfills one unit of three pages once and ends; for tests that kill it on the way.
 *
 *   node walk-child.ts WORK PLACE STEP    WORK: poll or backfill; PLACE: a file, or an address; STEP: the number of the step at
 *                                         which it kills itself; 0 for never
 *
 * Prints how many steps it took, and what it asked for, as one JSON line. A backfill must have been requested before.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { readBackfills } from '../../../src/store/connections/backfills.ts';
import { openInstallationFile } from '../../../src/store/installation/installation.ts';
import { createBackfills } from '../../../src/sync/intake/backfill-stage.ts';
import { createPolls } from '../../../src/sync/intake/polls.ts';
import { fastClock } from '../fakes/crash-clock.ts';
import { connectionWith, notesConnector } from '../fakes/notes.ts';
import { workspaceContext } from '../harness/workspace-context.ts';
import { numberedSteps } from './numbered-steps.ts';

const [work, place, step] = process.argv.slice(2);
const steps = numberedSteps(Number(step));
const installation = await openInstallationFile({ file: place as string, random: systemRandom(), steps });
const store = await installation.store('test');
const asked: string[] = [];

function pageOf(page: string) {
  asked.push(page);
  const next = page === '3' ? {} : { next: String(Number(page) + 1) };
  return { event: 'list', body: Buffer.from(`page ${page}`), ...next };
}

const context = workspaceContext({
  store,
  clock: fastClock(),
  connections: [
    {
      ...{ name: 'notes', connector: notesConnector, options: {}, secrets: [], sweep: 'off' },
      schedule: { cron: '0 0 1 1 *' },
      connection: connectionWith({
        async units() {
          if (work === 'backfill') asked.push('units');
          return ['unit'];
        },
        async poll({ page = '1' }) {
          const newest = `2026-01-0${5 - Number(page)}T00:00:00Z`;
          return { outcome: 'page', ...pageOf(page), newest, etag: `"${page}"` };
        },
        history: async ({ page = '1' }) => ({ ...pageOf(page), total: 3 }),
      }),
    },
  ],
});
if (work === 'poll') {
  const polls = createPolls(context);
  await polls.pollNow();
  await polls.stop();
} else {
  const backfills = createBackfills(context);
  backfills.start();
  while ((await readBackfills(store.query, 'notes'))[0]?.finishedAt === null) await pause(2);
  await backfills.stop();
}
await installation.close();
process.stdout.write(`${JSON.stringify({ steps: steps.count(), asked })}\n`);
