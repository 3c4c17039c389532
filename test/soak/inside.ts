import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/**
 * Loaded before the daemon of a soak: its clock runs faster, and it tells what its memory holds after everything was collected
 * that nobody needs any more.
 */

const url = (path: string) => new URL(path, import.meta.url).href;
const CLOCK = url('../../src/lib/clock.ts');
const SPED = url('sped-clock.ts');
/** They need the clock itself. */
const MAKERS = [SPED, url('../support/crash-clock.ts')];

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    return found.url === CLOCK && !MAKERS.includes(context.parentURL ?? '') ? { ...found, url: SPED } : found;
  },
});

/** Milliseconds. */
const EVERY = 5_000;
const file = process.env['SOAK_MEMORY'] ?? '';

setInterval(() => {
  globalThis.gc?.();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  appendFileSync(file, `${JSON.stringify({ heap: heapUsed, external: external + arrayBuffers })}\n`);
}, EVERY).unref();
