const TOTAL = 64 * 1024 * 1024;
/** As much of each body needs no promise: most deliveries are smaller. */
const FIRST_PART = 256 * 1024;
/** The share of the total that large bodies leave to first parts. */
const FOR_FIRST_PARTS = 1 / 8;
/** Milliseconds in which a request must bring `PROGRESS` bytes, or end, to count as moving. */
export const PATIENCE = 500;
const PROGRESS = 64 * 1024;

/** A request whose body comes in. */
export interface Holder {
  readonly group: string;
  readonly announced: number;
  /**
   * Absent once it has left: V8's outgrown tables of a set keep what stood in them alive until a major collection, and
   * through this the whole request.
   */
  giveUp: ((isSuspect: boolean) => void) | undefined;
  readonly since: number;
  held: number;
  /** Promised room for the rest. */
  isPromised: boolean;
  isComplete: boolean;
  /** When it last had brought `PROGRESS` bytes more, and how many it had then. */
  movedAt: number;
  movedWith: number;
  waiting?: Waiting | undefined;
}

export interface Waiting {
  readonly bytes: number;
  readonly since: number;
  readonly tell: () => void;
}

/** How the memory is divided among those whose bodies come in. */
export interface BodyRoom {
  /** Bytes that are in use now. */
  held(): number;
  /** By all requests of the same group. */
  heldByGroup(holder: Holder): number;
  hasRoom(holder: Holder, bytes: number): boolean;
  grant(holder: Holder, bytes: number): void;
  /** It needs no more than it has. */
  endPromise(holder: Holder): void;
  /** It gives everything back. */
  free(holder: Holder): void;
}

/** @param now milliseconds; see `awake-time.ts` */
export function createBodyRoom(now: () => number, total = TOTAL): BodyRoom {
  const byGroup = new Map<string, number>();
  let held = 0;
  let promised = 0;

  const rest = (holder: Holder) => Math.max(0, holder.announced - holder.held);
  const add = (holder: Holder, bytes: number) => {
    if (holder.isPromised) promised -= rest(holder);
    holder.held += bytes;
    if (holder.isPromised) promised += rest(holder);
    held += bytes;
    const ofGroup = (byGroup.get(holder.group) ?? 0) + bytes;
    if (ofGroup === 0) byGroup.delete(holder.group);
    else byGroup.set(holder.group, ofGroup);
  };

  function hasRoom(holder: Holder, bytes: number): boolean {
    if (holder.isPromised && bytes <= rest(holder)) return true;
    // A lone request may use everything, and even more than the total.
    if (held === holder.held) return true;
    if (isFirstPart(holder, bytes)) return held + promised + bytes <= total;
    return held + promised + Math.max(bytes, rest(holder)) <= total * (1 - FOR_FIRST_PARTS);
  }

  function grant(holder: Holder, bytes: number): void {
    if (!holder.isPromised && !isFirstPart(holder, bytes)) {
      holder.isPromised = true;
      promised += rest(holder);
    }
    add(holder, bytes);
    if (holder.held - holder.movedWith < PROGRESS) return;
    holder.movedAt = now();
    holder.movedWith = holder.held;
  }

  function endPromise(holder: Holder): void {
    if (holder.isPromised) promised -= rest(holder);
    holder.isPromised = false;
  }

  return {
    held: () => held,
    heldByGroup: ({ group }) => byGroup.get(group) ?? 0,
    hasRoom,
    grant,
    endPromise,
    free(holder) {
      endPromise(holder);
      add(holder, -holder.held);
    },
  };
}

/** It needs no promise. */
export function isFirstPart(holder: Holder, bytes: number): boolean {
  return holder.held + bytes <= FIRST_PART;
}
