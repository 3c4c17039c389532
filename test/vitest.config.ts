import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** Milliseconds. */
const HANGS = 600_000;

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/..`,
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    exclude: ['test/browser/**', 'test/redmine/**', 'node_modules/**'],
    pool: 'forks',
    // Vitest leaves one core free for itself, which of two is half; and many tests wait for processes of their own.
    maxWorkers: Math.max(2, availableParallelism()),
    setupFiles: ['test/support/vendor-requests/setup.ts'],
    // No limit of time decides a test; these end what hangs, also beside twenty busy processes.
    testTimeout: HANGS,
    hookTimeout: HANGS,
    expect: { poll: { timeout: HANGS, interval: 20 } },
    env: { TZ: 'UTC' },
  },
});
