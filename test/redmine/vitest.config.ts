import { defineConfig } from 'vitest/config';

/** Apart from `npm test`: it installs a Redmine from the packages of Debian, and starts it. */
export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: ['test/redmine/**/*.test.ts'],
    pool: 'forks',
    testTimeout: 600_000,
    hookTimeout: 900_000,
    env: { TZ: 'UTC' },
  },
});
