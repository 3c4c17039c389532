import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { complaintsOf } from '../support/harness/command-line.ts';
import { startOwnDaemon } from '../support/harness/own-daemon.ts';
import { worksync } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

/** held, plan, quota, changes and sweep as real commands, beside a daemon and without one. */

const scratch = useScratch('commands');

it('holds, shows, plans and applies', async () => {
  const { daemon, config, flags, deliver } = await startOwnDaemon(scratch, 'guard: { creations: 1 }');
  const json = async (...args: string[]) => {
    const { code, stdout, stderr } = await worksync([...args, '--json', ...flags]);
    return { code, stderr, ...(stdout === '' ? {} : (JSON.parse(stdout) as Record<string, unknown>)) };
  };

  await deliver(11, 12);
  expect(await json('once')).toMatchObject({ code: 3, left: 1 });
  // Alone it lets everything go, as its hint says.
  expect(await json('held', 'release')).toMatchObject({ code: 0, released: 1 });
  expect(await json('once')).toMatchObject({ code: 0, left: 0, pullRequests: 2 });
  await deliver(1, 2, 3, 4);
  // The command waits until all is taken over and sent; three are held.
  expect(await json('once')).toMatchObject({ code: 3, left: 3 });
  expect(await json('held')).toMatchObject({ code: 0, creations: { count: 3 }, removals: { count: 0 } });
  expect(await json('held', 'release', 'acme/app#2')).toMatchObject({ code: 0, released: 1 });
  expect(await json('once')).toMatchObject({ code: 3, left: 2, pullRequests: 6 });
  const misspelt = await worksync(['held', 'release', 'nosuch', ...flags]);
  expect(misspelt).toMatchObject({ code: 1, stderr: expect.stringContaining('no change of nosuch is held') as string });

  const told = await worksync(['quota', ...flags]);
  expect([told.code, complaintsOf(told)]).toEqual([0, '']);
  expect(told.stdout).toMatch(
    /^windows {4}\d of 200 used by us in 15 min, .+\nshare {6}auto: 85 % of the long window, .+\n/,
  );
  expect(told.stdout).toContain('others     unknown: the workspace has refused none of our requests\n');
  expect(told.stdout).toContain('forecast   nothing waits; 2 changes more need approval\n');
  const { id } = (await json('plan')) as unknown as { id: string };
  // Another file is tried on what is known, with a daemon or without.
  const changed = join(scratch.folder, 'changed', 'own.yaml');
  mkdirSync(join(scratch.folder, 'changed'));
  writeFileSync(changed, `${readFileSync(config, 'utf8')}rules: { trailers: [Fixes] }\n`);
  const other = ['plan', '--config', changed, '--data', join(scratch.folder, 'data')];
  const tried = expect.stringMatching(
    /^evaluated 6 open items .*; nothing was written\nit would send no request now/,
  ) as string;
  expect(await worksync(other)).toMatchObject({ code: 0, stdout: tried });
  expect((await daemon.end()).code).toBe(0);
  expect(await worksync(other)).toMatchObject({ code: 0, stdout: tried });

  const plan = await json('plan');
  expect(plan).toMatchObject({
    code: 0,
    id,
    requests: 2,
    writes: [{ action: 'record-pull-request', count: 2, held: 2 }],
  });
  const wrong = await worksync(['plan', '--apply', 'another', ...flags]);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/not the plan that was shown last\n {2}remedy: .+\n {2}code: {3}plan_changed\n$/);
  expect(await json('plan', '--apply', id)).toMatchObject({ code: 0, outcome: 'applied', changes: 2, left: 0 });
  expect(await json('plan')).toMatchObject({ code: 0, requests: 0, writes: [] });
  expect((await worksync(['held', ...flags])).stdout).toBe('nothing is held\n');
});
