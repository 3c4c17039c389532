import type { Cancel, Clock, Random } from '../platform/lib/clock.ts';
import { createTransitionLogger, type Logger } from '../platform/lib/telemetry.ts';
import type { Installation } from '../store/installation/installation.ts';
import {
  fenceOf,
  type RenewedReplica,
  register,
  renewAndList,
  replicasOf,
  type StoreTime,
} from '../store/installation/leases.ts';
import type { ClockOffset } from './clock-offset.ts';
import type { Lease, Peers, ReplicaFacts } from './lease-holder.ts';

/** Time for which leases are trusted after the start of a renewal, milliseconds. */
export const TTL = 3_000;

/**
 * The time of one incarnation of this process. A term that is over never continues: the process begins another one. Workspaces are
 * given by their numbers.
 */
export interface Term {
  readonly incarnation: string;
  readonly over: AbortController;
  trustedUntil: number;
  readonly owned: Map<number, OwnedLease>;
  /** Leases to give back as soon as they are closed. */
  readonly leaving: Map<number, OwnedLease>;
  /** Leases that may have been acquired: the answer to the commit was lost. */
  readonly unconfirmed: Set<number>;
}

export interface OwnedLease extends Lease {
  /** The time of its acquisition, by `elapsed`. */
  readonly since: number;
  /** Whether all work on the workspace has ended. */
  isClosed: boolean;
}

/** The parts of a lease holder over PostgreSQL. */
export interface HolderContext {
  readonly database: Pick<Installation, 'query' | 'commit'>;
  /** Returns the elapsed milliseconds on this machine, also while suspended, by a clock that is never set. */
  readonly elapsed: () => number;
  readonly after: Clock['after'];
  readonly storeTime: StoreTime;
  /** Gets a sample with each renewal. */
  readonly storeClock: ClockOffset;
  readonly random: Random;
  readonly logger: Logger;
  /** Returns the address at which other processes reach this one. */
  readonly address: () => string;
  readonly facts: () => ReplicaFacts;
  /** Called after the clock of the store was set, because the elapsed time by it is unknown then. Repeated until it resolves. */
  readonly onClockSet?: () => Promise<void>;
  /** Called with the number of workspaces acquired that were not given back, perhaps by an earlier term of this process. */
  readonly onTakeover?: (workspaces: number) => void;
}

/**
 * Creates the terms of this process, one after the other.
 *
 * @param ownRow returns the row of this process
 * @param onExpired called when a term is over in which workspaces were owned
 */
export function createTerms(
  { database, elapsed, storeTime, storeClock, random, after }: HolderContext,
  ownRow: Peers['own'],
  onExpired: (workspaces: number) => void,
) {
  const { query } = database;
  let current: Term | undefined;
  let cancelEnd: Cancel = () => undefined;

  /** Renews the current term, or begins another one if it is over. Also returns all processes. */
  async function renew(): Promise<{ readonly term: Term; readonly replicas: readonly RenewedReplica[] }> {
    const began = elapsed();
    const term = current;
    if (term && isTrusted(term)) {
      const { now, replicas } = await renewAndList(query, term.incarnation, storeTime, TTL);
      if (now !== undefined) storeClock.addSample(now, { began, ended: elapsed() });
      if (now !== undefined && isTrusted(term)) {
        trust(term, began);
        return { term, replicas };
      }
    }
    if (term) end(term);
    const next = await begin();
    return { term: next, replicas: await replicasOf(query) };
  }

  async function begin(): Promise<Term> {
    const began = elapsed();
    const incarnation = random.uuid();
    const term: Term = {
      incarnation,
      over: new AbortController(),
      trustedUntil: 0,
      owned: new Map(),
      leaving: new Map(),
      unconfirmed: new Set(),
    };
    await register(query, { ...ownRow(), incarnation }, storeTime, TTL);
    current = term;
    trust(term, began);
    return term;
  }

  /** Trusts the term for a TTL from the start of a renewal. */
  function trust(term: Term, began: number): void {
    term.trustedUntil = began + TTL;
    scheduleEnd(term);
  }

  /** Schedules again if the timer was early. */
  function scheduleEnd(term: Term): void {
    cancelEnd();
    cancelEnd = after(Math.ceil(term.trustedUntil - elapsed()), () => {
      if (isTrusted(term)) scheduleEnd(term);
      else end(term);
    });
  }

  function isTrusted({ over, trustedUntil }: Term): boolean {
    return !over.signal.aborted && elapsed() < trustedUntil;
  }

  function end(term: Term): void {
    if (term.over.signal.aborted) return;
    term.over.abort();
    cancelEnd();
    const workspaces = term.owned.size + term.leaving.size;
    if (workspaces > 0) onExpired(workspaces);
  }

  function createLease(term: Term, workspace: number, epoch: number): OwnedLease {
    const lease: OwnedLease = {
      since: elapsed(),
      isClosed: false,
      isTrusted: () => !lease.isClosed && isTrusted(term),
      lost: term.over.signal,
      fence: fenceOf({ workspace, incarnation: term.incarnation, epoch }),
    };
    return lease;
  }

  return {
    /** The latest term, which may be over. */
    get current() {
      return current;
    },
    renew,
    trust,
    isTrusted,
    end,
    createLease,
  };
}

/**
 * Runs renewals one at a time, at intervals and on request.
 *
 * @param pause returns the time until the next renewal, milliseconds
 */
export function createRenewals(
  { after, logger }: HolderContext,
  renew: () => Promise<void>,
  pause: (hasFailed: boolean) => number,
) {
  const results = createTransitionLogger(logger, 'error', {
    failed: 'leases could not be renewed',
    again: 'leases are renewed again',
  });
  let isStopped = false;
  let cancel: Cancel = () => undefined;
  let queue: Promise<void> = Promise.resolve();

  async function renewOnce(): Promise<void> {
    if (isStopped) return;
    cancel();
    let hasFailed = false;
    try {
      await renew();
      results.succeeded();
    } catch (error) {
      hasFailed = true;
      results.failed(error);
    }
    if (!isStopped) cancel = after(Math.max(1, pause(hasFailed)), () => void now());
  }

  /** Runs a renewal after the running one. Never rejects; the next renewal repeats a failed one. */
  function now(): Promise<void> {
    queue = queue.then(renewOnce);
    return queue;
  }

  return {
    now,
    async stop() {
      isStopped = true;
      cancel();
      await queue;
    },
  };
}
