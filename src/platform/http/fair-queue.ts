import { yieldToEventLoop } from '../lib/yield.ts';
import { crowdedOut } from './request-error.ts';

/**
 * Whose signature is checked next, when more has come in than one turn of the event loop can take. Addresses are served
 * one after the other; those that are suspect get what the others leave, and one turn in four where these leave nothing. Of
 * one address small bodies go first. When too many wait, the last of the worst address is turned away.
 */
export interface FairQueue {
  /**
   * Undefined where it is its turn at once; else resolves when it is.
   * Rejects with a `RequestError` where it is turned away.
   */
  enter(group: string, bytes: number): Promise<void> | undefined;
}

/** What one turn takes: a request costs one, and as much again for each piece of this size, bytes. */
const PER_TURN = 64;
const PIECE = 64 * 1024;
const SMALL = 256 * 1024;
const MOST_WAITING = 1_000;
/** One turn in so many belongs to suspect addresses. */
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
  /** In the order in which they are served. */
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
