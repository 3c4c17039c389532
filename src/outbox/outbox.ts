import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import type { Bell } from '../lib/bell.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import { backoff, type Random } from '../lib/random.ts';
import type { Stage } from '../lib/stage.ts';
import { nextTurn } from '../lib/turn.ts';
import { patience } from '../model/lane.ts';
import type { Store } from '../store/database.ts';
import { firstReadsDone, wishFirstReads } from '../store/list-reads.ts';
import { type Due, type Eligible, firstDues, nextDue, nextLive, redateFuture } from '../store/next-change.ts';
import { createBreaker } from './breaker.ts';
import { expectedDues, headStart } from './deadlines.ts';
import { type Prepared, prepareNext } from './prepare.ts';
import { send } from './send.ts';
import type { Client, Slot, Slots } from './send-context.ts';
import { isTheirWord, recover, type SettleContext, settle, settleFailure } from './settle.ts';

export interface OutboxOptions {
  readonly store: Store;
  readonly throttle: Slots;
  readonly client: Client;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  /** Within which every change is to be seen, milliseconds; absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Rung when a change may have become due. */
  readonly outbox: Bell;
  /** Rung when an answer was appended to the inbox. */
  readonly inbox: Bell;
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

/** Windows of which the due times are looked at ahead. */
const LOOK_AHEAD = 2;
/** A correction of the clock by less does not count as set back, milliseconds. */
const SET_BACK = 1_000;
/** What was next so short a time ago is still next, milliseconds, where no bell was rung. */
const AT_ONCE = 50;

/**
 * The stage that sends. It waits until a change is due and a slot is free; one transaction then takes the change,
 * stores the request and writes the ledger row; the request is sent; another transaction settles it. The next change
 * is taken meanwhile, as far as the throttle lets it.
 */
export function createOutbox(options: OutboxOptions): Outbox {
  const { store, throttle, clock, random, logger, meter } = options;
  const breaker = createBreaker();
  const working = new Set<Promise<void>>();
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;
  let mayWrite = false;
  let onlyWrites = false;
  /** The wall clock less the monotonic one. */
  let wallOffset = Number.NEGATIVE_INFINITY;

  async function run(signal: AbortSignal): Promise<void> {
    await untilSettled(prepareStart);
    while (!signal.aborted) {
      try {
        await takeNext(signal);
      } catch (error) {
        if (signal.aborted) return;
        await failedToWrite(error, signal);
      }
    }
  }

  async function failedToWrite(error: unknown, signal: AbortSignal): Promise<void> {
    logger.error({ error: asSyncError(error) }, 'outbox cannot write and waits');
    await sleep(clock, backoff(random, 3, 500, 5_000), signal);
  }

  async function prepareStart(): Promise<void> {
    const recovered = await store.commit(async (transaction) => {
      await redateFuture(transaction, clock.now());
      await wishFirstReads(transaction, clock.now());
      return recover(transaction, context());
    });
    if (recovered > 0) logger.info({ requests: recovered }, 'requests with unknown outcome found at the start');
  }

  function context(): SettleContext {
    return { now: clock.now(), random, usedShare: throttle.usedShare(), visibility: options.visibility };
  }

  async function eligible(): Promise<Eligible> {
    mayWrite ||= await firstReadsDone(store.query);
    return { now: clock.now(), onlyReads: !mayWrite, onlyWrites, inTurn: isProbing(), ahead: await ahead() };
  }

  /** If the quota cannot keep a promise at the last moment, the change goes earlier. */
  async function ahead(): Promise<number> {
    if (options.visibility === undefined) return 0;
    const paces = throttle.paces();
    const most = LOOK_AHEAD * Math.max(0, ...paces.map(({ slots }) => slots));
    const dues = await firstDues(store.query, most);
    const { longest } = patience('mirror', 0, options.visibility);
    return headStart(expectedDues(dues, clock.now() + longest), paces);
  }

  /** What waits is dated by the wall clock. One that was set back must not make it wait until the old time has come again. */
  async function mindTheClock(): Promise<void> {
    const offset = clock.now() - clock.monotonic();
    const wasSetBack = offset < wallOffset - SET_BACK;
    if (wasSetBack) await store.commit((transaction) => redateFuture(transaction, clock.now()));
    wallOffset = offset;
  }

  /** What a request brings is not known before its answer: they go one by one, each change in its turn. */
  function isProbing(): boolean {
    return breaker.open || throttle.isHalted();
  }

  async function takeNext(signal: AbortSignal): Promise<void> {
    // Before the query: a ring from now on may mean something that the query did not see.
    const news = options.outbox.next();
    let hasNews = false;
    void news.then(() => {
      hasNews = true;
    });
    // Where thousands wait, a look takes milliseconds: it shares no turn with the stage that rang.
    await nextTurn();
    await mindTheClock();
    const lookedAt = clock.monotonic();
    const next = await nextDue(store.query, await eligible());
    if (next === undefined) return news;
    const wait = next.at - clock.now();
    if (wait > 0) return waitFor(wait, news, signal);
    if (isProbing()) {
      await Promise.all(working);
      await sleep(clock, breaker.pause(), signal);
    }
    const slot = await slotFor(next, news, signal);
    if (slot === undefined) return;
    // Others failed while this one waited for its slot: now one probes, after those that are on their way.
    if (isProbing() && working.size > 0) return slot.release();
    const isStillNext = !hasNews && clock.monotonic() - lookedAt < AT_ONCE;
    const prepared = await prepare(slot, isStillNext ? next.entity : undefined);
    if (prepared) track(deliver(prepared, slot));
  }

  /** A backfill delays nobody: undefined if something else is due, or may become due, before it has a slot. */
  async function slotFor({ lane, due }: Due, news: Promise<void>, signal: AbortSignal): Promise<Slot | undefined> {
    if (lane !== 'backfill') return throttle.acquire({ lane, due, signal });
    const live = await nextLive(store.query, await eligible());
    const woken = new AbortController();
    const gone = AbortSignal.any([signal, woken.signal]);
    if (live !== undefined) void sleep(clock, Math.max(0, live.at - clock.now()), gone).then(() => woken.abort());
    void news.then(() => woken.abort());
    try {
      return await throttle.acquire({ lane, due, signal: gone });
    } catch (error) {
      if (signal.aborted || !woken.signal.aborted) throw error;
      return undefined;
    } finally {
      woken.abort();
    }
  }

  /** Until the time has passed or something more urgent may have come. */
  async function waitFor(ms: number, news: Promise<void>, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const timer = sleep(clock, ms, AbortSignal.any([signal, woken.signal]));
    await Promise.race([timer, news]);
    woken.abort();
  }

  async function prepare(slot: Slot, chosen: string | undefined): Promise<Prepared | undefined> {
    try {
      const taken = await eligible();
      const prepared = await store.commit(async (transaction) => {
        const next = await prepareNext(transaction, taken, chosen);
        if (next) await slot.record(transaction);
        return next;
      });
      if (!prepared) slot.release();
      return prepared;
    } catch (error) {
      slot.release();
      throw error;
    }
  }

  /** Nobody awaits it: its error is logged here, and ends neither the stage nor the process. */
  function track(work: Promise<void>): void {
    const ending = work
      .catch((error: unknown) => logger.error({ error: asSyncError(error) }, 'the work after a request failed'))
      .finally(() => working.delete(ending));
    working.add(ending);
  }

  /** Never rejects: what cannot be settled now is found in flight at the next start. */
  async function deliver(prepared: Prepared, slot: Slot): Promise<void> {
    const { action, entity } = prepared;
    try {
      const answer = await send(options.client, prepared, { slot });
      breaker.passed(entity);
      logger.info({ action, entity, status: answer.status, deliveries: prepared.waiting }, 'request answered');
      await untilSettled(() => succeed(prepared, slot, answer.status, answer.body));
      tellEnd();
    } catch (thrown) {
      const error = asSyncError(thrown);
      const gotThrough = note(prepared, error);
      await untilSettled(() => fail(prepared, slot, error));
      if (gotThrough) tellEnd();
    }
    if (prepared.kind !== 'read') options.onWrite?.();
    options.inbox.ring();
    options.outbox.ring();
  }

  /** The answer came and must not be lost because the disk is full: it is settled when the database can write again. */
  async function untilSettled(work: () => Promise<void>): Promise<void> {
    const signal = stopping?.signal ?? AbortSignal.abort();
    try {
      await work();
    } catch (error) {
      await failedToWrite(error, signal);
      if (!signal.aborted) await untilSettled(work);
    }
  }

  async function succeed(prepared: Prepared, slot: Slot, status: number, body: unknown): Promise<void> {
    const received = await store.commit(async (transaction) => {
      await slot.complete({ status, key: null }, transaction);
      return settle(transaction, prepared, body, context());
    });
    meter.count('workspace_requests_total', { route: prepared.action, status: String(status) });
    for (const at of received) {
      const lag = Math.max(0, clock.now() - at);
      meter.observe('sync_lag_seconds', lag / 1_000);
      options.onLag?.(lag);
    }
  }

  async function fail(prepared: Prepared, slot: Slot, error: SyncError): Promise<void> {
    const { action, entity } = prepared;
    const { status, retryAfter } = error;
    const answer = status === undefined ? undefined : { status, retryAfter, key: keyOf(error) };
    const failure = await store.commit(async (transaction) => {
      await slot.complete(answer, transaction);
      const judgement = { outage: breaker.open, atFault: breaker.isAtFault(entity) };
      return settleFailure(transaction, prepared, error, { ...context(), ...judgement });
    });
    meter.count('workspace_requests_total', { route: action, status: String(status ?? error.code) });
    logger[failure === 'held' ? 'error' : 'warn']({ action, entity, error, outcome: failure }, 'request failed');
  }

  /** An answer to a request that started before our key was refused says nothing of the key. */
  function tellEnd(): void {
    if (!throttle.isHalted()) options.onTrouble?.(undefined);
  }

  /**
   * Only what the workspace itself said proves that it is there: a proxy in between answers what it likes.
   *
   * @returns whether the request got through to the workspace, and our key was accepted
   */
  function note(prepared: Prepared, error: SyncError): boolean {
    const isRefused = isCredential(error);
    const gotThrough = !isRefused && (error.status === 429 || isTheirWord(error));
    if (gotThrough) breaker.passed(prepared.entity);
    else if (!isRefused) breaker.failed(prepared.entity);
    const isFirstRead = !mayWrite && prepared.kind === 'read' && error.status !== 429;
    if (isRefused || breaker.failing || isFirstRead) options.onTrouble?.(error);
    return gotThrough && !isFirstRead;
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
      onlyWrites = true;
      start();
    },
    async stop() {
      stopping?.abort();
      options.outbox.ring();
      await running;
      await Promise.all(working);
      running = undefined;
    },
  };
}

/** What a failed request says about our key. A proxy in front of the workspace answers without checking it. */
function keyOf(error: SyncError): { readonly code: ErrorCode; readonly reason: string } | null | undefined {
  if (isCredential(error)) return { code: error.code, reason: `${error.code}: ${error.hint}` };
  return error.status === 429 || isTheirWord(error) ? null : undefined;
}

function isCredential(error: SyncError): boolean {
  return error.status === 401 || error.status === 403;
}
