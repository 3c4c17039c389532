import type { Cancel, Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Random } from '../lib/random.ts';
import type { Installation } from '../store/installation.ts';
import {
  fenceOf,
  freeOf,
  giveBack,
  register,
  removeLapsed,
  renew,
  replicasOf,
  type StoreTime,
  takeLeases,
  unregister,
} from '../store/leases.ts';
import { numbersOf } from '../store/workspace-numbers.ts';
import type { Holder, Lease } from './holder.ts';
import { createLapseWatch } from './lapse-watch.ts';
import { shareOf } from './replica-share.ts';

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

/** How long leases are trusted after the begin of a renewal, and how often they are renewed, milliseconds. */
const TTL = 3_000;
const RENEW_EVERY = 1_000;

/** The time of one incarnation. When it is over it never comes back: the process takes another one. */
interface Term {
  readonly incarnation: string;
  readonly over: AbortController;
  trustedUntil: number;
  readonly held: Map<number, HeldLease>;
  /** Of which others are to take over, and whether nobody works on it here any more. */
  readonly leaving: Map<number, HeldLease>;
}

interface HeldLease extends Lease {
  isClosed: boolean;
}

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
  let wanted: ReadonlyMap<string, number> = new Map();
  let names: readonly string[] = [];
  let term: Term | undefined;
  let isStopped = false;
  let cancelBeat: Cancel = () => undefined;
  let cancelEnd: Cancel = () => undefined;
  let queue: Promise<void> = Promise.resolve();

  /**
   * Runs one after the other; never rejects. A failed step is repeated with the next renewal, as long as the lease is trusted.
   */
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
    const own = await renewed();
    const began = passed();
    const replicas = await replicasOf(query);
    const others = replicas.filter(({ incarnation }) => incarnation !== own.incarnation);
    const lapsed = watch.lapsed({ replicas: others, began, ended: passed() });
    await removeLapsed(query, lapsed);
    await release(own);
    wanted = await numbered();
    const living = replicas.filter((each) => !lapsed.includes(each)).map((each) => each.id);
    const share = shareOf(wanted.size, living, id);
    leave(own, share);
    const mayTake = share - own.held.size;
    if (mayTake > 0) await take(own, mayTake);
  }

  async function numbered(): Promise<ReadonlyMap<string, number>> {
    if (names.length === wanted.size && names.every((name) => wanted.has(name))) return wanted;
    const numbers = await numbersOf(query, names);
    return new Map(names.map((name, index) => [name, numbers[index] as number]));
  }

  /** The present term, or another one where it is over. */
  async function renewed(): Promise<Term> {
    const began = passed();
    const present = term;
    if (present && isTrusted(present)) {
      const lives = await renew(query, present.incarnation, storeTime, TTL);
      if (lives && isTrusted(present)) return trust(present, began);
    }
    if (present) end(present);
    const incarnation = random.uuid();
    const next = { incarnation, over: new AbortController(), trustedUntil: 0, held: new Map(), leaving: new Map() };
    await register(query, { id, incarnation, address }, storeTime, TTL);
    term = next;
    return trust(next, began);
  }

  function trust(present: Term, began: number): Term {
    present.trustedUntil = began + TTL;
    watchEnd(present);
    return present;
  }

  /** Timers may be early. */
  function watchEnd(present: Term): void {
    cancelEnd();
    cancelEnd = deps.after(Math.ceil(present.trustedUntil - passed()), () => {
      if (isTrusted(present)) watchEnd(present);
      else end(present);
    });
  }

  function isTrusted({ over, trustedUntil }: Term): boolean {
    return !over.signal.aborted && passed() < trustedUntil;
  }

  function end(ending: Term): void {
    if (ending.over.signal.aborted) return;
    ending.over.abort();
    cancelEnd();
    const workspaces = ending.held.size + ending.leaving.size;
    if (workspaces === 0 || isStopped) return;
    logger.warn({ workspaces }, 'the leases of this process have expired');
    void tell();
  }

  /** Never rejects. */
  async function tell(): Promise<void> {
    for (const call of calls) {
      await call().catch((error: unknown) =>
        logger.error({ error }, 'the workspaces of this process could not be opened or closed'),
      );
    }
  }

  /** What is beyond the share, or not wanted any more, is given back as soon as nobody works on it. */
  function leave(own: Term, share: number): void {
    const numbers = new Set(wanted.values());
    const unwanted = [...own.held.keys()].filter((number) => !numbers.has(number));
    const rest = [...own.held.keys()].filter((number) => numbers.has(number));
    const leaving = [...unwanted, ...rest.slice(share)];
    if (leaving.length === 0) return;
    const leases = leaving.map((number) => own.held.get(number) as HeldLease);
    for (const [index, number] of leaving.entries()) {
      own.leaving.set(number, leases[index] as HeldLease);
      own.held.delete(number);
    }
    void tell().then(() => {
      for (const lease of leases) lease.isClosed = true;
      return inTurn();
    });
  }

  async function release(own: Term): Promise<void> {
    const closed = [...own.leaving].filter(([, { isClosed }]) => isClosed).map(([number]) => number);
    if (closed.length === 0) return;
    await giveBack(query, own.incarnation, closed);
    for (const number of closed) own.leaving.delete(number);
  }

  async function take(own: Term, most: number): Promise<void> {
    const lacking = [...wanted.values()].filter((number) => !own.held.has(number) && !own.leaving.has(number));
    const free = (await freeOf(query, lacking)).slice(0, most);
    if (free.length === 0) return;
    const began = passed();
    const epochs = await database.commit(async (transaction) => {
      // A process that expired meanwhile would take workspaces that another one may take from it at once.
      const lives = await renew(transaction, own.incarnation, storeTime, TTL);
      return lives ? takeLeases(transaction, own.incarnation, free) : undefined;
    });
    if (epochs === undefined || !isTrusted(own)) {
      end(own);
      return;
    }
    trust(own, began);
    for (const [workspace, epoch] of epochs) own.held.set(workspace, leaseOf(own, workspace, epoch));
    if (epochs.size > 0) void tell();
  }

  function leaseOf(own: Term, workspace: number, epoch: number): HeldLease {
    const lease: HeldLease = {
      isClosed: false,
      isTrusted: () => !lease.isClosed && isTrusted(own),
      lost: own.over.signal,
      fence: fenceOf({ workspace, incarnation: own.incarnation, epoch }),
    };
    return lease;
  }

  return {
    want(workspaces) {
      names = workspaces;
      return inTurn();
    },
    leaseOf(workspace) {
      const number = wanted.get(workspace);
      return number === undefined || !term || !isTrusted(term) ? undefined : term.held.get(number);
    },
    onChange: (call) => void calls.push(call),
    async stop() {
      isStopped = true;
      cancelBeat();
      await queue;
      if (!term || term.over.signal.aborted) return;
      end(term);
      await unregister(query, term.incarnation);
    },
  };
}
