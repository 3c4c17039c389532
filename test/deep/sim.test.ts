import { describe, expect, it } from 'vitest';
import { type StartOptions, startNode } from '../support/harness/processes.ts';

/** Runs of the simulation, which a process of its own plays: they take memory, and end it where a promise is left alone. */
const play = (...args: string[]) => startNode(['test/sim/main.ts', ...args]).ended;

/** Returns the seed of each run with the hash of its observations. */
async function hashesOf(seed: number, runs: number, options: StartOptions = {}): Promise<string[]> {
  const args = ['test/sim/main.ts', '--seed', String(seed), '--runs', String(runs), '--hashes'];
  const { stdout } = await startNode(args, options).ended;
  return stdout.split('\n').filter((line) => /^\d+ [0-9a-f]{64}$/.test(line));
}

/** In its plan a backup is taken and restored, and its check of the whole database falls into the run: both use real files. */
const OF_FILES = 8;
const ON_A_SLOW_DISK = { UV_THREADPOOL_SIZE: '1', NODE_OPTIONS: '--import ./test/support/faults/slow-disk.ts' };

/** Seeds 1 to 200, after every fifth a calm day; in parts, of which each ends in time though others use the machine. */
const PART = 25;
const PARTS = Array.from({ length: 8 }, (_, part) => 1 + part * PART);

describe('the simulation of daemon, workspace and providers', () => {
  it('finds no fault again that it found before', async () => {
    const { code, stdout, stderr } = await play('--kept');
    expect({ code, stderr, stdout: code === 0 ? '' : stdout }).toEqual({ code: 0, stderr: '', stdout: '' });
    expect(stdout).toMatch(/^[1-9]\d* runs, 0 failed/m);
  });

  it.each(PARTS)(
    'loses and doubles nothing, keeps the quota and settles, with all faults, from seed %d on',
    async (first) => {
      const { code, stdout, stderr } = await play('--seed', String(first), '--runs', String(PART), '--calm-every', '5');
      expect({ code, stderr, stdout: code === 0 ? '' : stdout }).toEqual({ code: 0, stderr: '', stdout: '' });
      expect(stdout).toContain(`${PART} runs, 0 failed`);
    },
  );

  it('takes the same course each time for one seed, and another one for another', async () => {
    const [once, again, other] = [await hashesOf(5, 2), await hashesOf(5, 2), await hashesOf(105, 2)];
    expect(once).toHaveLength(2);
    expect(again).toEqual(once);
    expect(new Set([...once, ...other].map((line) => line.split(' ')[1])).size).toBe(4);
  });

  it('takes the same course however long the disk takes', async () => {
    const once = await hashesOf(OF_FILES, 1);
    expect(once).toHaveLength(1);
    expect(await hashesOf(OF_FILES, 1, { env: ON_A_SLOW_DISK })).toEqual(once);
  });
});
