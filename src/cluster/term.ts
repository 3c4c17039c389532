import type { Cancel, Clock } from '../platform/lib/clock.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Installation } from '../store/installation.ts';
import { fenceOf, type RenewedReplica, register, renewAndList, replicasOf, type StoreTime } from '../store/leases.ts';
import type { Lease } from './holder.ts';

/** How long leases are trusted after the begin of a renewal, milliseconds. */
export const TTL = 3_000;

/** The time of one incarnation. When it is over it never comes back: the process takes another one. */
export interface Term {
  readonly incarnation: string;
  readonly over: AbortController;
  trustedUntil: number;
  readonly held: Map<number, HeldLease>;
  /** Of which others are to take over, and whether nobody works on it here any more. */
  readonly leaving: Map<number, HeldLease>;
  /** Which it tried to take, and never heard whether they are its own. */
  readonly unsure: Set<number>;
}

export interface HeldLease extends Lease {
  /** When it was taken, by `passed`. */
  readonly since: number;
  isClosed: boolean;
}

interface TermsDeps {
  readonly query: Installation['query'];
  /** Milliseconds that passed on this machine, suspended or not, by a clock that nobody sets. */
  readonly passed: () => number;
  readonly after: Clock['after'];
  readonly storeTime: StoreTime;
  readonly random: Random;
  /** Of this process, and where the others reach it. */
  readonly replica: () => { readonly id: string; readonly address: string; readonly about: string };
  /** What the store's clock said to a renewal that began and ended at these moments of `passed`. */
  readonly onTime: (now: number, asked: { readonly began: number; readonly ended: number }) => void;
  /** A term that held workspaces is over. */
  readonly onLapse: (workspaces: number) => void;
}

/** For how long this process may trust what it holds. */
export interface Terms {
  /** The one that was begun last. */
  readonly present: Term | undefined;
  /** The present term, or another one where it is over; with all processes that have one. */
  renewed(): Promise<{ readonly term: Term; readonly replicas: readonly RenewedReplica[] }>;
  /** @param began when the renewal began that succeeded */
  trust(term: Term, began: number): Term;
  isTrusted(term: Term): boolean;
  end(term: Term): void;
  lease(term: Term, workspace: number, epoch: number): HeldLease;
}

export function createTerms(deps: TermsDeps): Terms {
  const { query, passed, storeTime, random } = deps;
  let term: Term | undefined;
  let cancelEnd: Cancel = () => undefined;

  async function renewed(): ReturnType<Terms['renewed']> {
    const began = passed();
    const present = term;
    if (present && isTrusted(present)) {
      const { now, replicas } = await renewAndList(query, present.incarnation, storeTime, TTL);
      if (now !== undefined) deps.onTime(now, { began, ended: passed() });
      if (now !== undefined && isTrusted(present)) return { term: trust(present, began), replicas };
    }
    if (present) end(present);
    const next = await begin();
    return { term: next, replicas: await replicasOf(query) };
  }

  async function begin(): Promise<Term> {
    const began = passed();
    const incarnation = random.uuid();
    const next = {
      ...{ incarnation, over: new AbortController(), trustedUntil: 0 },
      ...{ held: new Map(), leaving: new Map(), unsure: new Set<number>() },
    };
    await register(query, { ...deps.replica(), incarnation }, storeTime, TTL);
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
    if (workspaces > 0) deps.onLapse(workspaces);
  }

  function lease(present: Term, workspace: number, epoch: number): HeldLease {
    const own: HeldLease = {
      since: passed(),
      isClosed: false,
      isTrusted: () => !own.isClosed && isTrusted(present),
      lost: present.over.signal,
      fence: fenceOf({ workspace, incarnation: present.incarnation, epoch }),
    };
    return own;
  }

  return {
    get present() {
      return term;
    },
    renewed,
    trust,
    isTrusted,
    end,
    lease,
  };
}
