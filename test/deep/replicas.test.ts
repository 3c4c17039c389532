import { describe } from 'vitest';
import { databaseRestarted, frozen } from '../support/postgres/replicas/faults.ts';
import { describeFaults } from '../support/postgres/replicas/one-after-another.ts';

// Leases expire in them, which takes real time.
describe('three replicas under load', () => {
  describeFaults([
    ['one stands still, and wakes when its leases are over', frozen],
    ['the database restarts', databaseRestarted],
  ]);
});
