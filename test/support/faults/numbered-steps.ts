import type { Steps } from '../../../src/platform/lib/telemetry.ts';

/** Counts the steps of this process, which ends itself at one of them as `kill -9` would; 0: at none. */
export interface NumberedSteps extends Steps {
  count(): number;
  /** For each step, what it was, such as `commit before`. */
  kinds(): readonly string[];
}

export function numberedSteps(killAt: number): NumberedSteps {
  const kinds: string[] = [];
  return {
    reached(kind, edge) {
      if (kinds.push(`${kind} ${edge}`) === killAt) process.kill(process.pid, 'SIGKILL');
    },
    count: () => kinds.length,
    kinds: () => kinds,
  };
}
