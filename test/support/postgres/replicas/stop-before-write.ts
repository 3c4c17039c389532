/**
 * Loaded before the program: after SIGUSR2 the process stands still (SIGSTOP) with its next request, between the last look at the
 * lease and the write of the bytes.
 */

import { noSteps } from '../../../../src/platform/lib/telemetry.ts';

let isArmed = false;
process.on('SIGUSR2', () => {
  isArmed = true;
});
noSteps.reached = (kind, edge) => {
  if (!isArmed || kind !== 'request' || edge !== 'before') return;
  isArmed = false;
  process.kill(process.pid, 'SIGSTOP');
};
