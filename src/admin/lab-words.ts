import { counted } from '../platform/lib/quantities.ts';
import type { LabReport } from './lab.ts';

/** Why a report of the lab is not about all items, for commands and pages; apart, so that a command loads no more. */
export function describeLabEnd({ by, held }: NonNullable<LabReport['ended']>): string {
  const why = by === 'items' ? 'worksync evaluates no more in one go' : 'it took too long to go on';
  return `these are not all of its ${counted(held, 'item')}: ${why}; what the others would bring about is not counted`;
}

/** Returns when the later effects of a configuration come. */
export function laterCondition(effect: LabReport['effects'][number]['effect']): string {
  return effect === 'update-task' ? 'by what happened before, which "since" would reach' : 'when finished items change';
}
