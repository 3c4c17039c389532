/**
 * What must hold whatever happens, said of plain histories: of the exhaustive model, and of anything else that plays many
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

/** What exists once must not exist twice. @param made how often each thing came to be */
export function effectsDoubled(made: Iterable<readonly [thing: string, times: number]>): readonly string[] {
  return [...made].filter(([, times]) => times > 1).map(([thing, times]) => `${thing} was made ${times} times`);
}

/** Of what counts as settled: what the server must hold, and what it holds. */
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
