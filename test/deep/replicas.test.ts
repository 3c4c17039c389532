import { describe } from 'vitest';
import { cutOff, databaseRestarted, describeFaults, frozen, killed } from '../support/postgres/replicas/faults.ts';

// Leases expire in them, which takes real time.
describe('three replicas under load', () => {
  describeFaults([
    ['one is cut from the database, and comes back', cutOff],
    ['one is killed', killed],
    ['one stands still, and wakes when its leases are over', frozen],
    ['the database restarts', databaseRestarted],
  ]);
});
