import type { Query } from '../store/database.ts';
import { forgetMeta, readMeta, writeMeta } from '../store/meta.ts';

/** Name of the fact that stands while a process uses the quota, and after one that died. */
const RUNNING = 'throttle.running';

/** A process begins to use the quota. @returns whether the one before ended without saying so */
export async function beginRun(query: Query): Promise<boolean> {
  const wasRunning = (await readMeta(query, RUNNING)) !== undefined;
  if (!wasRunning) await writeMeta(query, RUNNING, 'yes');
  return wasRunning;
}

/** It ends, and every request of it has ended. */
export async function endRun(query: Query): Promise<void> {
  await forgetMeta(query, RUNNING);
}
