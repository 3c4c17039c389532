import type { Steps } from '../../../src/platform/lib/steps.ts';

/** Counts the steps of this process, which ends itself at one of them as `kill -9` would; 0: at none. */
export interface NumberedSteps extends Steps {
  count(): number;
}

export function numberedSteps(killAt: number): NumberedSteps {
  let steps = 0;
  return {
    reached() {
      if (++steps === killAt) process.kill(process.pid, 'SIGKILL');
    },
    count: () => steps,
  };
}
