import { describe } from 'vitest';
import { cutOff, killed } from '../support/postgres/replicas/faults.ts';
import { describeFaults } from '../support/postgres/replicas/one-after-another.ts';

// The two quickest; others: `test/deep/replicas.test.ts`.
describe('three replicas under load', () => {
  describeFaults([
    ['one is cut from the database, and comes back', cutOff],
    ['one is killed', killed],
  ]);
});
