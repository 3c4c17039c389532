/**
 * A daemon in a process of its own that kills itself at a step; for the tests of what a kill leaves behind.
 *
 *   fork('crash-child.ts', [JSON.stringify({ config, data, store, killAt })])    killAt 0: never
 *
 * Says `ready` when it listens. Answers `settle` when nothing is left to do, `reload` when it works by the files as they are now, and
 * `end` by stopping in order.
 */

import { type FastDaemon, startFastDaemon } from './crash-daemon.ts';
import { numberedSteps } from './numbered-steps.ts';

export interface ChildInput {
  readonly config: string;
  readonly data: string;
  /** Address of the PostgreSQL in whose schema the rows are; absent: they are in `data`. */
  readonly store?: string;
  readonly killAt: number;
}

export type FromChild =
  | { readonly say: 'ready'; readonly address: string }
  | { readonly say: 'settled' }
  | { readonly say: 'reloaded' }
  | { readonly say: 'ended'; readonly steps: readonly string[]; readonly commits: number };

export type ToChild = 'settle' | 'reload' | 'end';

const CHANGES = new Set(['insert', 'update', 'delete', 'replace', 'create', 'alter', 'drop']);

const { killAt, ...place } = JSON.parse(process.argv[2] as string) as ChildInput;
const commits = countCommits();
const steps = numberedSteps(killAt);

const daemon: FastDaemon = await startFastDaemon({ ...place, steps, onStatement: commits.saw });

const OBEY: Readonly<Record<ToChild, () => Promise<void>>> = {
  settle: () => daemon.settled().then(() => tell({ say: 'settled' })),
  reload: () => daemon.reload().then(() => tell({ say: 'reloaded' })),
  async end() {
    await daemon.stop();
    tell({ say: 'ended', steps: steps.kinds(), commits: commits.count() });
    process.disconnect?.();
  },
};
process.on('message', (order: ToChild) => void OBEY[order]());
tell({ say: 'ready', address: daemon.address });

function tell(message: FromChild): void {
  process.send?.(message);
}

/**
 * Counts durable commits from the statements that a connection runs, and from nothing else: each `commit`, and each
 * statement outside a transaction that changes something.
 */
function countCommits() {
  let inTransaction = false;
  let commits = 0;
  return {
    saw(sql: string) {
      const word = /^\s*(\w+)/.exec(sql)?.[1]?.toLowerCase() ?? '';
      if (word === 'commit' || (!inTransaction && CHANGES.has(word))) commits++;
      if (['begin', 'commit', 'rollback'].includes(word)) inTransaction = word === 'begin';
    },
    count: () => commits,
  };
}
