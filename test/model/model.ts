import { effectsDoubled, effectsLost, heldTwice, type Window, windowsExceeded } from './search.ts';

/**
 * Lease, ledger and outbox of one workspace, as small as they can be and still go wrong: two processes over one database, three
 * changes, requests and answers that are late or lost, and kills at any moment. A process that sleeps is one that takes no step.
 * `steps.ts` says what may happen.
 *
 * Time goes in ticks of ten seconds. A lease lapses within less, so that is a step by itself. Of the network it is assumed that
 * a request whose connection failed does not arrive any more once another one for the same change was sent.
 *
 *   task     is created: twice is twice. What has no answer is `unknown` until a list is read (`settlement`).
 *   record   is written as it is desired, and becomes desired otherwise once: an old write that arrives late undoes the new one.
 *   link     is written once, and may be written again.
 */
export type ChangeName = 'task' | 'record' | 'link';

/** Ticks. */
export const DURATIONS = {
  /** How long a request may be on its way: 30 s. */
  life: 3,
  /** How long one whose connection failed may still be on its way: `UNKNOWN_GRACE`. */
  grace: 1,
  /** How long a successor leaves alone what was on its way: `SUCCESSION.untouched`. */
  rest: 4,
  /** After that a list proves that nothing came of a create: `SETTLE_AFTER`. */
  settle: 6,
} as const;

/** The protection that is left out, to see that the model fails without it. */
export interface Rules {
  readonly fence: boolean;
  readonly reservation: boolean;
  readonly readBack: boolean;
  /** The next process settles the changes in flight, and their slots. */
  readonly restOfChanges: boolean;
  readonly restOfSlots: boolean;
}
export const ALL_RULES: Rules = {
  fence: true,
  reservation: true,
  readBack: true,
  restOfChanges: true,
  restOfSlots: true,
};

export interface Bounds {
  readonly changes: readonly ChangeName[];
  /** In ticks. */
  readonly windows: readonly Window[];
  /** How often a process is killed, or sleeps for so long that its lease lapses. */
  readonly kills: number;
  readonly losses: number;
}

export interface Change {
  readonly state: 'pending' | 'sending' | 'unknown' | 'done';
  /** Ticks until it may go on. */
  readonly rest: number;
  readonly desired: number;
}

/** Ticks since a request ended, less than 0 while it may still be on its way; `null`: its answer is awaited. */
export type Slot = number | null;

export interface Process {
  readonly isAlive: boolean;
  /** `old`: it was taken over, and the process does not know. */
  readonly lease: 'none' | 'current' | 'old';
  readonly trusts: boolean;
  /** It has read the ledger, and found what was in flight. */
  readonly isOpen: boolean;
  /** The ledger as it knows it. */
  readonly book: readonly Slot[];
  /** Changes that are committed as in flight and not sent yet. */
  readonly prepared: { readonly change: number; readonly value: number } | null;
}

export interface Message {
  readonly by: number;
  readonly change: number;
  readonly value: number;
  /** Ticks for which it may be on its way; `null`: it has arrived. */
  readonly left: number | null;
  /** `failed`: its connection did, and the process knows; `orphan`: nobody waits for the answer any more. */
  readonly outcome: 'awaited' | 'failed' | 'orphan';
}

export interface State {
  /** The row of the lease: its process, -1 where there was none, and whether it was not renewed in time. */
  readonly owner: number;
  readonly isLapsed: boolean;
  readonly ledger: readonly Slot[];
  readonly changes: readonly Change[];
  readonly processes: readonly Process[];
  readonly messages: readonly Message[];
  /** The server: how often each change was carried out, and the ticks since requests arrived. */
  readonly held: readonly number[];
  readonly made: readonly number[];
  readonly arrivals: readonly number[];
  readonly kills: number;
  readonly losses: number;
}

export const IDLE: Process = {
  isAlive: true,
  lease: 'none',
  trusts: false,
  isOpen: false,
  book: [],
  prepared: null,
};

export function startOf({ changes }: Bounds): State {
  return {
    owner: -1,
    isLapsed: true,
    ledger: [],
    changes: changes.map(() => ({ state: 'pending', rest: 0, desired: 1 })),
    processes: [IDLE, IDLE],
    messages: [],
    held: changes.map(() => 0),
    made: changes.map(() => 0),
    arrivals: [],
    kills: 0,
    losses: 0,
  };
}

export function isDone({ changes }: State): boolean {
  return changes.every(({ state }) => state === 'done');
}

/** Returns the faults of a state, by the invariants that other checkers share. */
export function faultsOf({ windows, changes: names }: Bounds, state: State): readonly string[] {
  const { arrivals, made, held, changes, processes, messages } = state;
  // A request that may still arrive is checked after its arrival.
  const settled = names.flatMap((name, index) => {
    const isOnItsWay = messages.some(({ change, left }) => change === index && left !== null);
    const { state: stands, desired } = changes[index] as Change;
    return stands === 'done' && !isOnItsWay ? [[name, desired, held[index] ?? 0] as const] : [];
  });
  const trusting = processes.flatMap(({ trusts }, who) =>
    trusts ? [['the workspace', `process ${who}`] as const] : [],
  );
  return [
    ...windowsExceeded(
      arrivals.map((ago) => -ago),
      windows,
    ),
    ...effectsDoubled(names.flatMap((name, index) => (name === 'task' ? [[name, made[index] ?? 0] as const] : []))),
    ...effectsLost(settled),
    ...heldTwice(trusting),
  ];
}

/** One text for each state. JSON would take twice as long. */
export function keyOf({ ledger, changes, processes, messages, held, made, arrivals, ...rest }: State): string {
  const { owner, isLapsed, kills, losses } = rest;
  const own = processes.map(
    ({ isAlive, lease, trusts, isOpen, book, prepared }) =>
      `${isAlive}${lease}${trusts}${isOpen}${book.join()}p${prepared?.change}v${prepared?.value}`,
  );
  const stand = changes.map(({ state, rest: pause, desired }) => `${state}${pause}d${desired}`);
  const way = messages.map(({ by, change, value, left, outcome }) => `${by}${change}${value}${left}${outcome}`);
  const lists = [ledger, stand, own, way, held, made, arrivals].map((list) => list.join());
  return `${owner}${isLapsed}${kills}${losses}|${lists.join('|')}`;
}
