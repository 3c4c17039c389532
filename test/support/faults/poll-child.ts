/**
 * A process that polls one unit of three pages once and ends; for tests that kill it on the way.
 *
 *   node poll-child.ts PLACE STEP    PLACE: a file, or an address; STEP: the number of the step at which it kills itself; 0 for never
 *
 * Prints how many steps it took, and which pages it asked for, as one JSON line.
 */

import { systemClock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { openInstallationFile } from '../../../src/store/installation/installation.ts';
import { createPolls } from '../../../src/sync/intake/polls.ts';
import { connectionWith, notesConnector } from '../fakes/notes.ts';
import { workspaceContext } from '../harness/workspace-context.ts';
import { numberedSteps } from './numbered-steps.ts';

const [place, step] = process.argv.slice(2);
const steps = numberedSteps(Number(step));
const installation = await openInstallationFile({ file: place as string, random: systemRandom(), steps });
const store = await installation.store('test');
const asked: (string | undefined)[] = [];
const context = workspaceContext({
  store,
  clock: systemClock(),
  connections: [
    {
      name: 'notes',
      connector: notesConnector,
      options: {},
      secrets: [],
      schedule: { cron: '0 0 1 1 *' },
      sweep: 'off',
      connection: connectionWith({
        units: async () => ['unit'],
        async poll({ page = '1' }) {
          asked.push(page);
          const next = page === '3' ? {} : { next: String(Number(page) + 1) };
          const newest = `2026-01-0${5 - Number(page)}T00:00:00Z`;
          return {
            outcome: 'page',
            event: 'list',
            body: Buffer.from(`page ${page}`),
            newest,
            etag: `"${page}"`,
            ...next,
          };
        },
      }),
    },
  ],
});
const polls = createPolls(context);
await polls.pollNow();
await polls.stop();
await installation.close();
process.stdout.write(`${JSON.stringify({ steps: steps.count(), asked })}\n`);
