import type { Action } from '../../model/change.ts';
import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, type SyncError, wasSent } from '../../model/errors/sync-error.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { waitForWork } from '../../platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { DueChange } from '../../store/changes/next-change.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../store/retry-until-committed.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ApiAnswer, SendContext } from '../../workspace-api/typed-client.ts';
import type { Slot } from '../quota/slot.ts';
import { type Breaker, isCredentialRefused, isWorkspaceRefusal } from './breaker.ts';
import { type ChangeScheduler, createChangeScheduler } from './change-scheduler.ts';
import { claimChange } from './claim.ts';
import { type ListPosition, RECORDS_PER_PAGE } from './list-pages.ts';
import type { OutboxClient, OutboxContext } from './outbox-context.ts';
import { recoverAtStart, requeueUnsent } from './recovery.ts';
import { type FailureOutcome, MAX_ATTEMPTS } from './refusals.ts';
import { OPTIONAL_READS, type PreparedRequest, requestSpans, routeOf, type SpanEnd, sendSpanName } from './request.ts';
import { settle, settleContextOf } from './settle.ts';
import { settleFailure } from './settle-failure.ts';
import { TaskUpdater } from './update-task.ts';

export type Outbox = ReturnType<typeof createOutbox>;

/**
 * The sending stage. For each change: wait until it is due and a slot is free; claim it in one transaction; send its
 * request; settle it in another transaction. The next change is claimed meanwhile, as far as the throttle allows.
 */
