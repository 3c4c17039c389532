import { forgetMeta, readMeta, writeMeta } from '../store/meta.ts';
import type { Scope } from '../store/workspace-scope.ts';

/** Name of the fact that stands while a process uses the quota, and after one that died. */
const RUNNING = 'throttle.running';

/** Whether the previous process ended uncleanly. */
export async function diedBefore(query: Scope): Promise<boolean> {
  return (await readMeta(query, RUNNING)) !== undefined;
}

/** A process uses the quota from now on. One that sends nothing writes nothing. */
export async function beginRun(query: Scope): Promise<void> {
  await writeMeta(query, RUNNING, 'yes');
}

/** It ends, and every request of it has ended. */
export async function endRun(query: Scope): Promise<void> {
  await forgetMeta(query, RUNNING);
}
