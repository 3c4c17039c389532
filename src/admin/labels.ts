import { counted } from '../platform/lib/quantities.ts';
import type { UnfinishedTasks } from '../store/tasks/stored-tasks.ts';
import type { Phase } from './deliveries/timelines.ts';
import type { LabReport } from './workspace/lab.ts';

/** Returns the sentence about tasks that merged work has not finished; undefined if there are none. */
export function describeUnfinished(unfinished: UnfinishedTasks): string | undefined {
  const reasons = Object.entries(unfinished).toSorted(([, left], [, right]) => right - left);
  const sum = reasons.reduce((total, [, count]) => total + count, 0);
  if (sum === 0) return undefined;
  const parts = reasons.map(([reason, count]) => `${count} ${reason}`).join(', ');
  return `${counted(sum, 'task')} whose work was merged ${sum === 1 ? 'is' : 'are'} not finished: ${parts}`;
}

/** Why a report of the lab is not about all items, for commands and pages; apart, so that a command loads no more. */
export function describeLabEnd({ by, held }: NonNullable<LabReport['ended']>): string {
  const why = by === 'items' ? 'worksync evaluates no more in one go' : 'it took too long to go on';
  return `these are not all of its ${counted(held, 'item')}: ${why}; what the others would bring about is not counted`;
}

/** Returns when the later effects of a configuration come. */
export function laterCondition(effect: LabReport['effects'][number]['effect']): string {
  return effect === 'update-task' ? 'by what happened before, which "since" would reach' : 'when finished items change';
}

/** Labels of the phases on pages and in the output of commands. */
export const TIMELINE_PHASE_LABELS: Readonly<Record<Phase['name'], string>> = {
  decision: 'read and decided',
  due: 'wait for further events',
  slot: 'wait for its turn',
  request: 'request',
};
