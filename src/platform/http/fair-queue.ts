import { yieldToEventLoop } from '../lib/yield.ts';
import { crowdedOut } from './request-error.ts';

/**
 * Decides which signature is checked next, if more requests arrive than one turn of the event loop can check. Addresses are
 * served one after the other; suspect ones get the rest, and one turn in four if there is none. Within one address, small bodies
 * go first. If too many wait, the last one of the worst address is rejected.
 */
export interface FairQueue {
  /** Returns undefined if it may go at once; otherwise resolves at its turn. Rejects with a `RequestError` if it is refused. */
  enter(group: string, bytes: number): Promise<void> | undefined;
}

/** Cost of one turn: a request costs one, and one more for each piece of this size, bytes. */
const PER_TURN = 64;
const PIECE = 64 * 1024;
const SMALL = 256 * 1024;
const MOST_WAITING = 1_000;
/** One turn in this many belongs to suspect addresses. */
const FOR_SUSPECTS = 4;

interface Waiting {
  readonly cost: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Group {
  readonly small: Waiting[];
  readonly large: Waiting[];
}

export function createFairQueue(isSuspect: (group: string) => boolean): FairQueue {
  /** Groups in the order in which they are served. */
  const groups = new Map<string, Group>();
  let count = 0;
  let spent = 0;
  let isRunning = false;
  let served = 0;

  async function run(): Promise<void> {
    isRunning = true;
    do {
      await yieldToEventLoop();
      spent = 0;
      while (count > 0 && spent < PER_TURN) serve();
    } while (count > 0);
    isRunning = false;
  }

  function serve(): void {
    const [name, group] = nextGroup();
    const next = (group.small.shift() ?? group.large.shift()) as Waiting;
    groups.delete(name);
    if (group.small.length + group.large.length > 0) groups.set(name, group);
    count--;
    spent += next.cost;
    next.resolve();
  }

  function nextGroup(): [string, Group] {
    const all = groups.entries().toArray();
    const suspects = all.filter(([name]) => isSuspect(name));
    const others = suspects.length === 0 ? all : all.filter(([name]) => !isSuspect(name));
    const isTheirs = others.length === 0 || (suspects.length > 0 && ++served % FOR_SUSPECTS === 0);
    return (isTheirs ? suspects : others)[0] as [string, Group];
  }

  function turnAwayWorst(): void {
    let worst: { name: string; group: Group; rank: number } | undefined;
    for (const [name, group] of groups) {
      const rank = group.small.length + group.large.length + (isSuspect(name) ? MOST_WAITING : 0);
      if (!worst || rank > worst.rank) worst = { name, group, rank };
    }
    if (!worst) return;
    const { name, group } = worst;
    const last = (group.large.pop() ?? group.small.pop()) as Waiting;
    if (group.small.length + group.large.length === 0) groups.delete(name);
    count--;
    last.reject(crowdedOut(isSuspect(name)));
  }

  return {
    enter(name, bytes) {
      const cost = 1 + bytes / PIECE;
      if (!isRunning) void run();
      if (count === 0 && (spent === 0 || spent + cost <= PER_TURN)) {
        spent += cost;
        return undefined;
      }
      return new Promise((resolve, reject) => {
        const group = groups.get(name) ?? { small: [], large: [] };
        groups.set(name, group);
        (bytes <= SMALL ? group.small : group.large).push({ cost, resolve, reject });
        if (++count > MOST_WAITING) turnAwayWorst();
      });
    },
  };
}
