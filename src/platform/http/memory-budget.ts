import type { Clock } from '../lib/clock.ts';
import { createAwakeTime } from './awake-time.ts';
import { createBodyRoom, type Holder, isFirstPart, PATIENCE, type Waiting } from './body-room.ts';

/**
 * The memory for bodies before their senders are verified, shared by all requests of a server. Bytes count as they arrive: a
 * sender that announces 25 MB and sends nothing uses nothing.
 *
 * Nothing is refused while there is room. Otherwise requests wait: those of addresses that are not suspect go first, then those
 * whose address uses least, then those that use least themselves. The budget makes room by ending the worst: stalled requests,
 * and those of suspect addresses if another address waits.
 *
 * The first part of a body is taken byte by byte; the rest needs a reservation for the whole body. So large bodies arrive one
 * after the other, and never wait for each other half received.
 */
export interface MemoryBudget {
  /**
   * Registers a request whose body begins to arrive. `leave` must follow.
   *
   * @param announced bytes that it will have, or the largest number that is accepted
   * @param giveUp called if it has to make room: it must end now
   */
  enter(group: string, announced: number, giveUp: (isSuspect: boolean) => void): BodyHolder;
  /** Returns the bytes that are in use. */
  held(): number;
}

export interface BodyHolder {
  /** Requests room for received bytes. Returns undefined if there is some; otherwise resolves when there is. */
  take(bytes: number): Promise<void> | undefined;
  /** Marks the body as complete: the budget then no longer ends it before it was processed. */
  complete(): void;
  /** Releases everything. Idempotent. */
  leave(): void;
}

interface BodyBudgetOptions {
  readonly clock: Clock;
  /** Whether requests of this group failed so often that others go first. */
  readonly isSuspect: (group: string) => boolean;
  /** Bytes; 64 MiB by default. */
  readonly total?: number | undefined;
}

/** Requests that may wait for room: each has a piece in memory. */
const MOST_WAITING = 256;

export function createMemoryBudget({ clock, isSuspect, total }: BodyBudgetOptions): MemoryBudget {
  const holders = new Set<Holder>();
  const waiting = new Set<Holder>();
  const awake = createAwakeTime(clock, PATIENCE / 2, { isNeeded: () => holders.size > 0, look: settle });
  const room = createBodyRoom(awake.now, total);

  const suspicion = ({ group }: Holder) => (isSuspect(group) ? 1 : 0);

  /** The order of the waiting requests. */
  const byTurn = (a: Holder, b: Holder) =>
    suspicion(a) - suspicion(b) || room.heldByGroup(a) - room.heldByGroup(b) || a.held - b.held || a.since - b.since;

  const hasStalled = (holder: Holder) => !holder.waiting && awake.now() - holder.movedAt >= PATIENCE;

  /** The order in which requests are ended: memory times the time that it was in use. */
  const byCost = (a: Holder, b: Holder) => {
    const cost = ({ held: bytes, since }: Holder) => bytes * (awake.now() - since + 1);
    return suspicion(b) - suspicion(a) || room.heldByGroup(b) - room.heldByGroup(a) || cost(b) - cost(a);
  };

  function victimFor(next: Holder, { bytes, since }: Waiting): Holder | undefined {
    // A large body waits for those that are arriving, but not for others that wait too.
    const mayPress = isFirstPart(next, bytes) || !holders.values().some(({ isPromised }) => isPromised);
    const isImpatient = mayPress && awake.now() - since >= PATIENCE;
    let victim: Holder | undefined;
    for (const holder of holders) {
      if (holder === next || holder.isComplete || holder.held === 0) continue;
      const mayGo = isImpatient || hasStalled(holder) || suspicion(holder) > suspicion(next);
      if (mayGo && (!victim || byCost(holder, victim) < 0)) victim = holder;
    }
    return victim;
  }

  function drop(holder: Holder): void {
    if (!holders.delete(holder)) return;
    waiting.delete(holder);
    holder.giveUp = undefined;
    room.free(holder);
  }

  function giveUp(holder: Holder): void {
    const { giveUp: tell } = holder;
    drop(holder);
    tell?.(isSuspect(holder.group));
  }

  /** Admits waiting requests in their order; makes room if allowed. */
  function settle(): void {
    for (let isMoving = true; isMoving; ) {
      const inTurn = waiting.values().toArray().toSorted(byTurn);
      const stuck = inTurn.filter((holder) => !letIn(holder));
      isMoving = stuck.some((holder) => makeRoom(holder));
    }
  }

  function letIn(holder: Holder): boolean {
    const asked = holder.waiting;
    if (!asked) return true;
    if (!room.hasRoom(holder, asked.bytes)) return false;
    waiting.delete(holder);
    holder.waiting = undefined;
    // It could send nothing while it waited.
    holder.movedAt = awake.now();
    room.grant(holder, asked.bytes);
    asked.tell();
    return true;
  }

  function makeRoom(holder: Holder): boolean {
    const victim = holder.waiting && victimFor(holder, holder.waiting);
    if (victim) giveUp(victim);
    return victim !== undefined;
  }

  function wait(holder: Holder, bytes: number): Promise<void> {
    return new Promise((resolve) => {
      holder.waiting = { bytes, tell: resolve, since: awake.now() };
      waiting.add(holder);
      if (waiting.size > MOST_WAITING) giveUp(waiting.values().toArray().toSorted(byTurn).at(-1) as Holder);
      settle();
    });
  }

  return {
    enter(group, announced, giveUpNow) {
      const holder = newHolder(group, announced, giveUpNow, awake.now());
      holders.add(holder);
      awake.watch();
      return {
        take(bytes) {
          const isNext = waiting.size === 0 || holder.isPromised || isFirstPart(holder, bytes);
          if (!isNext || !room.hasRoom(holder, bytes)) return wait(holder, bytes);
          room.grant(holder, bytes);
          return undefined;
        },
        complete() {
          room.endPromise(holder);
          holder.isComplete = true;
          if (waiting.size > 0) settle();
        },
        leave() {
          drop(holder);
          if (waiting.size > 0) settle();
        },
      };
    },
    held: room.held,
  };
}

function newHolder(group: string, announced: number, giveUp: Holder['giveUp'], now: number): Holder {
  return {
    ...{ group, announced, giveUp, since: now, held: 0, isPromised: false, isComplete: false },
    ...{ movedAt: now, movedWith: 0, waiting: undefined },
  };
}
