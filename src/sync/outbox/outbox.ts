import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { clampFutureTimestamps } from '../../store/clock-changes.ts';
import type { Store } from '../../store/database.ts';
import { configureLinks, readRecordsRoute, retryRefusedRoutes } from '../../store/server-capabilities.ts';
import { bindServerFacts } from '../../store/server-facts.ts';
import { markTasksUnverified } from '../../store/task-creations.ts';
import { enqueueInitialReads, enqueueTaskListRead } from '../../store/workspace-reads.ts';
import { createAttempt } from './attempt.ts';
import { createBreaker } from './breaker.ts';
import { createChangeSelection } from './change-selection.ts';
import { claimChange, slotFor, waitFor } from './claim-change.ts';
import type { Prepared } from './prepare.ts';
import { requestSpans } from './request-spans.ts';
import { backoffAfterDbError, retryUntilCommitted } from './retry-until-committed.ts';
import type { Client, Slot, Slots } from './send-context.ts';
import { recover, type SettleContext, takeBackUnsent } from './settle.ts';

export interface OutboxOptions {
  readonly store: Store;
  readonly throttle: Slots;
  readonly client: Client;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  /** Within which every change is to be seen, milliseconds; absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Whether any connection records its pull requests in the workspace. */
  readonly recordsPullRequests: boolean;
  /** Base address of the workspace: facts about its server hold for it. */
  readonly baseUrl: string;
  /** Whether the configuration says that links are idempotent by address. */
  readonly linksAreIdempotent: boolean;
  /** How long nothing is sent about what a process that died was sending, milliseconds; absent: it cannot be on its way any more. */
  readonly untouched?: number;
  /** Notified when a change may have become due. */
  readonly outbox: WakeSignal;
  /** Notified when an answer was appended to the inbox. */
  readonly inbox: WakeSignal;
  /** Called with the reason when the workspace cannot be written to, and with undefined when it can again. */
  readonly onTrouble?: (trouble: SyncError | undefined) => void;
  /** Called when a write was sent: caches of the workspace may be stale. */
  readonly onWrite?: () => void;
  /** Called with each delivery's lag: from its receipt to the answer of its write, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
}

export interface Outbox extends Stage {
  /** Requests in flight or being settled. */
  readonly inFlight: number;
  /** As `start`, but sends only the writes that wait, and reads nothing. */
  startWrites(): void;
}

/** The part of a window that reads because of a restore take at most. */
const OF_RESTORE = 0.2;

/** How long a selected change stays selected unless a wake-up arrives, milliseconds. */
const AT_ONCE = 50;

/**
 * The stage that sends. It waits until a change is due and a slot is free; one transaction then takes the change,
 * stores the request and writes the ledger row; the request is sent; another transaction settles it. The next change
 * is taken meanwhile, as far as the throttle lets it.
 */
