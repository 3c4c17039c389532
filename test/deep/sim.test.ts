import { describe, expect, it } from 'vitest';
import { startNode } from '../support/harness/processes.ts';

/** Runs of the simulation, which a process of its own plays: they take memory, and end it where a promise is left alone. */
const play = (...args: string[]) => startNode(['test/sim/main.ts', ...args]).ended;

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
});
