// Design: src/decisions/changes.md

import { debounceOf, entity as entityName, MAX_TIME_IN_FLIGHT } from '../../model/change.ts';
import { FINAL_DELAY, type TaskUpdate } from '../../model/task.ts';
import type { TaskStatuses } from '../../model/task-status.ts';
import { type EntityRow, findEntity, linkedItems, removeOrTombstone } from '../../store/changes/entities.ts';
import { type Eligibility, firstDueTimes, nextChange, nextDue, nextLive } from '../../store/changes/next-change.ts';
import {
  addDifference,
  findChange,
  type OutboxRow,
  type OutboxUpdate,
  readWaiting,
  removeChange,
  updateChange,
} from '../../store/changes/outbox-rows.ts';
import { pendingConnections } from '../../store/deliveries/inbox.ts';
import { findItems, itemSummary } from '../../store/items/items.ts';
import { nextRevision } from '../../store/meta.ts';
import { readTaskUpdateFacts, refusalOfStatus } from '../../store/tasks/stored-tasks.ts';
import { areMarksKnown, creationsInFlight, delayOtherCreations } from '../../store/tasks/task-creations.ts';
import {
  canRecord,
  linksAreIdempotent,
  routeOffUntil,
  taskUpdatesOffUntil,
} from '../../store/workspace/server-capabilities.ts';
import { lastLinksRead, tasksWereRead, WORKSPACE } from '../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { Slot } from '../quota/slot.ts';
import type { Throttle } from '../quota/throttle.ts';
import { recordsPullRequests, type WorkspaceContext } from '../workspace-context.ts';
import {
  bodyToSend,
  type PreparedRequest,
  type RequestContent,
  type RequestTrace,
  requestFor,
  type SlotTimes,
} from './request.ts';

export type ChangeScheduler = ReturnType<typeof createChangeScheduler>;

/** Quota windows for which due times are considered in advance. */
const WINDOWS_AHEAD = 2;

/**
 * Decides which change is sent next, and when.
 *
 * @param reevaluation says whether the present rules have evaluated all changes. Until then nothing is written
 */
export function createChangeScheduler(
  context: WorkspaceContext,
  reevaluation: { readonly areChangesCurrent: boolean } = { areChangesCurrent: true },
) {
  const { store, throttle, clock, breaker, config } = context;
  const { visibility } = config.quota;
  let mayWrite = false;
  let mayRecord = false;
  let onlyWrites = false;

  /** Returns the conditions that a change must meet to be sent now. */
  async function eligible(): Promise<Eligibility> {
    const now = clock.now();
    mayWrite ||= await tasksWereRead(store.query);
    mayRecord ||= recordsPullRequests(config) && (await canRecord(store.query));
    return {
      now,
      // A person has approved the writes that are sent alone.
      onlyReads: !mayWrite || !(onlyWrites || reevaluation.areChangesCurrent),
      onlyWrites,
      withoutRecords: !mayRecord,
      retriesLast: sendsOneByOne(),
      leadTime: await currentLeadTime(now),
    };
  }

  /** Milliseconds by which changes are sent before their due time, so that the quota can serve all of them in time. */
  async function currentLeadTime(now: number): Promise<number> {
    if (visibility === undefined) return 0;
    const paces = throttle.paces();
    const limit = WINDOWS_AHEAD * Math.max(0, ...paces.map(({ slots }) => slots));
    const dueTimes = await firstDueTimes(store.query, limit);
    const { maxWait } = debounceOf('mirror', 0, visibility);
    return leadTime(forecastDueTimes(dueTimes, now + maxWait), paces);
  }

  /** True while the outcome of any request is doubtful: requests are sent one at a time, and changes take turns. */
  function sendsOneByOne(): boolean {
    return breaker.open || throttle.isHalted();
  }

  return {
    /** Selects the next change to send, and from when on it may be sent. */
    selectNextChange: async () => nextDue(store.query, await eligible()),
    eligible,
    /** Returns the next change that is not part of a backfill. */
    nextLiveChange: async () => nextLive(store.query, await eligible()),
    sendsOneByOne,
    /** True once the tasks of the workspace were read. Before that, desired and known state cannot be compared. */
    mayWrite: () => mayWrite,
    /** Excludes reads from now on. */
    selectWritesOnly(): void {
      onlyWrites = true;
    },
  };
}

/** Milliseconds of reserve per slot: a request takes some time, and other requests start meanwhile. */
const MARGIN = 2_000;

/** A burst is the changes of this period, milliseconds. */
const BURST_PERIOD = 30_000;
/** A burst is expected to continue for this many further periods. */
const EXPECTED_PERIODS = 3;

