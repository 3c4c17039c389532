import { registerHooks } from 'node:module';

const url = (path: string) => new URL(path, import.meta.url).href;
const CLOCK = url('../../../src/platform/lib/clock.ts');
/** They need the clock itself. */
const MAKERS = ['crash-clock.ts', 'paced-clock.ts'].map(url);

/** Gives all modules that are loaded from now on the module at `replacement` in place of `platform/lib/clock.ts`. */
export function replaceClock(replacement: string): void {
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const isMaker = [replacement, ...MAKERS].includes(context.parentURL ?? '');
      return found.url === CLOCK && !isMaker ? { ...found, url: replacement } : found;
    },
  });
}