export function createOutbox(context: OutboxContext) {
  const { store, clock, logger } = context;
  const scheduler = createChangeScheduler(context);
  /** Claimed requests, until their answers are stored. */
  const claimed = new Map<PreparedRequest, Promise<void>>();
  /** Claiming failed, perhaps in its commit, which the database may have stored in spite of the error. */
  let isClaimUncertain = false;
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
    const next = await scheduler.nextChange(wake);
    if (next === undefined) return wake;
    const waitMs = next.at - clock.now();
    if (waitMs > 0) return waitForWork(clock, waitMs, wake, signal);
    if (scheduler.sendsOneByOne()) await pauseBetweenProbes(signal);

    const askedAt = clock.now();
    const slot = await acquireSlot(context, scheduler, next, wake, signal);
    if (slot === undefined) return;
    // Probing began while this change waited for its slot: the requests in flight end first.
    if (scheduler.sendsOneByOne() && claimed.size > 0) return slot.release();

    const prepared = await claimChange(context, scheduler, slot, next, askedAt);
    if (prepared) claimed.set(prepared, sendClaimed(sendAndSettle, prepared, slot));
  }

  /** Logs errors, because no caller awaits it: they must end neither the stage nor the process. */
  async function sendClaimed(sendAndSettle: SendAndSettle, prepared: PreparedRequest, slot: Slot): Promise<void> {
    const { action, entity, lane, kind, trace } = prepared;
    const waited = Math.max(0, clock.now() - trace.askedAt);
    logger.debug({ action, entity, lane, waited, deliveries: trace.deliveries }, 'request is sent');
    try {
      await sendAndSettle(prepared, slot);
      if (kind !== 'read') context.onWrite?.();
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
 * Acquires a quota slot for the next change.
 * Returns undefined for a backfill change as soon as live work is due or may have arrived: backfills must not delay it.
 */
export async function acquireSlot(
  { throttle, clock }: OutboxContext,
  scheduler: ChangeScheduler,
  { lane, due }: DueChange,
  wake: Promise<void>,
  signal: AbortSignal,
): Promise<Slot | undefined> {
  if (lane !== 'backfill') return throttle.acquire({ lane, due, signal });
  const live = await scheduler.nextLiveChange();
  const yieldToLive = new AbortController();
  const cancelled = AbortSignal.any([signal, yieldToLive.signal]);
  if (live) void sleep(clock, Math.max(0, live.at - clock.now()), cancelled).then(() => yieldToLive.abort());
  void wake.then(() => yieldToLive.abort());
  try {
    return await throttle.acquire({ lane, due, signal: cancelled });
  } catch (error) {
    if (yieldToLive.signal.aborted && !signal.aborted) return undefined;
    throw error;
  } finally {
    yieldToLive.abort();
  }
}

/**
 * Sends a claimed request and settles its change.
 * Never rejects. A request that cannot be settled now is found in flight at the next start.
 */
export type SendAndSettle = (prepared: PreparedRequest, slot: Slot) => Promise<void>;

/** Statuses with which servers answer for a route that they do not have. */
const NO_ROUTE: ReadonlySet<number | undefined> = new Set([404, 405, 410, 501]);

/**
 * Returns the log level of a failed request. A settled one counts as answered. A server without a route for records is
 * no failure either. `status` and `check` report what both mean.
 */
function levelOf({ action }: PreparedRequest, { own, status }: SyncError, outcome: FailureOutcome) {
  if (outcome === 'held') return 'error';
  const isRouteMissing = action === 'read-pull-requests' && own && NO_ROUTE.has(status);
  return outcome === 'settled' || isRouteMissing ? 'info' : 'warn';
}

/** @param signal aborts when the outbox stops */
export function createSender(context: OutboxContext, scheduler: ChangeScheduler, signal: AbortSignal): SendAndSettle {
  const { store, throttle, client, clock, logger, meter, breaker, tracer } = context;
  const { workspace } = store.query;
  /** The first read of the tasks was refused. Nothing is written before it succeeds, so other answers end no trouble. */
  let isFirstReadRefused = false;

  const updater = new TaskUpdater(context, signal, handleAnswer, handleFailure);

  async function sendAndSettle(prepared: PreparedRequest, slot: Slot): Promise<void> {
    try {
      const traceparent = tracer?.traceparent(sendSpanName(prepared, workspace));
      if (!isPlain(prepared)) return await updater.send(prepared, slot, traceparent);
      const answer = await sendRequest(client, prepared, { traceparent });
      await handleAnswer(prepared, slot, answer);
    } catch (thrown) {
      await handleFailure(prepared, slot, asSyncError(thrown));
    } finally {
      // The end may not be stored, because the outbox stops. The throttle must not wait for it when it stops itself.
      slot.leave();
    }
  }

  /** @param work runs in the transaction that settles the change */
  async function handleAnswer(
    prepared: PreparedRequest,
    slot: Slot,
    answer: ApiAnswer<unknown>,
    work?: (transaction: Scope) => Promise<void>,
  ): Promise<void> {
    const { action, entity, trace } = prepared;
    const { status } = answer;
    const answeredAt = clock.now();
    breaker.passed(entity, isWrite(prepared));
    const fields = { action, item: trace.itemName, entity, status, deliveries: trace.deliveries };
    logger.info(fields, 'request answered');
    await retryUntilCommitted(context, () => commitAnswer(prepared, slot, answer, work), signal);
    recordSpans(prepared, { answeredAt, outcome: 'answered', status });
    if (action === 'read-tasks') isFirstReadRefused = false;
    reportRecovery();
  }

  async function commitAnswer(
    prepared: PreparedRequest,
    slot: Slot,
    { status, body }: ApiAnswer<unknown>,
    work?: (transaction: Scope) => Promise<void>,
  ): Promise<void> {
    const receiptTimes = await store.commit(async (transaction) => {
      await slot.complete({ status, key: null }, transaction);
      await work?.(transaction);
      return settle(transaction, prepared, body, { ...settleContextOf(context), status });
    });
    meter.count('workspace_requests_total', { route: prepared.action, status: String(status) });
    for (const receivedAt of receiptTimes) {
      const lag = Math.max(0, clock.now() - receivedAt);
      meter.observe('sync_lag_seconds', lag / 1_000);
      context.onLag?.(lag);
    }
  }

  async function handleFailure(prepared: PreparedRequest, slot: Slot, error: SyncError): Promise<void> {
    const answeredAt = clock.now();
    const hasPassed = recordFailure(prepared, error);
    const commit = async () => {
      const outcome = await commitFailure(prepared, slot, error);
      recordSpans(prepared, { answeredAt, outcome, status: error.status, error: error.code });
    };
    await retryUntilCommitted(context, commit, signal);
    if (hasPassed) reportRecovery();
  }

  async function commitFailure(prepared: PreparedRequest, slot: Slot, error: SyncError): Promise<FailureOutcome> {
    const { action, entity, trace } = prepared;
    const { status, retryAfter } = error;
    const answer = status === undefined ? undefined : { status, retryAfter, key: keyStateOf(prepared, error) };
    const outcome = await store.commit(async (transaction) => {
      await slot.complete(answer, transaction);
      return settleFailure(transaction, prepared, error, settleContextOf(context, entity));
    });
    meter.count('workspace_requests_total', { route: action, status: String(status ?? error.code) });
    const fields = { action, item: trace.itemName, entity, deliveries: trace.deliveries, error, outcome };
    logger[levelOf(prepared, error, outcome)](fields, 'request failed');
    return outcome;
  }

  /**
   * Updates the breaker and reports trouble. Only an answer of the workspace itself proves that the workspace is
   * reachable: a proxy in front of it may answer anything. The server may lack the routes of optional reads, so their
   * refusals are no outage, but a missing answer is one.
   *
   * @returns whether the workspace received the request and accepted our key
   */
  function recordFailure(prepared: PreparedRequest, error: SyncError): boolean {
    const isKeyRefused = isCredentialRefused(prepared, error);
    const hasPassed = !isKeyRefused && (error.status === 429 || isWorkspaceRefusal(error));
    if (hasPassed) breaker.passed(prepared.entity, false);
    else if (!isKeyRefused) breaker.failed(prepared.entity);
    const isFirstRead = !scheduler.mayWrite() && prepared.action === 'read-tasks' && error.status !== 429;
    const isOutage = breaker.failing && (!isOptional(prepared) || isUnanswered(error));
    isFirstReadRefused ||= isFirstRead;
    if (isKeyRefused || isOutage || isFirstRead || isDoubtfulWrite(prepared, breaker)) context.onTrouble?.(error);
    return hasPassed;
  }

  /** Does nothing while our key is refused: this request may have started before the refusal. */
  function reportRecovery(): void {
    const isTaskReadMissing = isFirstReadRefused && !scheduler.mayWrite();
    if (!throttle.isHalted() && !isTaskReadMissing) context.onTrouble?.(undefined);
  }

  function recordSpans(prepared: PreparedRequest, end: Omit<SpanEnd, 'settledAt'>): void {
    if (!tracer) return;
    for (const span of requestSpans(prepared, workspace, { ...end, settledAt: clock.now() })) tracer.record(span);
  }

  return sendAndSettle;
}

/**
 * Returns what a failed request shows about our key: the reason of a refusal, null if it was accepted, undefined if
 * nothing is known, because a proxy in front of the workspace answers without checking the key.
 */
function keyStateOf(
  prepared: PreparedRequest,
  error: SyncError,
): { readonly code: ErrorCode; readonly reason: string } | null | undefined {
  if (isCredentialRefused(prepared, error)) return { code: error.code, reason: 'the workspace refused the key' };
  return error.status === 429 || isWorkspaceRefusal(error) ? null : undefined;
}

/** Whether a write has failed often without being at fault, so that the workspace may carry out none at present. */
function isDoubtfulWrite(prepared: PreparedRequest, breaker: Breaker): boolean {
  return isWrite(prepared) && prepared.attempts >= MAX_ATTEMPTS && !breaker.sinceFailure(prepared.entity).othersWritten;
}

function isWrite({ kind, action }: PreparedRequest): boolean {
  return kind !== 'read' && action !== 'read-task';
}

/** Whether other work continues without this read. Failures of such reads alone block nothing. */
function isOptional({ action }: PreparedRequest): boolean {
  return action === 'read-pull-requests' || action in OPTIONAL_READS;
}

/** Whether nothing answered. */
function isUnanswered(error: SyncError): boolean {
  return !wasSent(error) || error.code === 'outcome_unknown';
}

/** A request that takes one slot; see `update-task.ts` for the others. */
type PlainRequest = PreparedRequest & { readonly action: Exclude<Action, 'update-task'> };

function isPlain(prepared: PreparedRequest): prepared is PlainRequest {
  return prepared.action !== 'update-task';
}

/** Sends a request through the client, apart from updates of tasks. Throws what the client throws. */
function sendRequest(client: OutboxClient, prepared: PlainRequest, context: SendContext): Promise<ApiAnswer<unknown>> {
  // The body was built for exactly this route, and then stored in the outbox row as JSON.
  return client[routeOf(prepared)](parametersOf(prepared) as never, context);
}

function parametersOf({ action, taskId, body }: PlainRequest): object {
  const { cursor, limit } = body as ListPosition;
  const page = { ...(cursor !== undefined && { cursor }), ...(limit !== undefined && { limit }) };
  switch (action) {
    case 'read-tasks':
      return { query: { all: true, ...page } };
    case 'read-pull-requests':
      return { query: { limit: RECORDS_PER_PAGE, ...page } };
    case 'read-records':
      return { query: { limit: RECORDS_PER_PAGE, ...body } };
    case 'read-task':
    case 'read-links':
      return { taskId };
    case 'read-document':
    case 'remove-link':
      return { ...body, taskId };
    case 'create-task': {
      const { kind: _, ...task } = body;
      return { body: task };
    }
    default:
      return { taskId, body };
  }
}
