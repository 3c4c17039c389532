import { afterEach, expect, it } from 'vitest';
import { commandLine, complaintsOf } from '../support/harness/command-line.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';

let world: World;
afterEach(() => world.close());

/** In real time: a sample says when it was made. */
const beside = (config?: Readonly<Record<string, unknown>>) => createWorld({ startAt: Date.now(), config });

const here = () => ['--config', world.configFolder, '--data', world.dataFolder];
const trigger = (...args: string[]) => commandLine('trigger', ...args, ...here());

async function records() {
  return (await world.records()).map(({ title, state }) => ({ title, state }));
}

/** The page of the delivery that the command named. */
async function shown(told: string): Promise<string> {
  const key = /deliveries show (\S+)/.exec(told)?.[1] ?? 'none';
  return (await commandLine('deliveries', 'show', key, ...here())).stdout;
}

it('lists samples, shows what one becomes, and sends nothing without --yes', async () => {
  world = await beside();
  const listed = await trigger('github', '--json');
  expect(listed.json().map(({ event }) => event)).toEqual(['opened', 'changes', 'approved', 'merged']);
  expect((await trigger('github', 'opend')).stderr).toMatch(/did you mean "?opened/i);

  const unknown = await trigger('github', 'opened', '--dry-run');
  expect(unknown.code).not.toBe(0);
  expect(unknown.stderr).toContain('--id');
  const updated = new Date(world.clock.now()).toISOString();
  await world.pull({ number: 1, title: 'Number 1', updated });
  await world.settled();

  for (const flags of [['--dry-run'], ['--dry-run', '--yes'], []]) {
    const { code, stdout } = await trigger('github', 'opened', ...flags);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^It becomes the pull request github:github\.com:\S+999000001/);
  }
  await world.settled();
  expect(await records()).toEqual([{ title: 'Number 1', state: 'open' }]);
});

it('of a git provider becomes a record, which the next sample merges', async () => {
  world = await beside();
  const opened = await trigger('github', 'opened', '--id', '70100', '--yes');
  expect(complaintsOf(opened)).toBe('');
  expect(opened.code).toBe(0);
  expect(opened.stdout).toContain('The daemon answered 202.');
  await world.settled();
  expect(await shown(opened.stdout)).toMatch(/worksync trial(?:.|\n)*decided {3}applied/);
  expect(await records()).toEqual([{ title: 'worksync trial', state: 'open' }]);
  expect((await trigger('github', 'merged', '--id', '1')).stderr).toContain('Run the command again without --id');
  expect((await trigger('github', 'merged', '--id', '70100', '--yes')).code).toBe(0);
  await world.settled();
  expect(await records()).toEqual([{ title: 'worksync trial', state: 'merged' }]);
});
