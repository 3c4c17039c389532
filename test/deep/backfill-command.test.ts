import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { complaintsOf } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Ended, type Running, startWorksync, worksync } from '../support/harness/processes.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { openProvider, type Provider } from '../support/vendors/provider-servers/provider.ts';

/** `worksync backfill` as people run it: real processes, the wall clock, GitHub's connector. */

const SECRET = 'a webhook secret for tests only';
const DAY = 86_400;
const COUNT = 12;

let scratch: string;
let github: Provider;
let daemon: Running | undefined;
/** GitHub waits for this before it answers. */
let gate: Promise<void> | undefined;

beforeEach(async () => {
  scratch = folderOfTest('backfill');
  github = await openProvider(githubVendor(SECRET), {
    clock: { now: () => Date.now() },
    told: () => undefined,
    asked: () => gate,
  });
  // One a day was merged, the last of them yesterday.
  for (let number = 1; number <= COUNT; number++) merge(number, number * DAY);
  const connection = { connector: 'github', ...github.vendor.options(github.url), webhookSecrets: SECRET, poll: 'off' };
  // Backfills are paced over the window: of the usual 200 requests one goes out in five seconds.
  const quota = { requests: 100_000, burst: 10_000 };
  writeFileSync(join(scratch, 'work.yaml'), JSON.stringify({ quota, connections: { github: connection } }));
});

afterEach(async () => {
  await daemon?.end('SIGKILL');
  daemon = undefined;
  gate = undefined;
  await github.close();
});

/** @param at seconds after the first day began */
function merge(number: number, at: number): void {
  const begin = Date.now() - (COUNT + 0.9) * DAY * 1_000;
  const none = { reviewers: [], labels: [], assignees: [], head: '1', draft: false };
  const fields = { title: `Pull ${number}`, description: '', state: 'merged' as const, ...none };
  github.happen({ at, connection: 'github', event: 'closed', item: `0/${number}`, fields, updated: at }, begin);
}

const flags = () => ['--config', join(scratch, 'work.yaml'), '--data', join(scratch, 'data')];
const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('worksync backfill', () => {
  it('works by itself where no daemon runs, until all is sent', async () => {
    const some = await worksync(['backfill', 'github', '--since', '5d', '--json', ...flags()]);
    expect([some.code, complaintsOf(some)]).toEqual([0, '']);
    const last = lines(some.stdout).at(-1);
    expect(last).toMatchObject({ type: 'result', state: 'done', connection: 'github', units: 1, items: 5, changes: 0 });
    const listed = await worksync(['prs', 'list', '--json', ...flags()]);
    const numbers = lines(listed.stdout).map(({ identifier }) => Number(identifier));
    expect(numbers.toSorted((a, b) => a - b)).toEqual([8, 9, 10, 11, 12]);

    const all = await worksync(['backfill', 'github', ...flags()]);
    expect(all.code).toBe(0);
    expect(all.stdout).toMatch(/^github of everything: 12 items on 1 page of 1 unit in \d+ s\n$/);
  });

  it('is done by the running daemon, and shown: started once, followed by any number', async () => {
    daemon = startWorksync(['run', '--port', '0', '--log-level', 'silent', ...flags()]);
    await daemon.says('worksync runs');
    let open: () => void = () => undefined;
    gate = new Promise((resolve) => {
      open = resolve;
    });
    const both = [1, 2].map(() => startWorksync(['backfill', 'github', '--json', ...flags()]));
    // It cannot be over before the second one has asked for it.
    for (const { child } of both)
      child.stderr?.on('data', (said: Buffer) => {
        if (said.toString().includes('is already running')) open();
      });
    const [one, other] = (await Promise.all(both.map(({ ended }) => ended))) as [Ended, Ended];
    for (const { code, stdout } of [one, other]) {
      expect(code).toBe(0);
      expect(lines(stdout).at(-1)).toMatchObject({ type: 'result', state: 'done', items: COUNT, total: COUNT });
    }
    expect(one.stderr + other.stderr).toContain(
      'a backfill of github of everything is already running; --stop stops it',
    );
    const status = await worksync(['status', ...flags()]);
    expect(status.stdout).toMatch(/backfill {4}github read \d+ s ago: 12 of 12 items, 1 of 1 unit/);
    const stopped = await worksync(['backfill', 'github', '--stop', ...flags()]);
    expect(stopped.stdout).toBe('no backfill is running\n');
  });
});
