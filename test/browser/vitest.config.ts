import { defineConfig } from 'vitest/config';

/** Apart from `npm test`: it needs a browser on the machine. */
export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: ['test/browser/**/*.test.ts'],
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    env: { TZ: 'UTC' },
  },
});
