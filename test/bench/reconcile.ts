import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type Bench, RUNS } from './bench.ts';
import { ITEMS } from './known-items.ts';
import { compared } from './report.ts';

/**
 * Unchanged pull requests per second: poll pages that say again what is known of 100 000 items. The limit is reading the
 * same rows and no more: bodies, unpacked and parsed, and the marks of their items.
 */
export const reconcile: Bench = {
  figures: ['reconcile'],
  async run({ knownItems }) {
    const { folder } = await knownItems();
    const runs: { drain: number[]; raw: number[] } = { drain: [], raw: [] };
    for (let round = 0; round < RUNS; round++) {
      for (const kind of ['drain', 'raw'] as const) runs[kind].push(ITEMS / (await measure(kind, folder)));
    }
    const note = 'the limit reads and decodes the same rows: bodies and marks';
    return [compared({ name: 'reconcile', unit: 'items/s', better: 'higher', aim: 0.25, note }, runs.drain, runs.raw)];
  },
};

/** Seconds that a fresh process takes. */
async function measure(kind: 'drain' | 'raw', folder: string): Promise<number> {
  const child = fork(join(import.meta.dirname, 'reconcile-child.ts'), [kind, folder]);
  const ended = once(child, 'exit');
  const message = await Promise.race([once(child, 'message'), ended]);
  const [code] = await ended;
  if (code !== 0) throw new Error(`measuring ${kind} ended with ${code}`);
  return (message[0] as { seconds: number }).seconds;
}
