import { forgetMeta, readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/** Name of the fact that stands while a process uses the quota, and after one that died. */
const RUNNING = 'throttle.running';

const IS_RUNNING = 'yes';

/** Whether the previous process ended uncleanly. */
export async function wasUncleanShutdown(query: Scope): Promise<boolean> {
  return (await readMeta(query, RUNNING)) === IS_RUNNING;
}

/** How long the previous process, which ended cleanly, would still have been careful because of an unclean end, milliseconds. */
export async function carefulFor(query: Scope): Promise<number> {
  const left = await readMeta(query, RUNNING);
  return left === undefined || left === IS_RUNNING ? 0 : Number(left);
}

/** A process uses the quota from now on. One that sends nothing writes nothing. */
export async function markRunning(query: Scope): Promise<void> {
  await writeMeta(query, RUNNING, IS_RUNNING);
}

/**
 * The process ends, and every request of it has ended.
 *
 * @param careful how long the next process is to be careful, milliseconds
 */
export async function markShutdown(query: Scope, careful = 0): Promise<void> {
  if (careful > 0) await writeMeta(query, RUNNING, String(Math.ceil(careful)));
  else await forgetMeta(query, RUNNING);
}
