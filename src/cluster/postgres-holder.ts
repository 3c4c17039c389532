// Design: src/decisions/leases.md

import type { Logger } from '../platform/lib/telemetry.ts';
import {
  lockLeases,
  ownerOf,
  ownersOf,
  type RenewedReplica,
  releaseLeases,
  removeExpired,
  renew,
  takeLeases,
  unownedOf,
  unregister,
  updateReplica,
} from '../store/installation/leases.ts';
import { numbersOf, type Sql } from '../store/workspace-scope.ts';
import type { QueryInterval } from './clock-offset.ts';
import { createPeers, type LeaseHolder, type OwnershipAge, shareOf } from './lease-holder.ts';
import { createRenewals, createTerms, type HolderContext, type OwnedLease, type Term, TTL } from './term.ts';

/** Time between two renewals, milliseconds. A dead process is detected one TTL after others read its last renewal. */
const RENEW_EVERY = 500;

/**
 * Creates the lease holder of one of several processes over a database. It acquires workspaces without an owner up to its share, and
 * gives back those beyond its share when another process starts. At rest each renewal is one statement, however many workspaces
 * there are.
 */
export function createPostgresLeaseHolder(context: HolderContext): LeaseHolder {
  const { database, elapsed, random, logger } = context;
  const { query } = database;
  const id = random.uuid();
  const reaper = createExpiryReaper(TTL);
  const unowned = createUnownedMonitor(elapsed);
  const peers = createPeers(id, context.address, context.facts);
  const calls: (() => Promise<void>)[] = [];
  const notify = (): Promise<void> => callAll(calls, logger);
  const reportClockSet = clockSetReporter(context);
  const terms = createTerms(context, peers.own, (workspaces) => {
    if (isStopped) return;
    logger.warn({ workspaces }, 'the leases of this process have expired');
    void notify();
  });
  // A fixed pause after a failure, because overdue work would make the other one zero.
  const pause = (hasFailed: boolean) =>
    hasFailed ? RENEW_EVERY : Math.min(RENEW_EVERY, Math.ceil(reaper.nextExpiry() - elapsed()));
  const renewals = createRenewals(context, renewAndBalance, pause);
  const ageOf = (since: number | undefined) => (since === undefined ? undefined : Math.max(0, elapsed() - since));
  let names: readonly string[] = [];
  let wanted: ReadonlyMap<string, number> = new Map();
  let isStopped = false;

  /** One renewal: renew the term, remove expired processes, then give back or acquire workspaces to match the share. */
  async function renewAndBalance(): Promise<void> {
    const began = elapsed();
    const { term, replicas } = await terms.renew();
    const ended = elapsed();
    await reportClockSet();
    if (peers.isOutdated(replicas)) await updateReplica(query, { ...term, ...peers.own() });
    const others = replicas.filter(({ incarnation }) => incarnation !== term.incarnation);
    const expired = reaper.expired({ replicas: others, began, ended });
    await removeExpired(query, expired);
    await giveBackClosed(database, term);
    wanted = await numbered(query, names, wanted);
    const living = replicas.filter((each) => !expired.includes(each));
    peers.update(living);
    const share = shareOf(wanted.size, living, id);
    leaveBeyond(term, share);
    const missing = share - term.owned.size;
    if (missing > 0) await acquire(term, missing);
    if (unowned.isDue()) unowned.record(await freeFor(query, term, wanted));
  }

  /** Marks workspaces beyond the share as leaving. They are given back as soon as the work on them has ended. */
  function leaveBeyond(term: Term, share: number): void {
    const leaving = beyondShare(term, wanted, share);
    if (leaving.length === 0) return;
    const leases = leaving.map((number) => moveToLeaving(term, number));
    void notify().then(() => {
      for (const lease of leases) lease.isClosed = true;
      return renewals.now();
    });
  }

  async function acquire(term: Term, most: number): Promise<void> {
    // Queried first without a transaction, because nearly always no workspace is free.
    if ((await freeFor(query, term, wanted)).length === 0) return;
    const began = elapsed();
    const acquired = await acquireInRenewal(context, term, wanted, most);
    term.unconfirmed.clear();
    if (acquired === undefined || !terms.isTrusted(term)) {
      terms.end(term);
      return;
    }
    terms.trust(term, began);
    for (const [workspace, { epoch }] of acquired) term.owned.set(workspace, terms.createLease(term, workspace, epoch));
    const takeovers = [...acquired.values()].filter(({ isTakeover }) => isTakeover).length;
    if (takeovers > 0) context.onTakeover?.(takeovers);
    if (acquired.size > 0) void notify();
  }

  return {
    want(workspaces) {
      names = workspaces;
      return renewals.now();
    },
    leaseOf(workspace) {
      const number = wanted.get(workspace);
      const term = terms.current;
      return number === undefined || !term || !terms.isTrusted(term) ? undefined : term.owned.get(number);
    },
    onChange: (call) => void calls.push(call),
    replicas: peers.all,
    async ownerOf(workspace) {
      const owner = await ownerOf(query, workspace);
      return owner && peers.peerOf(owner);
    },
    owners: async () => new Map((await ownersOf(query)).map((each) => [each.workspace, peers.peerOf(each)])),
    owned: () => withAges(wanted, (number) => ageOf(terms.current?.owned.get(number)?.since)),
    unowned() {
      const ages = unowned.unowned();
      return withAges(wanted, (number) => ages.get(number));
    },
    renewedAgo: () => ageOf(terms.current && terms.current.trustedUntil - TTL),
    async stop() {
      isStopped = true;
      await renewals.stop();
      const term = terms.current;
      if (!term || term.over.signal.aborted) return;
      terms.end(term);
      await unregister(query, term.incarnation);
    },
  };
}

