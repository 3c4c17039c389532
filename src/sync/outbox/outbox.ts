import { settlement } from '../../model/change.ts';
import { asSyncError } from '../../model/errors.ts';
import { createValidity, onClockSetBack, sleep, waitForWork } from '../../platform/lib/clock.ts';
import { yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import { changesInFlight, updateChange } from '../../store/changes/outbox-rows.ts';
import { addRequest } from '../../store/changes/requests.ts';
import { clampFutureTimestamps } from '../../store/installation/clock-changes.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../store/retry-until-committed.ts';
import { markTasksUnverified } from '../../store/tasks/task-creations.ts';
import { configureLinks, readRecordsRoute, retryRefusedRoutes } from '../../store/workspace/server-capabilities.ts';
import { bindServerFacts } from '../../store/workspace/server-facts.ts';
import { enqueueInitialReads, enqueueTaskListRead } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { apiOverrides } from '../../workspace-api/contract.ts';
import type { Slot } from '../quota/slot.ts';
import { recordsPullRequests, type WorkspaceContext } from '../workspace-context.ts';
import { claimChange, createChangeScheduler } from './claim.ts';
import { historyRow, type PreparedRequest, requestSpans } from './request.ts';
import { acquireSlot, createSender, type SendAndSettle } from './sender.ts';
import { awaitTaskList, pendingAgain, type SettleContext, settleContextOf } from './settle.ts';

/** How long a selected change stays selected unless a wake-up arrives, milliseconds. */
const SELECTION_LIFETIME = 50;

export type Outbox = ReturnType<typeof createOutbox>;

/**
 * The sending stage. For each change: wait until it is due and a slot is free; claim it in one transaction; send its
 * request; settle it in another transaction. The next change is claimed meanwhile, as far as the throttle allows.
 */
export function createOutbox(context: WorkspaceContext, reevaluation?: { readonly areChangesCurrent: boolean }) {
  const { store, clock, logger } = context;
  const scheduler = createChangeScheduler(context, reevaluation);
  /** Claimed requests, until their answers are stored. */
  const claimed = new Map<PreparedRequest, Promise<void>>();
  /** Claiming failed, perhaps in its commit, which the database may have stored in spite of the error. */
  let isClaimUncertain = false;
  const checkClock = onClockSetBack(clock, () =>
    store.commit((transaction) => clampFutureTimestamps(transaction, clock.now())),
  );
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    const sendAndSettle = createSender(context, scheduler, signal);
    await retryUntilCommitted(context, () => recoverAtStart(context), signal);
    while (!signal.aborted) {
      try {
        if (isClaimUncertain) await requeueUncertain();
        await sendNext(sendAndSettle, signal);
      } catch (error) {
        if (signal.aborted) return;
        isClaimUncertain = true;
        await backoffAfterDbError(context, error, signal);
      }
    }
  }

  /**
   * One round: select the next change, wait until it is due, acquire a slot, claim the change, send and settle it. The next
   * round does not wait for the answer. Returns early if other work may be more urgent.
   */
  async function sendNext(sendAndSettle: SendAndSettle, signal: AbortSignal): Promise<void> {
    // Wait from before the query on: a later wake-up may concern a row that the query did not see.
    const wake = context.outbox.wait();
    // With thousands of pending changes the selection takes milliseconds: let the stage that sent the wake-up finish.
    await yieldToEventLoop();
    await checkClock();
    const isCurrent = createValidity(clock, SELECTION_LIFETIME, wake);
    const next = await scheduler.selectNextChange();
    if (next === undefined) return wake;
    const waitMs = next.at - clock.now();
    if (waitMs > 0) return waitForWork(clock, waitMs, wake, signal);
    if (scheduler.sendsOneByOne()) await pauseBetweenProbes(signal);

    const askedAt = clock.now();
    const slot = await acquireSlot(context, scheduler, next, wake, signal);
    if (slot === undefined) return;
    // Probing began while this change waited for its slot: the requests in flight end first.
    if (claimed.size > 0 && scheduler.sendsOneByOne()) return slot.release();

    const prepared = await claimChange(context, scheduler, slot, { ...next, isCurrent }, askedAt);
    if (prepared) claimed.set(prepared, sendClaimed(sendAndSettle, prepared, slot));
  }

  /** Logs errors, because no caller awaits it: they must end neither the stage nor the process. */
  async function sendClaimed(sendAndSettle: SendAndSettle, prepared: PreparedRequest, slot: Slot): Promise<void> {
    const { action, entity, lane, kind, trace } = prepared;
    const waited = Math.max(0, clock.now() - trace.askedAt);
    logger.debug({ action, entity, lane, waited, deliveries: trace.deliveries }, 'request is sent');
    try {
      await sendAndSettle(prepared, slot);
      if (kind !== 'read') context.onWrite();
      context.inbox.notify();
      context.outbox.notify();
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'the work after a request failed');
    } finally {
      claimed.delete(prepared);
    }
  }

  async function requeueUncertain(): Promise<void> {
    const isClaimed = (entity: string) => claimed.keys().some((prepared) => prepared.entity === entity);
    await store.commit((transaction) => requeueUnsent(transaction, isClaimed));
    isClaimUncertain = false;
  }

  async function pauseBetweenProbes(signal: AbortSignal): Promise<void> {
    await Promise.all(claimed.values());
    await sleep(clock, context.breaker.pause(), signal);
  }

  function start(): void {
    if (running) return;
    stopping = new AbortController();
    running = run(stopping.signal);
  }

  return {
    /** The number of requests that are in flight or being settled. */
    get inFlight() {
      return claimed.size;
    },
    start,
    /** Like `start`, but sends only the pending writes, and reads nothing. */
    startWrites() {
      scheduler.selectWritesOnly();
      start();
    },
    async stop() {
      stopping?.abort();
      context.outbox.notify();
      await running;
      await Promise.all(claimed.values());
      running = undefined;
    },
  };
}

