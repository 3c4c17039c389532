import { expect, it } from 'vitest';
import { complaintsOf } from '../support/harness/command-line.ts';
import { startOwnDaemon } from '../support/harness/own-daemon.ts';
import { worksync } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

/** changes as real commands, beside a daemon. */

const scratch = useScratch('changes');

it('lists, shows, retries and drops', async () => {
  const { flags, deliver } = await startOwnDaemon(scratch, 'guard: { creations: 0 }');
  await deliver(1, 2);
  expect(await worksync(['once', ...flags])).toMatchObject({ code: 3 });

  const listed = await worksync(['changes', '--state', 'held', ...flags]);
  expect([listed.code, complaintsOf(listed)]).toEqual([0, '']);
  expect(listed.stdout).toMatch(/^held {2}acme\/app#\d Number \d: creation of a record, for \d+ s\n {4}guard_held: /);
  const shown = await worksync(['changes', 'show', 'acme/app#1', ...flags]);
  expect(shown.stdout).toMatch(
    /\n {4}entity {3}pull_request:github\/5001\/1\n {4}desired {2}\{.*"title":"Number 1".*\n {4}known {4}nothing\n$/,
  );
  const unconfirmed = await worksync(['changes', 'drop', 'acme/app#1', ...flags]);
  expect(unconfirmed).toMatchObject({ code: 2, stdout: '' });
  expect(unconfirmed.stderr).toContain('this would drop 1 change:\n  acme/app#1 Number 1: record\n');
  const dropped = await worksync(['changes', 'drop', 'acme/app#1', '--yes', ...flags]);
  expect(dropped).toMatchObject({ code: 0, stdout: 'dropped: 1 change\n' });
  const retried = await worksync(['changes', 'retry', 'acme/app#2', '--json', ...flags]);
  expect(JSON.parse(retried.stdout)).toEqual({ retried: ['pull_request:github/5001/2'] });
  expect(await worksync(['once', ...flags])).toMatchObject({ code: 0 });
  const records = await worksync(['prs', 'list', '--json', ...flags]);
  expect(
    records.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { title: string }).title),
  ).toEqual(['Number 2']);
  expect(await worksync(['changes', ...flags])).toMatchObject({ code: 0, stdout: 'no change waits\n' });
});
