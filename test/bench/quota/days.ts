import { type Behaviour, drawBehaviour, HELD_OUT, USUAL } from './references/behaviour.ts';
import { generateDay } from './references/day.ts';
import type { Line } from './references/trace.ts';

/**
 * What a quota bench is played on. Policies are tuned on one half, and reported on the other: nobody looks at the
 * second before the policy is settled, or the report would say how well it fits known days. `--tuning` plays the first.
 */
export interface Split {
  /** For all that is drawn beside days: durations, kills, other users. */
  readonly seeds: readonly number[];
  readonly behaviours: readonly Behaviour[];
}

export const TUNING: Split = {
  seeds: [1, 2, 3, 4, 5],
  behaviours: [USUAL, ...[2, 3, 4, 5].map(drawBehaviour)],
};

export const REPORT: Split = {
  seeds: [101, 102, 103, 104, 105],
  behaviours: [drawBehaviour(101), HELD_OUT.releases, HELD_OUT.people, HELD_OUT.monorepo, HELD_OUT.teams],
};

/** One day for each seed, each of another organisation. @param load see `generateDay` */
export function daysOf({ seeds, behaviours }: Split, load: number): readonly Line[][] {
  return seeds.map((seed, index) => [...generateDay(seed, load, behaviours[index]).lines]);
}