/**
 * Returns the given due times, followed by the expected due times of a burst that continues.
 * A release, for example, adds labels for minutes: waiting until all changes are known would start too late.
 *
 * @param dueTimes ascending
 * @param latest when a change would be due that arrived now
 */
export function forecastDueTimes(dueTimes: readonly number[], latest: number): number[] {
  const recent = dueTimes.filter((due) => due > latest - BURST_PERIOD && due <= latest).length;
  const gap = BURST_PERIOD / recent;
  const expected = Array.from({ length: recent * EXPECTED_PERIODS }, (_, index) => latest + (index + 1) * gap);
  return [...dueTimes, ...expected];
}

/**
 * Returns how long before its due time the first change must be sent so that all changes can be sent in time.
 * If more changes are due within a window than it has slots, the slot of the first must be free when the last is due.
 *
 * @param dueTimes ascending
 * @returns whole milliseconds
 */
export function leadTime(dueTimes: readonly number[], paces: ReturnType<Throttle['paces']>): number {
  const latest = [...dueTimes];
  for (let index = latest.length - 1; index >= 0; index--) {
    for (const { slots, hold } of paces) {
      const reusedAt = latest[index + slots];
      if (reusedAt !== undefined) latest[index] = Math.min(latest[index] as number, reusedAt - hold - MARGIN);
    }
  }
  const [first] = dueTimes;
  // Expected due times may be fractions of a millisecond. Those of rows are whole.
  return first === undefined ? 0 : Math.ceil(first - (latest[0] as number));
}

/**
 * Claims the change to send next. One transaction computes and stores its request, and records the slot in the ledger. After a
 * crash the next process finds the request in flight, and treats its outcome as unknown, also if it was never sent: see `recover`.
 * A change for which nothing is to be sent leaves the slot to the next one, because a slot is rare during an outage.
 * Releases the slot if there is no other, or if the commit fails.
 *
 * If `next` is no longer current, because another change may be more urgent, the most urgent one is claimed, also of another
 * lane. All lanes count in the same windows, so the caps hold. But the ledger counts the request for the lane of the slot, and a
 * backfill that gets the slot of a live change has not waited for room in its own share.
 *
 * @param askedAt when the slot was requested, epoch milliseconds
 */
export async function claimChange(
  { store, clock, config, throttle }: WorkspaceContext,
  scheduler: ChangeScheduler,
  slot: Slot,
  next: { readonly entity: string; readonly isCurrent: () => boolean },
  askedAt: number,
): Promise<PreparedRequest | undefined> {
  const slotAt = clock.now();
  try {
    const eligible = { ...(await scheduler.eligible()), statuses: config.workspace.statuses };
    const selected = next.isCurrent() ? next.entity : undefined;
    const prepared = await store.commit(async (transaction) => {
      // Another request may have been refused after this slot was granted.
      if (throttle.isPaused()) return undefined;
      // Read the time inside the transaction, which may have waited for others: what they stored precedes this request.
      const request = await prepareNext(transaction, { ...eligible, now: clock.now() }, selected, { askedAt, slotAt });
      if (request) await slot.record(transaction);
      return request;
    });
    if (!prepared) slot.release();
    return prepared;
  } catch (error) {
    slot.release();
    throw error;
  }
}

/**
 * Prepares the selected change, or else the next one that is due, until one has a request. Those before it are removed, held or
 * postponed beyond the time of the claim.
 *
 * @param selected the change that was selected a moment ago, if nothing has happened since
 * @returns undefined if no change is due
 */
export async function prepareNext(
  query: Scope,
  { statuses, ...eligible }: Eligibility & { readonly statuses?: TaskStatuses },
  selected?: string,
  slotTimes: SlotTimes = { askedAt: eligible.now, slotAt: eligible.now },
): Promise<PreparedRequest | undefined> {
  const { now } = eligible;
  const next = async () => (await nextChange(query, eligible))?.entity;
  for (let entity = selected ?? (await next()); entity !== undefined; entity = await next()) {
    const prepared = await prepareChange(query, entity, { ...slotTimes, now }, statuses);
    if (prepared) return prepared;
  }
  return undefined;
}

/**
 * Computes the request of a pending change from desired and known state, and stores it as in flight.
 * Removes a change without a difference, and postpones one that must wait for a read.
 *
 * @returns undefined if nothing is to be sent for the change now
 */
