import { CALLERS } from '../../model/caller.ts';
import type { Lane } from '../../model/change.ts';
import { asSyncError, type ErrorCode, SyncError, wasSent } from '../../model/errors.ts';
import type { HttpAnswer, HttpClient } from '../../platform/http/http-client.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { duration } from '../../platform/lib/quantities.ts';
import { withoutEnd } from '../../platform/lib/text.ts';
import { createScrubber, scrubBytes } from '../../platform/observe/scrubber.ts';
import type { DueChange } from '../../store/changes/next-change.ts';
import { nextRevision } from '../../store/meta.ts';
import { retryUntilCommitted } from '../../store/retry-until-committed.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { createResponseCapture, createRouteOf } from '../../workspace-api/capture-responses.ts';
import { API_VERSION, type ApiOverrides, apiOverrides, VERSION_HEADER } from '../../workspace-api/contract.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type ApiResponse,
  createSend,
  createWorkspaceClient,
  keyRemedy,
  LARGEST_PASSED,
  type PassedAnswer,
  type PassedRequest,
  type ReadLarge,
  type TransportOptions,
} from '../../workspace-api/typed-client.ts';
import type { SlotAnswer } from '../quota/cooldown.ts';
import type { Slot } from '../quota/slot.ts';
import type { Throttle } from '../quota/throttle.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { type Breaker, isCredentialRefused, isWorkspaceRefusal } from './breaker.ts';
import type { ChangeScheduler } from './claim.ts';
import { type FailureOutcome, MAX_ATTEMPTS } from './refusals.ts';
import {
  isPlain,
  OPTIONAL_READS,
  type PreparedRequest,
  requestSpans,
  type SpanEnd,
  sendRequest,
  sendSpanName,
} from './request.ts';
import { failureContextOf, settle, settleContextOf } from './settle.ts';
import { settleFailure } from './settle-failure.ts';
import { TaskUpdater } from './update-task.ts';

/**
 * The one way to the workspace API. Each request takes a slot of the throttle, which a commit records before the request is sent.
 * Its answer completes the slot, and is stored as a delivery for reconcile.
 *
 *   a change            `acquireSlot` → `claimChange` → `createSender` → `settle`, which appends the answer
 *   a command, a page   `send`: `withSlot` → exchange → `capture.answered`
 *   the gateway         `pass`: `withSlot` → exchange; the gateway captures the answer if it is certainly this workspace's
 */
export type WorkspaceApi = ReturnType<typeof openWorkspaceApi>;

/** How a request without a row in the outbox gets its slot. */
export interface DirectContext {
  readonly lane: Lane;
  /** The caller that it counts for, as in `model/caller.ts`; absent: a command. */
  readonly caller?: string;
  readonly signal?: AbortSignal;
  /** Longest wait for a slot, milliseconds; absent: no limit. */
  readonly patience?: number;
}

/**
 * Opens the workspace API of an open workspace.
 *
 * @param http sends nothing after the lease was lost
 * @param lost aborts when the lease is lost
 */
export function openWorkspaceApi(
  context: Omit<WorkspaceContext, 'outboxClient'>,
  apiKey: () => string,
  http: HttpClient,
  lost: AbortSignal | undefined,
  readLarge: ReadLarge,
) {
  const { config, baseUrl } = context;
  const api = apiOverrides.parse(config.workspace.api ?? {});
  const cut = new AbortController();
  const signal = lost ? AbortSignal.any([cut.signal, lost]) : cut.signal;
  const endpoint: TransportOptions = { baseUrl, apiKey, http, api, cut: signal };
  const exchange = createSend(endpoint);
  const capture = createResponseCapture(context, createRouteOf(api), readLarge);
  const withSlot = createWithSlot(context);
  const names = { workspaceId: config.workspace.id, api };

  /** Captures the answers, because they are deliveries too, and reports each write, also a failed one. */
  async function send(request: ApiRequest, direct: DirectContext): Promise<ApiResponse> {
    const asked = { query: '', ...request };
    let isSent = false;
    try {
      const { sentAt, asOf, ...answer } = await withSlot({ ...direct, credential: 'ours' }, () => {
        isSent = true;
        return exchange(request, {});
      });
      await capture.answered(asked, { ...answer, sentAt, asOf });
      return answer;
    } catch (error) {
      if (isSent) await capture.failed(asked, asSyncError(error));
      throw error;
    } finally {
      if (request.method !== 'GET') context.onWrite();
    }
  }

  return {
    /** Sends for commands and pages. */
    send,
    client: createWorkspaceClient({ ...names, send }),
    /** Sends without a slot of its own: the transaction that claimed the change has recorded one. */
    outboxClient: createWorkspaceClient({ ...names, send: exchange, readLarge }),
    /** Sends for callers of the gateway. */
    pass: gatewaySend(endpoint, withSlot),
    /** Stores answers as deliveries. */
    capture,
    /** Aborts the requests in flight. */
    cut: () => cut.abort(),
  };
}

