import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandLine } from '../support/harness/command-line.ts';
import { useScratch } from '../support/harness/scratch.ts';

const scratch = useScratch('init');

it('a start names an unfinished draft, and status says why a changed .env has no effect', async () => {
  const { folder } = scratch;
  const write = (name: string, from: string) =>
    commandLine('init', '--folder', folder, '--offline', '--name', name, '--from', from);
  expect(await write('live', 'github-public')).toMatchObject({ code: 0 });
  expect(await write('later', 'github')).toMatchObject({ code: 3 });
  const live = join(folder, 'config/workspaces/live.yaml');
  writeFileSync(live, readFileSync(live, 'utf8').replace('poll: 5m', 'poll: off'));
  const flags = ['--config', join(folder, 'config/workspaces'), '--data', join(folder, 'data')];
  const daemon = scratch.start(['run', ...flags, '--port', '0']);
  await daemon.says(`init --name later --folder ${folder}" goes on with it.`);
  const status = () => commandLine('status', ...flags);
  expect((await status()).stdout).toMatch(/^worksync \S+, ok/);

  writeFileSync(join(folder, '.env'), 'NODE_OPTIONS=--trace-gc\n');
  daemon.child.kill('SIGHUP');
  await expect.poll(async () => (await status()).stdout).toMatch(/^worksync \S+, DEGRADED/);
  const { code, stdout, stderr } = await status();
  expect(code).toBe(0);
  expect(stdout).toContain('NOT RELOADED config_invalid: the last good one stays in use. Remove these lines');
  expect(stdout).toContain(`${folder}/.env:1: NODE_OPTIONS cannot be set in .env`);
  expect(stderr).toContain('.env is left out');
});
