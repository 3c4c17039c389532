import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { complaintsOf } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';

/** `worksync sweep` as people run it: real processes, the wall clock. */

let scratch: string;
let daemon: Running | undefined;

beforeEach(() => {
  scratch = folderOfTest('sweep');
  const connection = { connector: 'github', repositories: ['acme/app'], webhookSecrets: 'a-secret-of-16-or-more' };
  const file = { workspace: { sweep: 'off' }, connections: { github: { ...connection, poll: 'off' } } };
  writeFileSync(join(scratch, 'work.yaml'), JSON.stringify(file));
});

afterEach(async () => {
  await daemon?.end('SIGKILL');
  daemon = undefined;
});

const flags = () => ['--config', join(scratch, 'work.yaml'), '--data', join(scratch, 'data')];

it('compares by itself where no daemon runs, and asks the daemon where one does', async () => {
  const bug = await worksync(['tasks', 'bug', 'It breaks', ...flags()]);
  expect([bug.code, complaintsOf(bug)]).toEqual([0, '']);

  const alone = await worksync(['sweep', '--json', ...flags()]);
  expect([alone.code, alone.stderr]).toEqual([0, expect.stringContaining('records listed so far: ')]);
  const [first] = alone.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(first).toMatchObject({
    report: { tasks: 1, records: 0, found: { 'record-changed': 0 }, repairs: { done: 0, waiting: 0, held: 0 } },
    state: null,
  });
  expect(first.report.finishedAt).toBeGreaterThanOrEqual(first.report.startedAt);

  daemon = startWorksync(['run', '--port', '0', '--log-level', 'silent', ...flags()]);
  await daemon.says('worksync runs');
  const beside = await worksync(['sweep', ...flags()]);
  expect(beside.code).toBe(0);
  expect(beside.stdout).toMatch(/^1 task and 0 records compared; nothing to repair, in \d+ s\n$/);
  const status = await worksync(['status', ...flags()]);
  expect(status.stdout).toMatch(/^ {2}sweep {7}last \d+ s ago; 1 task and 0 records compared; nothing to repair$/m);
});
