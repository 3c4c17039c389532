import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectConfiguration, type TestUserConfig } from 'vitest/config';

/** Milliseconds. No limit of time decides a test; this ends what hangs, also beside twenty busy processes. */
const HANGS = 300_000;

const PURE = ['test/unit/**/*.test.ts', 'test/project/**/*.test.ts'];
/** They start programs of their own. */
const PROCESSES = 'test/**/*.process.test.ts';
const WHOLE = ['contracts', 'laws', 'scenarios', 'faults'].map((folder) => `test/${folder}/**/*.test.ts`);
/** They draw their cases, as laws do. */
const DRAWN = [
  'test/faults/crash.test.ts',
  'test/scenarios/order.test.ts',
  'test/scenarios/trouble.test.ts',
  'test/contracts/**/*.test.ts',
];

function project(name: string, include: string[], more: TestUserConfig = {}): TestProjectConfiguration {
  return { extends: true, test: { name, include, ...more, env: { TZ: 'UTC', ...more.env } } };
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
      // Without a process for each file: they share no state, and loading modules is half of their time.
      project('fast', PURE, { exclude: [PROCESSES], isolate: false }),
      project('whole', [...WHOLE, PROCESSES]),
      project('deep', ['test/deep/**/*.test.ts', 'test/laws/**/*.test.ts', ...DRAWN], { env: { TEST_DEPTH: 'deep' } }),
    ],
  },
});
