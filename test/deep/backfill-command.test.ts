import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { complaintsOf } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { worksync } from '../support/harness/processes.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { openProvider } from '../support/vendors/provider-servers/provider.ts';

const SECRET = 'a webhook secret for tests only';
const DAY = 86_400;
const COUNT = 12;

const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

it('`worksync backfill` works by itself where no daemon runs, until all is sent', async () => {
  const scratch = folderOfTest('backfill');
  const github = await openProvider(githubVendor(SECRET), { clock: { now: () => Date.now() } });
  onTestFinished(() => github.close());
  // One a day was merged, the last of them yesterday.
  const begin = Date.now() - (COUNT + 0.9) * DAY * 1_000;
  const none = { reviewers: [], labels: [], assignees: [], head: '1', draft: false, description: '' };
  for (let number = 1; number <= COUNT; number++) {
    const fields = { title: `Pull ${number}`, state: 'merged' as const, ...none };
    const times = { at: number * DAY, updated: number * DAY };
    github.happen({ connection: 'github', event: 'closed', item: `0/${number}`, fields, ...times }, begin);
  }
  const connection = { connector: 'github', ...github.vendor.options(github.url), webhookSecrets: SECRET, poll: 'off' };
  // Backfills are paced over the window: of the usual 200 requests one goes out in five seconds.
  const quota = { requests: 100_000, burst: 10_000 };
  writeFileSync(join(scratch, 'work.yaml'), JSON.stringify({ quota, connections: { github: connection } }));
  const flags = ['--config', join(scratch, 'work.yaml'), '--data', join(scratch, 'data')];

  const some = await worksync(['backfill', 'github', '--since', '5d', '--json', ...flags]);
  expect([some.code, complaintsOf(some)]).toEqual([0, '']);
  const last = lines(some.stdout).at(-1);
  expect(last).toMatchObject({ type: 'result', state: 'done', connection: 'github', units: 1, items: 5, changes: 0 });
  const listed = await worksync(['prs', 'list', '--json', ...flags]);
  const numbers = lines(listed.stdout).map(({ identifier }) => Number(identifier));
  expect(numbers.toSorted((a, b) => a - b)).toEqual([8, 9, 10, 11, 12]);

  const all = await worksync(['backfill', 'github', ...flags]);
  expect(all.code).toBe(0);
  expect(all.stdout).toMatch(/^github of everything: 12 items on 1 page of 1 unit in \d+ s\n$/);
});
