import { entity } from '../model/change.ts';
import { debounceOf, type Lane } from '../model/lane.ts';
import { readMeta } from './meta.ts';
import { addDifference } from './outbox-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** Names of facts in the `meta` table: when the workspace's content was last read completely. */
export const TASKS_READ = 'tasks_read_at';
export const PULL_REQUESTS_READ = 'pull_requests_read_at';

/** Whether the tasks were read at least once: before that nothing is written. */
export async function tasksWereRead(query: Scope): Promise<boolean> {
  return (await readMeta(query, TASKS_READ)) !== undefined;
}

/** At the start: requests the lists that were never read, at once. The records only where a connection records. */
export async function enqueueInitialReads(query: Scope, now: number, areRecordsWanted: boolean): Promise<void> {
  const wishes = [
    [TASKS_READ, entity.readTasks],
    ...(areRecordsWanted ? [[PULL_REQUESTS_READ, entity.readPullRequests] as const] : []),
  ] as const;
  const missing: string[] = [];
  for (const [fact, name] of wishes) {
    if ((await readMeta(query, fact)) === undefined) missing.push(name);
  }
  await enqueueReads(query, missing, now);
}

/** Asks for reads by their entities, at once; in the lane of backfills for what nobody waits for. */
export async function enqueueReads(
  query: Scope,
  entities: readonly string[],
  now: number,
  lane: Lane = 'read',
): Promise<void> {
  for (const name of entities) {
    const wish = { kind: 'read', since: now, due: now, weight: 1, waiting: [] } as const;
    await addDifference(query, { entity: name, lane, ...wish });
  }
}

export interface ListReadRequest {
  readonly now: number;
  readonly usedShare: number;
  readonly lane: Lane;
  /** Earlier the list would prove nothing. */
  readonly notBefore: number;
}

/** Asks for one complete read of the task list; a read that waits already serves this wish too. */
export async function enqueueTaskListRead(
  query: Scope,
  { now, usedShare, lane, notBefore }: ListReadRequest,
): Promise<void> {
  const due = now + debounceOf(lane, usedShare).wait;
  await addDifference(query, {
    entity: entity.readTasks,
    kind: 'read',
    lane,
    since: now,
    due,
    weight: 1,
    notBefore,
    waiting: [],
  });
}