async function prepareChange(
  query: Scope,
  entity: string,
  times: SlotTimes & { readonly now: number },
  statuses: TaskStatuses = {},
): Promise<PreparedRequest | undefined> {
  const { now, ...slotTimes } = times;
  const change = await findChange(query, entity);
  if (change?.state !== 'pending') return undefined;
  const row = change.kind === 'read' ? undefined : await findEntity(query, entity);
  const request = await requestFor(query, change, row, now);
  if (request === undefined) {
    await dropWithoutDifference(query, change, now);
    return undefined;
  }
  if (await holdIfStatusIsOff(query, change, request, statuses, now)) return undefined;
  const itemKey = row?.item_key ?? null;
  const item = itemKey === null ? undefined : await itemSummary(query, itemKey);
  const blocked = await waitOf(query, change, { ...request, isUnverified: item?.isUnverified ?? false }, now);
  const trace = { itemKey, itemName: item?.name, ...slotTimes };
  if (blocked === undefined) return storeInFlight(query, change, request, trace, now);
  await updateChange(query, entity, blocked);
  return undefined;
}

/**
 * Removes a change that has nothing to send. A read has nothing to send only while its route is switched off. A read on
 * which a removal depends (its `effect` is `removal`) then waits for the route instead.
 */
async function dropWithoutDifference(query: Scope, { entity, kind, effect }: OutboxRow, now: number): Promise<void> {
  if (kind === 'read' && effect === 'removal') return updateChange(query, entity, { not_before: now + MAX_BLOCK });
  await removeChange(query, entity);
  const row = kind === 'read' ? undefined : await findEntity(query, entity);
  if (row && isEmpty(row)) await removeOrTombstone(query, row);
}

/** Whether this is a link or a task that is neither desired nor known. */
function isEmpty({ kind, desired, known }: EntityRow): boolean {
  return kind !== 'pull_request' && desired === null && known === null;
}

async function storeInFlight(
  query: Scope,
  change: OutboxRow,
  request: RequestContent,
  trace: Pick<RequestTrace, 'itemKey' | 'itemName'> & SlotTimes,
  now: number,
): Promise<PreparedRequest> {
  const { entity, kind, lane, attempts, since, due } = change;
  const deliveries = readWaiting(change).map(({ id }) => id);
  const prepared: PreparedRequest = {
    ...request,
    entity,
    kind,
    lane,
    attempts,
    open: isOutcomeUnknown(change),
    ...attemptedBefore(change, request),
    ...(change.awaits === 'check' && { isChecked: true }),
    ...(change.error?.startsWith('conflict:') && { isConflicted: true }),
    waiting: deliveries.length,
    trace: { ...trace, since, due, deliveries },
    body: await bodyToSend(query, entity, request, now),
    sentAt: now,
    revision: await nextRevision(query),
  };
  await updateChange(query, entity, { state: 'sending', sent: JSON.stringify(prepared), sent_at: now });
  return prepared;
}

/** Whether an earlier attempt of this pending change has an unknown outcome: see the table in `model/change.ts`. */
function isOutcomeUnknown({ kind, sent }: OutboxRow): boolean {
  return kind !== 'read' && sent !== null;
}

/** Returns earlier updates of the task that may have arrived, and that set another status than this one. */
function attemptedBefore(change: OutboxRow, { body }: RequestContent): Pick<PreparedRequest, 'attempted'> {
  if (change.kind !== 'task_update' || !isOutcomeUnknown(change)) return {};
  const { attempted = [], body: last } = json<PreparedRequest>(change.sent) ?? {};
  const isOther = ({ status }: TaskUpdate) => status !== undefined && status !== body['status'];
  const others = [...attempted, last as unknown as TaskUpdate].filter(isOther);
  return others.length === 0 ? {} : { attempted: others };
}

/** How long a write waits for the read that allows it before it requests another one, milliseconds. */
export const MAX_BLOCK = 900_000;

/** How often a write is checked again whose item is unverified since a restore, milliseconds. */
export const UNVERIFIED_PAUSE = 60_000;

/** The wait of a change, and the read that ends it early. */
type Wait = Pick<OutboxUpdate, 'not_before' | 'awaits'>;

/**
 * Returns the wait of a write that could duplicate something or whose item is unverified; undefined if it may be sent.
 * Requests the read that the write waits for.
 */
export async function waitOf(
  query: Scope,
  change: OutboxRow,
  {
    action,
    taskId,
    body,
    isUnverified,
  }: Pick<RequestContent, 'action' | 'taskId' | 'body'> & { readonly isUnverified: boolean },
  now: number,
): Promise<Wait | undefined> {
  if (isUnverified) return waitUntil(now + UNVERIFIED_PAUSE);
  if (action === 'create-task') return waitUntil(await creationBlockedUntil(query, change, now));
  if (action === 'update-task') return waitUntil(await updateBlockedUntil(query, { taskId, body }, now));
  return action === 'add-link' ? waitOfLink(query, change, taskId as string, now) : undefined;
}

