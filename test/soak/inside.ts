import { appendFileSync } from 'node:fs';
import { replaceClock } from '../support/fakes/replace-clock.ts';

/**
 * Loaded before the daemon of a soak: its clock runs faster, and it tells what its memory holds after everything was collected
 * that nobody needs any more.
 */

replaceClock(new URL('sped-clock.ts', import.meta.url).href);

/** Milliseconds. */
const EVERY = 5_000;
const file = process.env['SOAK_MEMORY'] ?? '';

setInterval(() => {
  globalThis.gc?.();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  appendFileSync(file, `${JSON.stringify({ heap: heapUsed, external: external + arrayBuffers })}\n`);
}, EVERY).unref();