export function createOutbox(options: OutboxOptions): Outbox {
  const { store, throttle, clock, logger } = options;
  const breaker = createBreaker();
  const choice = createChangeSelection({ ...options, breaker });
  const taking = { store, throttle, clock, choice };
  const settleContext = () => settleContextOf(options);
  const attempt = createAttempt({
    ...{ ...options, breaker, settleContext, mayWrite: choice.mayWrite },
    retryUntilCommitted: (work) => retryUntilCommitted(options, work, stopping?.signal ?? AbortSignal.abort()),
  });
  /** What was taken from the line, until its answer is stored. */
  const working = new Map<Prepared, Promise<void>>();
  /** The database may have taken a change of which nobody heard. */
  let isUnsure = false;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    await retryUntilCommitted(options, () => prepareStart(options), signal);
    while (!signal.aborted) {
      try {
        if (isUnsure) await takeBack();
        await takeNext(signal);
      } catch (error) {
        if (signal.aborted) return;
        isUnsure = true;
        await backoffAfterDbError(options, error, signal);
      }
    }
  }

  async function takeBack(): Promise<void> {
    const isSent = (entity: string) => working.keys().some((each) => each.entity === entity);
    await store.commit((transaction) => takeBackUnsent(transaction, isSent));
    isUnsure = false;
  }

  async function takeNext(signal: AbortSignal): Promise<void> {
    // Before the query: a wake-up from now on may concern a row that the query did not see.
    const news = options.outbox.wait();
    let hasNews = false;
    void news.then(() => {
      hasNews = true;
    });
    // Where thousands wait, a look takes milliseconds: it shares no turn with the stage that rang.
    await yieldToEventLoop();
    const noteReevaluated = clock.monotonic();
    const next = await choice.next();
    if (next === undefined) return news;
    const wait = next.at - clock.now();
    if (wait > 0) return waitFor(clock, wait, news, signal);
    if (choice.isProbing()) {
      await Promise.all(working.values());
      await sleep(clock, breaker.pause(), signal);
    }
    const askedAt = clock.now();
    const slot = await slotFor(taking, next, news, signal);
    if (slot === undefined) return;
    // Others failed while this one waited for its slot: now one probes, after those that are on their way.
    if (choice.isProbing() && working.size > 0) return slot.release();
    const isStillNext = !hasNews && clock.monotonic() - noteReevaluated < AT_ONCE;
    const prepared = await claimChange(taking, slot, { entity: isStillNext ? next.entity : undefined, askedAt });
    if (!prepared) return;
    const { action, entity, lane, trace } = prepared;
    const waited = Math.max(0, clock.now() - askedAt);
    logger.debug({ action, entity, lane, waited, deliveries: trace.deliveries }, 'request is sent');
    track(prepared, deliver(prepared, slot));
  }

  /** Nobody awaits it: its error is logged here, and ends neither the stage nor the process. */
  function track(prepared: Prepared, work: Promise<void>): void {
    const ending = work
      .catch((error: unknown) => logger.error({ error: asSyncError(error) }, 'the work after a request failed'))
      .finally(() => working.delete(prepared));
    working.set(prepared, ending);
  }

  async function deliver(prepared: Prepared, slot: Slot): Promise<void> {
    await attempt(prepared, slot);
    if (prepared.kind !== 'read') options.onWrite?.();
    options.inbox.notify();
    options.outbox.notify();
  }

  function start(): void {
    if (running) return;
    stopping = new AbortController();
    running = run(stopping.signal);
  }

  return {
    get inFlight() {
      return working.size;
    },
    start,
    startWrites() {
      choice.chooseWritesOnly();
      start();
    },
    async stop() {
      stopping?.abort();
      options.outbox.notify();
      await running;
      await Promise.all(working.values());
      running = undefined;
    },
  };
}

/** What was in flight when the process died is found, and the workspace is read once. */
async function prepareStart(options: OutboxOptions): Promise<void> {
  const { store, clock, logger, tracer } = options;
  const recovered = await store.commit(async (transaction) => {
    const now = clock.now();
    await clampFutureTimestamps(transaction, now);
    await bindServerFacts(transaction, options.baseUrl);
    await retryRefusedRoutes(transaction);
    await configureLinks(transaction, options.linksAreIdempotent);
    const { state } = await readRecordsRoute(transaction);
    await enqueueInitialReads(transaction, now, options.recordsPullRequests && state !== 'closed');
    if (await markTasksUnverified(transaction, now)) {
      const usedShare = options.throttle.usedShare();
      await enqueueTaskListRead(transaction, { now, usedShare, lane: 'triage', notBefore: 0 });
    }
    return recover(transaction, settleContextOf(options), options.untouched);
  });
  const now = clock.now();
  for (const { action, entity, trace } of recovered)
    logger.info({ action, entity, deliveries: trace.deliveries }, 'request with unknown outcome found at the start');
  if (!tracer) return;
  const ended = { answeredAt: now, settledAt: now, outcome: 'unknown', error: 'outcome_unknown' } as const;
  for (const prepared of recovered)
    for (const span of requestSpans(prepared, store.query.workspace, ended)) tracer.record(span);
}

function settleContextOf({ clock, random, throttle, visibility }: OutboxOptions): SettleContext {
  const restorePace = Math.max(0, ...throttle.paces().map(({ slots, hold }) => hold / (slots * OF_RESTORE)));
  return { now: clock.now(), random, usedShare: throttle.usedShare(), visibility, restorePace };
}