/**
 * Requeues claims of this process that were committed although the database reported an error.
 * Their requests were never sent.
 *
 * @param isClaimed whether this process sends the request of this entity, and will settle it
 */
async function requeueUnsent(query: Scope, isClaimed: (entity: string) => boolean): Promise<void> {
  for (const { entity, sent } of await changesInFlight(query)) {
    if (isClaimed(entity)) continue;
    await updateChange(query, entity, { ...pendingAgain(requestIn(sent)), next_since: null });
  }
}

/** Prepares the rows for a new process: settles requests in flight as unknown, and requests the initial reads. */
async function recoverAtStart(context: WorkspaceContext): Promise<void> {
  const { store, clock, logger, tracer, config } = context;
  const { url, api } = config.workspace;
  const recovered = await store.commit(async (transaction) => {
    const now = clock.now();
    await clampFutureTimestamps(transaction, now);
    // A constant for the embedded service, because its port changes with each start.
    await bindServerFacts(transaction, url ?? 'embedded');
    await retryRefusedRoutes(transaction);
    await configureLinks(transaction, apiOverrides.parse(api ?? {}).links === 'idempotent');
    await enqueueStartReads(transaction, context, now);
    return recover(transaction, settleContextOf(context), context.untouched);
  });
  const now = clock.now();
  for (const { action, entity, trace } of recovered) {
    const fields = { action, item: trace.itemName, entity, deliveries: trace.deliveries };
    logger.info(fields, 'request with unknown outcome found at the start');
  }
  if (!tracer) return;
  const end = { answeredAt: now, settledAt: now, outcome: 'unknown', error: 'outcome_unknown' } as const;
  for (const prepared of recovered)
    for (const span of requestSpans(prepared, store.query.workspace, end)) tracer.record(span);
}

/** Requests the lists that were never read, and the list of tasks if the stored tasks are uncertain. */
async function enqueueStartReads(query: Scope, { config, throttle }: WorkspaceContext, now: number): Promise<void> {
  const { state } = await readRecordsRoute(query);
  await enqueueInitialReads(query, now, recordsPullRequests(config) && state !== 'closed');
  if (!(await markTasksUnverified(query, now))) return;
  await enqueueTaskListRead(query, { now, usedShare: throttle.usedShare(), lane: 'triage', notBefore: 0 });
}

/**
 * Settles the requests that the previous process had in flight: their outcome is unknown. Idempotent requests are
 * repeated; creations wait for a list.
 *
 * @param untouched how long requests of that process may still be in flight, milliseconds
 * @returns the requests
 */
export async function recover(
  query: Scope,
  context: SettleContext,
  untouched = 0,
): Promise<readonly PreparedRequest[]> {
  const { now } = context;
  const arrivedAt = now + untouched;
  const recovered: PreparedRequest[] = [];
  for (const { entity, kind, sent } of await changesInFlight(query)) {
    const prepared = requestIn(sent);
    recovered.push(prepared);
    const error = 'outcome_unknown: the process ended';
    await addRequest(query, historyRow(prepared, { now, outcome: 'unknown', error }));
    if (settlement(kind) === 'list') {
      await awaitTaskList(query, prepared, error, { ...context, now: arrivedAt });
      continue;
    }
    // Reads are repeated at once: that does no harm, and all other changes of a new workspace wait for the first ones.
    const isPostponed = untouched > 0 && kind !== 'read';
    await updateChange(query, entity, {
      ...pendingAgain(prepared, true),
      ...(isPostponed && { not_before: arrivedAt }),
    });
  }
  return recovered;
}

function requestIn(sent: string | null): PreparedRequest {
  return JSON.parse(sent as string) as PreparedRequest;
}
