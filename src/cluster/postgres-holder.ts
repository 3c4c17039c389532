import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Installation } from '../store/installation.ts';
import {
  lockLeases,
  ownerOf,
  ownersOf,
  releaseLeases,
  removeExpired,
  renew,
  type StoreTime,
  takeLeases,
  unownedOf,
  unregister,
  updateReplica,
} from '../store/leases.ts';
import { numbersOf } from '../store/workspace-numbers.ts';
import type { Sql } from '../store/workspace-scope.ts';
import type { ClockOffset } from './clock-offset.ts';
import { createExpiryReaper } from './expiry-reaper.ts';
import type { Kept, LeaseHolder } from './holder.ts';
import { createPeers, type Peers } from './peers.ts';
import { createRenewals } from './renewals.ts';
import type { ReplicaFacts } from './replica-facts.ts';
import { shareOf } from './replica-share.ts';
import { createTerms, type HeldLease, type Term, type Terms, TTL } from './term.ts';
import { createUnownedMonitor, type UnownedMonitor } from './unowned-monitor.ts';

interface SharedHolderDeps {
  readonly database: Pick<Installation, 'query' | 'commit'>;
  /** Milliseconds that passed on this machine, suspended or not, by a clock that nobody sets. */
  readonly passed: () => number;
  readonly after: Clock['after'];
  readonly storeTime: StoreTime;
  /** Told of that time with each renewal. */
  readonly storeClock: ClockOffset;
  readonly random: Random;
  readonly logger: Logger;
  /** Where the others reach this process. */
  readonly address: () => string;
  /** What it tells them of itself. */
  readonly facts: () => ReplicaFacts;
  /** The clock of the store was set, so that nobody knows how much time has passed by it. */
  readonly onClockSet?: () => Promise<void>;
  /** Took this many workspaces that were not given back: from a process that fell silent, also from itself. */
  readonly onTakeover?: (workspaces: number) => void;
}

/** How often leases are renewed, milliseconds: what dies is detected one TTL after its last renewal was seen. */
const RENEW_EVERY = 500;

/**
 * One of several processes over one database, each of which owns its share of the workspaces: takes those that nobody owns, also
 * of those that have died, and gives back what is beyond its share when another one comes. At rest it costs one statement for
 * each renewal, however many workspaces there are.
 */
export function createPostgresLeaseHolder(deps: SharedHolderDeps): LeaseHolder {
  const { database, passed, storeTime, random, logger } = deps;
  const { query } = database;
  const id = random.uuid();
  const watch = createExpiryReaper(TTL);
  const lacks = createUnownedMonitor(passed);
  const calls: (() => Promise<void>)[] = [];
  const neighbours = createPeers({ ...deps, id });
  let settingsTold = 0;
  const terms = createTerms({
    ...{ query, passed, storeTime, random, after: deps.after, replica: neighbours.own },
    onTime: deps.storeClock.heard,
    onLapse(workspaces) {
      if (isStopped) return;
      logger.warn({ workspaces }, 'the leases of this process have expired');
      void tell();
    },
  });
  let wanted: ReadonlyMap<string, number> = new Map();
  let names: readonly string[] = [];
  let isStopped = false;
  const renewals = createRenewals({
    ...{ renew: beat, after: deps.after, logger, retry: RENEW_EVERY },
    pause: () => Math.min(RENEW_EVERY, Math.ceil(watch.next() - passed())),
  });

  async function beat(): Promise<void> {
    const began = passed();
    const { term: own, replicas } = await terms.renewed();
    const ended = passed();
    const timesSet = deps.storeClock.timesSet();
    if (timesSet > settingsTold) await deps.onClockSet?.();
    settingsTold = timesSet;
    if (neighbours.isOutdated(replicas)) await updateReplica(query, { ...own, ...neighbours.own() });
    const others = replicas.filter(({ incarnation }) => incarnation !== own.incarnation);
    const lapsed = watch.lapsed({ replicas: others, began, ended });
    await removeExpired(query, lapsed);
    await release(database, own);
    wanted = await numbered(query, names, wanted);
    const living = replicas.filter((each) => !lapsed.includes(each));
    neighbours.saw(living);
    const ids = living.map((each) => each.id);
    const share = shareOf(wanted.size, ids, id);
    leave(own, share);
    const mayTake = share - own.held.size;
    if (mayTake > 0) await take(own, mayTake);
    if (lacks.isDue()) lacks.saw(await freeFor(query, own, wanted));
  }

  const tell = (): Promise<void> => tellAll(calls, logger);

  /** What is beyond the share, or not wanted any more, is given back as soon as nobody works on it. */
  function leave(own: Term, share: number): void {
    const leaving = beyond(own, wanted, share);
    if (leaving.length === 0) return;
    const leases = leaving.map((number) => moveOut(own, number));
    void tell().then(() => {
      for (const lease of leases) lease.isClosed = true;
      return renewals.now();
    });
  }

  async function take(own: Term, most: number): Promise<void> {
    // Nearly always there is none: no transaction finds that out.
    if ((await freeFor(query, own, wanted)).length === 0) return;
    const began = passed();
    const taken = await takeRenewed(database, own, storeTime, async (transaction) => {
      const chosen = (await freeFor(transaction, own, wanted)).slice(0, most);
      for (const number of chosen) own.unsure.add(number);
      return chosen;
    });
    own.unsure.clear();
    if (taken === undefined || !terms.isTrusted(own)) {
      terms.end(own);
      return;
    }
    terms.trust(own, began);
    for (const [workspace, { epoch }] of taken) own.held.set(workspace, terms.lease(own, workspace, epoch));
    const takenOver = [...taken.values()].filter(({ isTakeover }) => isTakeover).length;
    if (takenOver > 0) deps.onTakeover?.(takenOver);
    if (taken.size > 0) void tell();
  }

  return {
    want(workspaces) {
      names = workspaces;
      return renewals.now();
    },
    leaseOf(workspace) {
      const number = wanted.get(workspace);
      const term = terms.present;
      return number === undefined || !term || !terms.isTrusted(term) ? undefined : term.held.get(number);
    },
    onChange: (call) => void calls.push(call),
    replicas: neighbours.all,
    ...sightsOf({ query, passed, neighbours, terms, lacks, wanted: () => wanted }),
    async stop() {
      isStopped = true;
      await renewals.stop();
      const term = terms.present;
      if (!term || term.over.signal.aborted) return;
      terms.end(term);
      await unregister(query, term.incarnation);
    },
  };
}

