import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectConfiguration } from 'vitest/config';

/** Milliseconds. No limit of time decides a test; this ends what hangs, also beside twenty busy processes. */
const HANGS = 300_000;

/** Besides laws. */
const GO_FURTHER = ['test/faults/crash.test.ts', 'test/scenarios/order.test.ts', 'test/contracts/connectors.test.ts'];

/** Of one speed. */
function project(name: string, include: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return {
    extends: true,
    test: { name, include: [...include], env: { TZ: 'UTC', ...env } },
  } satisfies TestProjectConfiguration;
}

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/..`,
    pool: 'forks',
    // Vitest leaves one core free for itself, which of two is half; and many tests wait for processes of their own.
    maxWorkers: Math.max(2, availableParallelism()),
    setupFiles: ['test/support/setup.ts'],
    testTimeout: HANGS,
    hookTimeout: HANGS,
    expect: { poll: { timeout: HANGS, interval: 20 } },
    projects: [
      project('fast', ['test/unit/**/*.test.ts', 'test/project/**/*.test.ts']),
      project(
        'whole',
        ['contracts', 'laws', 'scenarios', 'faults'].map((folder) => `test/${folder}/**/*.test.ts`),
      ),
      // What draws cases draws all of them here.
      project('deep', ['test/deep/**/*.test.ts', 'test/laws/**/*.test.ts', ...GO_FURTHER], { TEST_DEPTH: 'deep' }),
    ],
  },
});
