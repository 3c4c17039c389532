/**
 * A daemon in a process of its own that kills itself at a step; for the tests of what a kill leaves behind.
 *
 *   fork('crash-child.ts', [JSON.stringify({ config, data, killAt })])    killAt 0: never
 *
 * Says `ready` when it listens. Answers `settle` when nothing is left to do, and `end` by stopping in order.
 */

import { countCommits } from './crash-commits.ts';
import { type FastDaemon, startFastDaemon } from './crash-daemon.ts';

export interface ChildInput {
  readonly config: string;
  readonly data: string;
  readonly killAt: number;
}

export type FromChild =
  | { readonly say: 'ready'; readonly address: string }
  | { readonly say: 'settled' }
  | { readonly say: 'ended'; readonly steps: number; readonly commits: number };

export type ToChild = 'settle' | 'end';

const { config, data, killAt } = JSON.parse(process.argv[2] as string) as ChildInput;
const commits = countCommits();
let steps = 0;

const daemon: FastDaemon = await startFastDaemon({
  config,
  data,
  steps: {
    reached() {
      if (++steps === killAt) process.kill(process.pid, 'SIGKILL');
    },
  },
  onStatement: commits.saw,
});

process.on('message', (order: ToChild) => void (order === 'settle' ? settle() : end()));
tell({ say: 'ready', address: daemon.address });

async function settle(): Promise<void> {
  await daemon.settled();
  tell({ say: 'settled' });
}

async function end(): Promise<void> {
  await daemon.stop();
  tell({ say: 'ended', steps, commits: commits.count() });
  process.disconnect?.();
}

function tell(message: FromChild): void {
  process.send?.(message);
}