/** Never rejects. */
async function tellAll(calls: readonly (() => Promise<void>)[], logger: Logger): Promise<void> {
  for (const call of calls) {
    await call().catch((error: unknown) => logger.error({ error }, 'leased workspaces could not be opened'));
  }
}

/** The numbers of the wanted workspaces, by their names. */
async function numbered(
  query: Installation['query'],
  names: readonly string[],
  known: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  if (names.length === known.size && names.every((name) => known.has(name))) return known;
  const numbers = await numbersOf(query, names);
  return new Map(names.map((name, index) => [name, numbers[index] as number]));
}

/** Undefined: the term is over. */
function takeRenewed(
  database: SharedHolderDeps['database'],
  { incarnation }: Term,
  storeTime: StoreTime,
  choose: (transaction: Sql) => Promise<readonly number[]>,
): Promise<Awaited<ReturnType<typeof takeLeases>> | undefined> {
  return database.commit(async (transaction) => {
    // A process that expired meanwhile would take workspaces that another one may take from it at once.
    const lives = await renew(transaction, incarnation, storeTime, TTL);
    if (lives === undefined) return undefined;
    await lockLeases(transaction);
    // Another survivor may just have taken those that were free before.
    const free = await choose(transaction);
    return free.length === 0 ? new Map() : takeLeases(transaction, incarnation, free);
  });
}

/** Of what is held, what nobody wants any more, and what is beyond the share. */
function beyond({ held }: Term, wanted: ReadonlyMap<string, number>, share: number): number[] {
  const numbers = new Set(wanted.values());
  const unwanted = [...held.keys()].filter((number) => !numbers.has(number));
  const rest = [...held.keys()].filter((number) => numbers.has(number));
  return [...unwanted, ...rest.slice(share)];
}

/** What a holder tells of leases, its own and others. */
function sightsOf(seen: {
  readonly query: Installation['query'];
  readonly passed: () => number;
  readonly neighbours: Peers;
  readonly terms: Terms;
  readonly lacks: UnownedMonitor;
  readonly wanted: () => ReadonlyMap<string, number>;
}): Pick<LeaseHolder, 'ownerOf' | 'owners' | 'held' | 'unheld' | 'renewedAgo'> {
  const { query, passed, neighbours, terms, lacks, wanted } = seen;
  const ageOf = (since: number | undefined) => (since === undefined ? undefined : Math.max(0, passed() - since));
  return {
    async ownerOf(workspace) {
      const owner = await ownerOf(query, workspace);
      return owner && neighbours.seen(owner);
    },
    owners: async () => new Map((await ownersOf(query)).map((each) => [each.workspace, neighbours.seen(each)])),
    held: () => keptOf(wanted(), (number) => ageOf(terms.present?.held.get(number)?.since)),
    unheld() {
      const found = lacks.unheld();
      return keptOf(wanted(), (number) => found.get(number));
    },
    renewedAgo: () => ageOf(terms.present && terms.present.trustedUntil - TTL),
  };
}

/** Those of which an age is known. */
function keptOf(wanted: ReadonlyMap<string, number>, since: (number: number) => number | undefined): readonly Kept[] {
  return [...wanted].flatMap(([workspace, number]) => {
    const age = since(number);
    return age === undefined ? [] : [{ workspace, since: age }];
  });
}

/** Gives back what nobody works on any more, or may not know that it is its own. */
async function release({ query, commit }: SharedHolderDeps['database'], own: Term): Promise<void> {
  const unsure = [...own.unsure];
  if (unsure.length > 0)
    await commit(async (transaction) => {
      // The transaction without an answer has ended then.
      await lockLeases(transaction);
      await releaseLeases(transaction, own.incarnation, unsure);
    });
  own.unsure.clear();
  const closed = [...own.leaving].filter(([, { isClosed }]) => isClosed).map(([number]) => number);
  if (closed.length === 0) return;
  await releaseLeases(query, own.incarnation, closed);
  for (const number of closed) own.leaving.delete(number);
}

/** Wanted workspaces that nobody holds. */
async function freeFor(
  query: Sql,
  { held, leaving }: Term,
  wanted: ReadonlyMap<string, number>,
): Promise<readonly number[]> {
  const lacking = [...wanted.values()].filter((number) => !held.has(number) && !leaving.has(number));
  return unownedOf(query, lacking);
}

/** From what is held to what others are to take over. */
function moveOut({ held, leaving }: Term, number: number): HeldLease {
  const lease = held.get(number) as HeldLease;
  leaving.set(number, lease);
  held.delete(number);
  return lease;
}
