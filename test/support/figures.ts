import fc from 'fast-check';
import { TestRunner } from 'vitest';

/** What a test tells of itself beside its end; `npm run evidence` reads it. */
declare module 'vitest' {
  interface TaskMeta {
    /** Cases that the test has played: runs of its properties, kills, orders. */
    cases?: number;
  }
}

/** Counts what the test that is running has played. */
export function tellCases(count: number): void {
  const meta = TestRunner.getCurrentTest()?.meta;
  if (meta) meta.cases = (meta.cases ?? 0) + count;
}

const INSTALLED = Symbol.for('worksync.figures');

/** From now on each property tells its runs. Files of tests may share a process, which is to count once. */
export function countRuns(): void {
  const shared = globalThis as { [INSTALLED]?: boolean };
  if (shared[INSTALLED]) return;
  shared[INSTALLED] = true;
  fc.installGlobalPlugin(() => ({ onAllRunsComplete: ({ numRuns }) => tellCases(numRuns) }));
}