/** Returns a function that calls `onClockSet` once for new settings of the clock; again if the call has failed. */
function clockSetReporter({ storeClock, onClockSet }: HolderContext): () => Promise<void> {
  let reported = 0;
  return async () => {
    const timesSet = storeClock.timesSet();
    if (timesSet > reported) await onClockSet?.();
    reported = timesSet;
  };
}

/** Runs the calls in order. Never rejects. */
async function callAll(calls: readonly (() => Promise<void>)[], logger: Logger): Promise<void> {
  for (const call of calls) {
    await call().catch((error: unknown) => logger.error({ error }, 'leased workspaces could not be opened'));
  }
}

/** Returns the numbers of the wanted workspaces by name; `known` if the names are the same. */
async function numbered(
  query: Sql,
  names: readonly string[],
  known: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  if (names.length === known.size && names.every((name) => known.has(name))) return known;
  const numbers = await numbersOf(query, names);
  return new Map(names.map((name, index) => [name, numbers[index] as number]));
}

/** Acquires up to `most` workspaces in one transaction with a renewal. Returns undefined if the term is over. */
function acquireInRenewal(
  { database, storeTime }: HolderContext,
  term: Term,
  wanted: ReadonlyMap<string, number>,
  most: number,
): Promise<Awaited<ReturnType<typeof takeLeases>> | undefined> {
  const { incarnation, unconfirmed } = term;
  return database.commit(async (transaction) => {
    // Otherwise a process that has expired would acquire workspaces that others may take from it at once.
    const renewedAt = await renew(transaction, incarnation, storeTime, TTL);
    if (renewedAt === undefined) return undefined;
    await lockLeases(transaction);
    // Chosen under the lock, because another process may just have acquired workspaces that were free before.
    const chosen = (await freeFor(transaction, term, wanted)).slice(0, most);
    for (const number of chosen) unconfirmed.add(number);
    return chosen.length === 0 ? new Map() : takeLeases(transaction, incarnation, chosen);
  });
}

/** Returns owned workspaces that are no longer wanted, and those beyond the share. */
function beyondShare({ owned }: Term, wanted: ReadonlyMap<string, number>, share: number): number[] {
  const numbers = new Set(wanted.values());
  const unwanted = [...owned.keys()].filter((number) => !numbers.has(number));
  const rest = [...owned.keys()].filter((number) => numbers.has(number));
  return [...unwanted, ...rest.slice(share)];
}

