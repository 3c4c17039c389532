import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/..`,
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    exclude: ['test/browser/**', 'test/redmine/**', 'node_modules/**'],
    pool: 'forks',
    // Vitest leaves one core free for itself, which of two is half; and many tests wait for processes of their own.
    maxWorkers: Math.max(2, availableParallelism()),
    setupFiles: ['test/support/vendor-requests/setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    env: { TZ: 'UTC' },
  },
});
