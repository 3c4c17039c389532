import { parentPort } from 'node:worker_threads';
import { READY } from '../../../src/platform/lib/worker-host.ts';

/** A thread that does what it is told: `time` and `memory` until it has none left, `fail`; anything else it repeats. */
parentPort?.on('message', (told: unknown) => {
  const eaten: number[][] = [];
  while (told === 'time');
  while (told === 'memory') eaten.push(Array.from({ length: 100_000 }, (_, at) => at + eaten.length + 0.5));
  if (told === 'fail') throw new Error('as it was told');
  parentPort?.postMessage(told);
});
parentPort?.postMessage(READY);
