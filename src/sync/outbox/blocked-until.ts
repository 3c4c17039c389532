import { type Action, entity as entityName, MAX_TIME_IN_FLIGHT } from '../../model/change.ts';
import { json } from '../../store/entities.ts';
import { isUnverified } from '../../store/items.ts';
import { addDifference, type OutboxRow } from '../../store/outbox-rows.ts';
import { linksAreIdempotent, routeOffUntil } from '../../store/server-capabilities.ts';
import { areMarksKnown, creationsInFlight, delayOtherCreations } from '../../store/task-creations.ts';
import { lastLinksRead } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/** How long a write waits for the answer that allows it, before it asks for another one, milliseconds. */
export const LONGEST_BLOCK = 900_000;

/** How long a write about an item that is unverified since a restore waits before it is looked at again, milliseconds. */
export const UNVERIFIED_PAUSE = 60_000;

/** Until when a write about this item waits, epoch milliseconds; undefined where the item is verified, or there is none. */
export async function unverifiedUntil(query: Scope, itemKey: string | null, now: number): Promise<number | undefined> {
  return itemKey !== null && (await isUnverified(query, itemKey)) ? now + UNVERIFIED_PAUSE : undefined;
}

/**
 * A write that could double something waits for an answer that says whether it would.
 *
 * @returns until when it waits at most, epoch milliseconds; undefined where it may be sent
 */
export async function blockedUntil(
  query: Scope,
  row: OutboxRow,
  { action, taskId }: { readonly action: Action; readonly taskId: string | null },
  now: number,
): Promise<number | undefined> {
  if (action === 'create-task') return creationBlockedUntil(query, row, now);
  return action === 'add-link' ? linkBlockedUntil(query, row, taskId as string, now) : undefined;
}

/** Until it is known how a task of ours is recognised in the list, one creation is in flight at most. */
async function creationBlockedUntil(query: Scope, { entity }: OutboxRow, now: number): Promise<number | undefined> {
  if (await areMarksKnown(query)) return undefined;
  const others = (await creationsInFlight(query)).filter((each) => each !== entity);
  return others.length === 0 ? undefined : delayOtherCreations(query, now);
}

/** An earlier attempt. */
interface SentBefore {
  readonly revision: number;
  readonly sentAt: number;
}

/**
 * On a server that may double links, the first link to a task and each repetition wait for a read of the task's links. The
 * read begins when an earlier request can no longer be on its way.
 */
async function linkBlockedUntil(
  query: Scope,
  { sent, lane }: OutboxRow,
  taskId: string,
  now: number,
): Promise<number | undefined> {
  if (await linksAreIdempotent(query)) return undefined;
  const earlier = json<SentBefore>(sent);
  // An earlier request with a time ahead was sent before the clock was set back: only the revision says what came first.
  const arrived = earlier === undefined || earlier.sentAt > now ? 0 : earlier.sentAt + MAX_TIME_IN_FLIGHT;
  const read = await lastLinksRead(query, taskId);
  // Others may have requested a read that was sent too early to show the link.
  if (read !== undefined && read.revision > (earlier?.revision ?? 0) && read.sentAt >= arrived) return undefined;
  const off = await routeOffUntil(query, 'listWorkItems', now);
  if (off !== undefined) return off;
  const wish = { entity: entityName.readLinks(taskId), kind: 'read', lane, since: now, due: now } as const;
  await addDifference(query, { ...wish, notBefore: arrived, weight: 1, waiting: [] });
  return now + LONGEST_BLOCK;
}
