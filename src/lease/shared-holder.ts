import type { Cancel, Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Random } from '../lib/random.ts';
import type { Installation } from '../store/installation.ts';
import {
  freeOf,
  giveBack,
  removeLapsed,
  renew,
  replicasOf,
  type StoreTime,
  takeLeases,
  unregister,
} from '../store/leases.ts';
import { numbersOf } from '../store/workspace-numbers.ts';
import type { Holder } from './holder.ts';
import { createLapseWatch } from './lapse-watch.ts';
import { shareOf } from './replica-share.ts';
import { createTerms, type HeldLease, type Term, TTL } from './term.ts';

interface SharedHolderDeps {
  readonly database: Pick<Installation, 'query' | 'commit'>;
  /** Milliseconds that passed on this machine, suspended or not, by a clock that nobody sets. */
  readonly passed: () => number;
  readonly after: Clock['after'];
  readonly storeTime: StoreTime;
  readonly random: Random;
  readonly logger: Logger;
  /** Where the others reach this process. */
  readonly address: string;
}

/** How often leases are renewed, milliseconds. */
const RENEW_EVERY = 1_000;

/**
 * One of several processes over one database, each of which owns its share of the workspaces: takes those that nobody owns, also
 * of those that have died, and gives back what is beyond its share when another one comes. At rest it costs two statements for
 * each renewal, however many workspaces there are.
 */
export function createSharedHolder(deps: SharedHolderDeps): Holder {
  const { database, passed, storeTime, random, logger, address } = deps;
  const { query } = database;
  const id = random.uuid();
  const watch = createLapseWatch(TTL);
  const calls: (() => Promise<void>)[] = [];
  const terms = createTerms({
    ...{ query, passed, storeTime, random, after: deps.after, replica: { id, address } },
    onLapse(workspaces) {
      if (isStopped) return;
      logger.warn({ workspaces }, 'the leases of this process have expired');
      void tell();
    },
  });
  let wanted: ReadonlyMap<string, number> = new Map();
  let names: readonly string[] = [];
  let isStopped = false;
  let cancelBeat: Cancel = () => undefined;
  let queue: Promise<void> = Promise.resolve();

  /** Runs one after the other; never rejects. The next renewal repeats a failed step, while the lease is trusted. */
  function inTurn(): Promise<void> {
    queue = queue.then(async () => {
      if (isStopped) return;
      cancelBeat();
      try {
        await beat();
      } catch (error) {
        logger.error({ error }, 'leases could not be renewed');
      }
      const pause = Math.max(1, Math.min(RENEW_EVERY, Math.ceil(watch.next() - passed())));
      if (!isStopped) cancelBeat = deps.after(pause, () => void inTurn());
    });
    return queue;
  }

  async function beat(): Promise<void> {
    const own = await terms.renewed();
    const began = passed();
    const replicas = await replicasOf(query);
    const others = replicas.filter(({ incarnation }) => incarnation !== own.incarnation);
    const lapsed = watch.lapsed({ replicas: others, began, ended: passed() });
    await removeLapsed(query, lapsed);
    await release(query, own);
    wanted = await numbered(query, names, wanted);
    const living = replicas.filter((each) => !lapsed.includes(each)).map((each) => each.id);
    const share = shareOf(wanted.size, living, id);
    leave(own, share);
    const mayTake = share - own.held.size;
    if (mayTake > 0) await take(own, mayTake);
  }

  /** Never rejects. */
  async function tell(): Promise<void> {
    for (const call of calls) {
      await call().catch((error: unknown) => logger.error({ error }, 'leased workspaces could not be opened'));
    }
  }

  /** What is beyond the share, or not wanted any more, is given back as soon as nobody works on it. */
  function leave(own: Term, share: number): void {
    const leaving = beyond(own, wanted, share);
    if (leaving.length === 0) return;
    const leases = leaving.map((number) => moveOut(own, number));
    void tell().then(() => {
      for (const lease of leases) lease.isClosed = true;
      return inTurn();
    });
  }

  async function take(own: Term, most: number): Promise<void> {
    const free = await freeFor(query, own, wanted, most);
    if (free.length === 0) return;
    const began = passed();
    const epochs = await takeRenewed(database, own, free, storeTime);
    if (epochs === undefined || !terms.isTrusted(own)) {
      terms.end(own);
      return;
    }
    terms.trust(own, began);
    for (const [workspace, epoch] of epochs) own.held.set(workspace, terms.lease(own, workspace, epoch));
    if (epochs.size > 0) void tell();
  }

  return {
    want(workspaces) {
      names = workspaces;
      return inTurn();
    },
    leaseOf(workspace) {
      const number = wanted.get(workspace);
      const term = terms.present;
      return number === undefined || !term || !terms.isTrusted(term) ? undefined : term.held.get(number);
    },
    onChange: (call) => void calls.push(call),
    async stop() {
      isStopped = true;
      cancelBeat();
      await queue;
      const term = terms.present;
      if (!term || term.over.signal.aborted) return;
      terms.end(term);
      await unregister(query, term.incarnation);
    },
  };
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
  free: readonly number[],
  storeTime: StoreTime,
): Promise<Awaited<ReturnType<typeof takeLeases>> | undefined> {
  return database.commit(async (transaction) => {
    // A process that expired meanwhile would take workspaces that another one may take from it at once.
    const lives = await renew(transaction, incarnation, storeTime, TTL);
    return lives ? takeLeases(transaction, incarnation, free) : undefined;
  });
}

/** Of what is held, what nobody wants any more, and what is beyond the share. */
function beyond({ held }: Term, wanted: ReadonlyMap<string, number>, share: number): number[] {
  const numbers = new Set(wanted.values());
  const unwanted = [...held.keys()].filter((number) => !numbers.has(number));
  const rest = [...held.keys()].filter((number) => numbers.has(number));
  return [...unwanted, ...rest.slice(share)];
}

/** Gives back what nobody works on any more. */
async function release(query: Installation['query'], own: Term): Promise<void> {
  const closed = [...own.leaving].filter(([, { isClosed }]) => isClosed).map(([number]) => number);
  if (closed.length === 0) return;
  await giveBack(query, own.incarnation, closed);
  for (const number of closed) own.leaving.delete(number);
}

/** Wanted workspaces that nobody holds. */
async function freeFor(
  query: Installation['query'],
  { held, leaving }: Term,
  wanted: ReadonlyMap<string, number>,
  most: number,
): Promise<readonly number[]> {
  const lacking = [...wanted.values()].filter((number) => !held.has(number) && !leaving.has(number));
  return (await freeOf(query, lacking)).slice(0, most);
}

/** From what is held to what others are to take over. */
function moveOut({ held, leaving }: Term, number: number): HeldLease {
  const lease = held.get(number) as HeldLease;
  leaving.set(number, lease);
  held.delete(number);
  return lease;
}