/** Sends a request as the caller of the gateway wrote it: with the caller's credential or, for a gateway token, with ours. */
export function gatewaySend({ http, baseUrl, apiKey, api, cut }: TransportOptions, withSlot: WithSlot) {
  const versionHeader = versionHeaderIn(api ?? {});
  return (request: PassedRequest, waiting: AbortSignal): Promise<PassedAnswer> => {
    const { method, path, query, headers, body, room, authorization, caller } = request;
    const credential = authorization ? 'theirs' : 'ours';
    return withSlot({ lane: 'interactive', caller, signal: waiting, credential }, async () => {
      const answer = await http.request({
        method,
        url: `${withoutEnd(baseUrl, '/')}${path}${query}`,
        headers: { [versionHeader]: API_VERSION, ...headers, authorization: authorization ?? `Bearer ${apiKey()}` },
        body,
        signal: cut,
        largestAnswer: LARGEST_PASSED,
        room,
        target: 'workspace',
      });
      return authorization ? answer : withoutKey(answer, apiKey());
    });
  };
}

/**
 * Removes the daemon's key from an answer, in every encoding. The workspace may repeat the request in its answer, and a caller with
 * a gateway token must not learn the key that the token stands for.
 */
async function withoutKey(answer: HttpAnswer, key: string): Promise<HttpAnswer> {
  const { scrub } = createScrubber([key]);
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, scrub(value)]));
  return { ...answer, headers, body: await scrubBytes(answer.body, scrub) };
}

/** Returns the name of the version header in lower case. @param api the overrides as configured, not parsed yet */
export function versionHeaderOf(api: unknown): string {
  return versionHeaderIn(apiOverrides.parse(api ?? {}));
}

function versionHeaderIn({ versionHeader = VERSION_HEADER }: ApiOverrides): string {
  return versionHeader.toLowerCase();
}

type Answered = { readonly status: number; readonly headers: Readonly<Record<string, string>> };
type Sent = Pick<PassedAnswer, 'sentAt' | 'asOf'>;
type WithSlot = ReturnType<typeof createWithSlot>;

/**
 * Creates the way in which commands, pages and the gateway send one request under a slot of its own. `signal` and `patience` end the
 * wait for a slot. If the wait is known to exceed `patience`, it throws at once `rate_limited`, or the reason of the pause, with
 * `retryAfter`. The answer gets the time and the revision of its request.
 */
function createWithSlot({ throttle, clock, store }: Omit<WorkspaceContext, 'outboxClient'>) {
  return async <Answer extends Answered>(
    { credential, ...direct }: DirectContext & { readonly credential: 'ours' | 'theirs' },
    exchange: () => Promise<Answer>,
  ): Promise<Answer & Sent> => {
    const slot = await acquireInTime(throttle, clock, direct);
    let revision: number;
    try {
      revision = await store.commit(async (transaction) => {
        await slot.record(transaction);
        return nextRevision(transaction);
      });
    } catch (error) {
      slot.release();
      throw error;
    }
    const sent = { sentAt: clock.now(), asOf: revision - 1 };
    let end: SlotAnswer | undefined;
    try {
      const answer = await exchange();
      const key = credential === 'ours' ? keyStateByStatus(answer.status) : undefined;
      end = { status: answer.status, retryAfter: millisecondsOf(answer.headers['retry-after']), key };
      return { ...answer, ...sent };
    } finally {
      await slot.complete(end);
    }
  };
}

async function acquireInTime(
  throttle: Throttle,
  clock: Clock,
  { patience = Number.POSITIVE_INFINITY, lane, caller = CALLERS.command, signal }: DirectContext,
): Promise<Slot> {
  const due = clock.now();
  if (patience === Number.POSITIVE_INFINITY) return throttle.acquire({ lane, caller, due, signal });
  if (throttle.snapshot().nextForPeopleAt - due > patience) throw noSlotError(throttle, clock);
  const timeout = new AbortController();
  const cancel = clock.after(patience, () => timeout.abort());
  const ended = signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal;
  try {
    return await throttle.acquire({ lane, caller, due, signal: ended });
  } catch (error) {
    throw timeout.signal.aborted && !signal?.aborted ? noSlotError(throttle, clock) : error;
  } finally {
    cancel();
  }
}

