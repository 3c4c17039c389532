import { entity } from '../model/change.ts';
import { type Lane, patience } from '../model/lane.ts';
import { readMeta } from './meta.ts';
import { addDifference } from './outbox-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** Names of facts in the `meta` table: when the workspace's content was last read completely. */
export const TASKS_READ = 'tasks_read_at';
export const PULL_REQUESTS_READ = 'pull_requests_read_at';

/** Whether both lists were read completely at least once: before that nothing is written. */
export async function firstReadsDone(query: Scope): Promise<boolean> {
  return (await readMeta(query, TASKS_READ)) !== undefined && (await readMeta(query, PULL_REQUESTS_READ)) !== undefined;
}

/** At the start: asks for the lists that were never read, at once. */
export async function wishFirstReads(query: Scope, now: number): Promise<void> {
  const wishes = [
    [TASKS_READ, entity.readTasks],
    [PULL_REQUESTS_READ, entity.readPullRequests],
  ] as const;
  const missing: string[] = [];
  for (const [fact, name] of wishes) {
    if ((await readMeta(query, fact)) === undefined) missing.push(name);
  }
  await wishReads(query, missing, now);
}

/** Asks for reads by their entities, at once; in the lane of backfills for what nobody waits for. */
export async function wishReads(
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

export interface ListWish {
  readonly now: number;
  readonly usedShare: number;
  readonly lane: Lane;
  /** Earlier the list would prove nothing. */
  readonly notBefore: number;
}

/** Asks for one complete read of the task list; a read that waits already serves this wish too. */
export async function wishTaskList(query: Scope, { now, usedShare, lane, notBefore }: ListWish): Promise<void> {
  const due = now + patience(lane, usedShare).quiet;
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