function waitUntil(time: number | undefined): Wait | undefined {
  return time === undefined ? undefined : { not_before: time };
}

/** How often a final status is checked again while deliveries are pending, milliseconds. */
const INBOX_PAUSE = 2_000;
/** Older pending deliveries delay no final status, milliseconds. */
const MAX_INBOX_WAIT = 900_000;

/**
 * Updates wait while the workspace has no route for them. A final status also waits for its earliest time, and until the recent
 * deliveries of the connections of its linked items, and of the workspace, are processed: they may show that the work goes on.
 */
async function updateBlockedUntil(
  query: Scope,
  { taskId, body }: Pick<RequestContent, 'taskId' | 'body'>,
  now: number,
): Promise<number | undefined> {
  const { notBefore } = body as unknown as TaskUpdate;
  // A time that is further away than the delay does not count: the clock was set back after it was stored.
  const earliest = notBefore !== undefined && notBefore <= now + FINAL_DELAY ? notBefore : 0;
  const until = Math.max(earliest, (await taskUpdatesOffUntil(query, now)) ?? 0);
  if (until > now) return Math.min(until, now + MAX_BLOCK);
  if (notBefore === undefined) return undefined;
  const pending = await pendingConnections(query, now - MAX_INBOX_WAIT);
  if (pending?.size === 0) return undefined;
  const items = await findItems(query, await linkedItems(query, [taskId as string]));
  const mustWait = [WORKSPACE, ...items.map(({ connection }) => connection)].some((each) => pending?.has(each) ?? true);
  return mustWait ? now + INBOX_PAUSE : undefined;
}

/** Holds an update whose status the workspace refuses, or others change back, unless a person released it. */
async function holdIfStatusIsOff(
  query: Scope,
  { entity, guard }: OutboxRow,
  { action, body }: RequestContent,
  statuses: TaskStatuses,
  now: number,
): Promise<boolean> {
  if (action !== 'update-task' || guard === 'confirmed') return false;
  const { status } = body as unknown as TaskUpdate;
  const error = refusalOfStatus(await readTaskUpdateFacts(query), statuses, status, now);
  if (error !== undefined) await updateChange(query, entity, { state: 'held', error });
  return error !== undefined;
}

/**
 * Until a list has shown how worksync recognises its own tasks, at most one creation is in flight, and none is sent
 * while the outcome of two is unknown. On a server that shows no marks a person has to decide on each of them.
 */
async function creationBlockedUntil(query: Scope, { entity }: OutboxRow, now: number): Promise<number | undefined> {
  if (await areMarksKnown(query)) return undefined;
  const others = (await creationsInFlight(query)).filter((creation) => creation.entity !== entity);
  const isBlocked = others.length > 1 || others.some(({ state }) => state === 'sending');
  return isBlocked ? delayOtherCreations(query, now) : undefined;
}

/** The part of a `PreparedRequest` that identifies an earlier attempt. */
type EarlierAttempt = Pick<PreparedRequest, 'revision' | 'sentAt'>;

/**
 * On a server that may duplicate links, the first link to a task and each repetition wait for a read of the task's
 * links. The read must start when an earlier attempt cannot be in flight any more.
 */
async function waitOfLink(
  query: Scope,
  { sent, lane }: OutboxRow,
  taskId: string,
  now: number,
): Promise<Wait | undefined> {
  if (await linksAreIdempotent(query)) return undefined;
  const earlier = json<EarlierAttempt>(sent);
  // An attempt in the future was sent before the clock was set back: then only the revision shows which came first.
  const arrivedAt = earlier === undefined || earlier.sentAt > now ? 0 : earlier.sentAt + MAX_TIME_IN_FLIGHT;
  const read = await lastLinksRead(query, taskId);
  // Another change may have requested a read that was sent too early to show the link.
  if (read !== undefined && read.revision > (earlier?.revision ?? 0) && read.sentAt >= arrivedAt) return undefined;
  const off = await routeOffUntil(query, 'listWorkItems', now);
  if (off !== undefined) return waitUntil(off);
  await addDifference(query, {
    entity: entityName.readLinks(taskId),
    kind: 'read',
    lane,
    since: now,
    due: now,
    notBefore: arrivedAt,
    weight: 1,
    waiting: [],
  });
  return { not_before: now + MAX_BLOCK, awaits: 'links' };
}
