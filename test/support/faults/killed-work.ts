/**
 * A process that does one piece of work and ends, or kills itself on the way: for the tests of what a kill leaves behind.
 *
 *   node killed-work.ts WORK INPUT STEP    INPUT: JSON; STEP: the number of the step at which it kills itself; 0 for never
 *
 * Prints how many steps it took as JSON. Steps are commits.
 */
import type { Steps } from '../../../src/platform/lib/telemetry.ts';
import { numberedSteps } from './numbered-steps.ts';

export interface WorkInputs {
  readonly migrate: { readonly place: string };
  readonly copy: { readonly from: string; readonly to: string };
}

type Works = { readonly [Name in keyof WorkInputs]: (input: WorkInputs[Name], steps: Steps) => Promise<unknown> };

const WORKS: Works = {
  async migrate({ place }, steps) {
    const { openTables } = await import('../../../src/store/installation/installation.ts');
    await (await openTables({ file: place, steps })).close();
  },
  async copy({ from, to }, steps) {
    const { openTables } = await import('../../../src/store/installation/installation.ts');
    const { copyStore } = await import('../../../src/store/copy/copy-store.ts');
    const [source, target] = [await openTables({ file: from }), await openTables({ file: to, steps })];
    await copyStore({
      source,
      target,
      carry: (_table, row) => row,
      done: async () => undefined,
      tell: () => undefined,
    });
    await Promise.all([source.close(), target.close()]);
  },
};

const [work, input, step] = process.argv.slice(2);
const steps = numberedSteps(Number(step));
// Timers of a command do not keep its process.
const working = setInterval(() => undefined, 1_000);
await WORKS[work as keyof WorkInputs](JSON.parse(input as string) as never, steps);
clearInterval(working);
process.stdout.write(JSON.stringify({ steps: steps.count() }));