function moveToLeaving({ owned, leaving }: Term, number: number): OwnedLease {
  const lease = owned.get(number) as OwnedLease;
  leaving.set(number, lease);
  owned.delete(number);
  return lease;
}

/** Gives back the leases whose work has ended, and those that may have been acquired without the process knowing it. */
async function giveBackClosed({ query, commit }: HolderContext['database'], term: Term): Promise<void> {
  const unconfirmed = [...term.unconfirmed];
  if (unconfirmed.length > 0)
    await commit(async (transaction) => {
      // Under the lock, because the transaction whose answer was lost has ended then.
      await lockLeases(transaction);
      await releaseLeases(transaction, term.incarnation, unconfirmed);
    });
  term.unconfirmed.clear();
  const closed = [...term.leaving].filter(([, { isClosed }]) => isClosed).map(([number]) => number);
  if (closed.length === 0) return;
  await releaseLeases(query, term.incarnation, closed);
  for (const number of closed) term.leaving.delete(number);
}

/** Returns wanted workspaces without an owner. */
async function freeFor(
  query: Sql,
  { owned, leaving }: Term,
  wanted: ReadonlyMap<string, number>,
): Promise<readonly number[]> {
  const others = [...wanted.values()].filter((number) => !owned.has(number) && !leaving.has(number));
  return unownedOf(query, others);
}

/** Returns the workspaces whose age is known. */
function withAges(
  wanted: ReadonlyMap<string, number>,
  ageOf: (number: number) => number | undefined,
): readonly OwnershipAge[] {
  return [...wanted].flatMap(([workspace, number]) => {
    const since = ageOf(number);
    return since === undefined ? [] : [{ workspace, since }];
  });
}

/**
 * Detects expired processes. Times are milliseconds of a clock that is never set.
 *
 * A process trusts its leases until one TTL after the start of a renewal, and other processes can read a renewal only after its
 * start. So if they have read the same renewal for a whole TTL, by their own elapsed time, that trust is over. The stored expiry is
 * only compared for changes. If the database's clock was set back, a dead process is not kept alive; if it was set ahead, no living
 * process loses its leases.
 */
export function createExpiryReaper(ttl: number) {
  let renewals = new Map<string, { readonly expiresAt: number; readonly since: number }>();
  return {
    /**
     * Returns the processes that have not renewed for one TTL.
     *
     * @param read the rows of all other processes, and the times before and after they were read
     */
    expired({ replicas, began, ended }: { readonly replicas: readonly RenewedReplica[] } & QueryInterval) {
      const previous = renewals;
      renewals = new Map(
        replicas.map(({ incarnation, expires_at: expiresAt }) => {
          const known = previous.get(incarnation);
          return [incarnation, known?.expiresAt === expiresAt ? known : { expiresAt, since: ended }];
        }),
      );
      return replicas.filter(({ incarnation }) => began - (renewals.get(incarnation)?.since ?? began) >= ttl);
    },
    /** Returns the time at which the next process expires unless it renews; Infinity if there is none. */
    nextExpiry: () => Math.min(...[...renewals.values()].map(({ since }) => since + ttl)),
  };
}

/** Time between two checks, milliseconds. A lease that moves between processes has no owner for less. */
const CHECK_EVERY = 10_000;

/**
 * Detects configured workspaces that have no owner. Workspaces are given by their numbers.
 *
 * @param elapsed returns the elapsed milliseconds of a clock that is never set
 */
export function createUnownedMonitor(elapsed: () => number) {
  let since = new Map<number, number>();
  let checkedAt = elapsed();
  return {
    /** Whether it is time for another check. */
    isDue: () => elapsed() - checkedAt >= CHECK_EVERY,
    /** Records the workspaces that a check found without an owner. */
    record(free: readonly number[]) {
      checkedAt = elapsed();
      since = new Map(free.map((workspace) => [workspace, since.get(workspace) ?? checkedAt]));
    },
    /** Returns the workspaces without an owner at two checks in a row or more, with the time since the first, milliseconds. */
    unowned(): ReadonlyMap<number, number> {
      const repeated = [...since].filter(([, first]) => first < checkedAt);
      return new Map(repeated.map(([workspace, first]) => [workspace, elapsed() - first]));
    },
  };
}
