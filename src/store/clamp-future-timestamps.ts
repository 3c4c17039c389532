import { redateDoubt } from './creates.ts';
import { redateKnown } from './entities.ts';
import { redateChanges } from './next-change.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Times ahead are of a clock that has since been set back. Whatever would wait until the old time has come again, or would count as newer
 * than all that is read until then, counts as of now.
 */
export async function clampFutureTimestamps(query: Scope, now: number): Promise<void> {
  await redateChanges(query, now);
  await redateKnown(query, now);
  await redateDoubt(query, now);
}
