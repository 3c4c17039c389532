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
