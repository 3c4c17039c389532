import { counted } from '../platform/lib/quantities.ts';
import type { UnfinishedTasks } from '../store/tasks/unfinished-tasks.ts';

/** Returns the sentence about tasks that merged work has not finished; undefined if there are none. */
export function describeUnfinished(unfinished: UnfinishedTasks): string | undefined {
  const reasons = Object.entries(unfinished).toSorted(([, left], [, right]) => right - left);
  const sum = reasons.reduce((total, [, count]) => total + count, 0);
  if (sum === 0) return undefined;
  const parts = reasons.map(([reason, count]) => `${count} ${reason}`).join(', ');
  return `${counted(sum, 'task')} whose work was merged ${sum === 1 ? 'is' : 'are'} not finished: ${parts}`;
}
