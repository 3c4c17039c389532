/** Every state that can be reached, each by a shortest way. */

export interface Step<State> {
  readonly name: string;
  readonly next: State;
}

export interface Found<State> {
  readonly states: readonly State[];
  /** The first state in which something is wrong, what it is, and the steps that led there. */
  readonly wrong?: { readonly faults: readonly string[]; readonly trace: readonly string[] };
  /** States from which no run leads to a state in which everything is done, by the steps that led to the first of them. */
  readonly stuck: readonly string[] | undefined;
  /** The steps on a shortest way to a state, by its place. */
  traceTo(index: number): readonly string[];
}

interface Search<State> {
  readonly start: State;
  readonly steps: (state: State) => readonly Step<State>[] | Promise<readonly Step<State>[]>;
  readonly keyOf: (state: State) => string;
  readonly faults: (state: State) => readonly string[];
  readonly isDone: (state: State) => boolean;
  /** More than these are an error: the model is larger than it was meant to be. */
  readonly most: number;
}

/** Breadth first. Ends at the first fault. */
export async function search<State>(parts: Search<State>): Promise<Found<State>> {
  const { start, steps, keyOf, faults, isDone, most } = parts;
  const states = [start];
  const places = new Map([[keyOf(start), 0]]);
  const came: { readonly from: number; readonly name: string }[] = [{ from: -1, name: '' }];
  const before: number[][] = [[]];

  function traceTo(index: number): readonly string[] {
    const names: string[] = [];
    for (let at = index; at > 0; at = came[at]?.from ?? 0) names.push(came[at]?.name ?? '');
    return names.toReversed();
  }

  for (let at = 0; at < states.length; at++) {
    const state = states[at] as State;
    const wrong = faults(state);
    if (wrong.length > 0) return { states, wrong: { faults: wrong, trace: traceTo(at) }, stuck: undefined, traceTo };
    for (const { name, next } of await steps(state)) {
      const key = keyOf(next);
      let place = places.get(key);
      if (place === undefined) {
        place = states.push(next) - 1;
        places.set(key, place);
        came.push({ from: at, name });
        before.push([]);
        if (place > most) throw new Error(`more than ${most} states, such as ${traceTo(place).join('; ')}`);
      }
      before[place]?.push(at);
    }
  }
  const stuck = firstStuck(states, before, isDone);
  return { states, stuck: stuck === -1 ? undefined : traceTo(stuck), traceTo };
}

/** Goes back from the ends: what that does not reach leads to none of them. */
function firstStuck<State>(
  states: readonly State[],
  before: readonly (readonly number[])[],
  isDone: (state: State) => boolean,
): number {
  const leads = new Uint8Array(states.length);
  const open = [...states.keys()].filter((index) => isDone(states[index] as State));
  for (const index of open) leads[index] = 1;
  for (let index = open.pop(); index !== undefined; index = open.pop()) {
    for (const earlier of before[index] ?? []) {
      if (leads[earlier]) continue;
      leads[earlier] = 1;
      open.push(earlier);
    }
  }
  return leads.indexOf(0);
}

/**
 * The invariants, on plain histories: of the exhaustive model, and of anything else that plays many
 * processes, losses and kills. Imports nothing of the program, so that no error of it is in here too.
 */

export interface Window {
  /** Most requests that the server takes within one window. */
  readonly cap: number;
  /** In the unit of the times that it limits. */
  readonly length: number;
}

/** Where more than a cap arrived within a window. Times in any order; two that are a whole length apart share no window. */
export function windowsExceeded(arrivals: readonly number[], windows: readonly Window[]): readonly string[] {
  const times = arrivals.toSorted((a, b) => a - b);
  return windows.flatMap(({ cap, length }) => {
    const end = times.findIndex((at, index) => index >= cap && at - (times[index - cap] ?? at) < length);
    return end === -1 ? [] : [`more than ${cap} requests arrived within ${length}: until ${times[end]}`];
  });
}

/** Nothing may be created twice. @param made the number of creations of each thing */
export function effectsDoubled(made: Iterable<readonly [thing: string, times: number]>): readonly string[] {
  return [...made].filter(([, times]) => times > 1).map(([thing, times]) => `${thing} was made ${times} times`);
}

/** The expected and the actual state of the server for settled changes. */
export function effectsLost(
  settled: Iterable<readonly [thing: string, wanted: number, held: number]>,
): readonly string[] {
  return [...settled]
    .filter(([, wanted, held]) => wanted !== held)
    .map(([thing, wanted, held]) => `${thing} counts as settled at ${wanted}, and the server holds ${held}`);
}

/** @param trusting who, at one moment, believes to hold a thing */
export function heldTwice(trusting: Iterable<readonly [thing: string, holder: string]>): readonly string[] {
  const holders = Map.groupBy([...trusting], ([thing]) => thing);
  return [...holders]
    .filter(([, all]) => all.length > 1)
    .map(([thing, all]) => `${thing} is held by ${all.map(([, holder]) => holder).join(' and ')}`);
}