/** Returns the error that explains why no interactive request is sent now, and when one can be. */
function noSlotError(throttle: Throttle, clock: Clock): SyncError {
  const { paused, nextForPeopleAt } = throttle.snapshot();
  const retryAfter = Math.max(0, nextForPeopleAt - clock.now());
  const full =
    retryAfter > 0 ? 'the request quota of the workspace is used up' : 'the most requests allowed are in flight';
  const message = paused
    ? `nothing is sent to the workspace for ${duration(retryAfter)}: ${paused.reason}`
    : `${full}; the next one can go in ${duration(retryAfter)}`;
  const code = paused?.code ?? 'rate_limited';
  return new SyncError(code, message, { retryAfter, hint: keyRemedy(code) });
}

/** Returns what an answer proves about the daemon's key. A 403 proves nothing: a permission for one route may be missing. */
function keyStateByStatus(status: number): SlotAnswer['key'] {
  if (status === 401) return { code: 'unauthorized', reason: 'the workspace refused the key' };
  return status < 500 && status !== 403 ? null : undefined;
}

function millisecondsOf(retryAfterSeconds: string | undefined): number | undefined {
  if (retryAfterSeconds === undefined || !/^\d{1,6}$/.test(retryAfterSeconds)) return undefined;
  return Number(retryAfterSeconds) * 1_000;
}

/**
 * Acquires a quota slot for the next change.
 * Returns undefined for a backfill change as soon as live work is due or may have arrived: backfills must not delay it.
 */
export async function acquireSlot(
  { throttle, clock }: WorkspaceContext,
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

/** Statuses of a read of the records that are no failure: such a server has no route for records. */
const NO_RECORDS: ReadonlySet<number | undefined> = new Set([404, 405, 410, 501]);

/**
 * Returns the log level of a failed request. A settled one counts as answered. A server without a route for records is
 * no failure either. `status` and `check` report what both mean.
 */
function levelOf({ action }: PreparedRequest, { own, status }: SyncError, outcome: FailureOutcome) {
  if (outcome === 'held') return 'error';
  const isRouteMissing = action === 'read-pull-requests' && own && NO_RECORDS.has(status);
  return outcome === 'settled' || isRouteMissing ? 'info' : 'warn';
}

/** @param signal aborts when the outbox stops */
export function createSender(
  context: WorkspaceContext,
  scheduler: ChangeScheduler,
  signal: AbortSignal,
): SendAndSettle {
  const { store, throttle, outboxClient, clock, logger, meter, breaker, tracer } = context;
  const { workspace } = store.query;
  /** The first read of the tasks was refused. Nothing is written before it succeeds, so other answers end no trouble. */
  let isFirstReadRefused = false;

  const updater = new TaskUpdater(context, signal, handleAnswer, handleFailure);

  async function sendAndSettle(prepared: PreparedRequest, slot: Slot): Promise<void> {
    try {
      const traceparent = tracer?.traceparent(sendSpanName(prepared, workspace));
      if (!isPlain(prepared)) return await updater.send(prepared, slot, traceparent);
      const answer = await sendRequest(outboxClient, prepared, { traceparent });
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
      return settle(transaction, prepared, body, settleContextOf(context, status));
    });
    meter.count('workspace_requests_total', { route: prepared.action, status: String(status) });
    for (const receivedAt of receiptTimes) {
      const lag = Math.max(0, clock.now() - receivedAt);
      meter.observe('sync_lag_seconds', lag / 1_000);
      context.onLag(lag);
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
      return settleFailure(transaction, prepared, error, failureContextOf(context, entity));
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
    if (isKeyRefused || isOutage || isFirstRead || isDoubtfulWrite(prepared, breaker)) context.onTrouble(error);
    return hasPassed;
  }

  /** Does nothing while our key is refused: this request may have started before the refusal. */
  function reportRecovery(): void {
    const isTaskReadMissing = isFirstReadRefused && !scheduler.mayWrite();
    if (!throttle.isHalted() && !isTaskReadMissing) context.onTrouble(undefined);
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
