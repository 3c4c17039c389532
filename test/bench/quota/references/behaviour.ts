import { createChance } from './chance.ts';

type Range = readonly [low: number, high: number];

/** A label that goes onto what was merged since the release before it, at this hour, within so many seconds. */
export interface Release {
  readonly hour: number;
  /** Part of what was merged. */
  readonly part: number;
  readonly within: number;
}

/** How the people and machines of one organisation work on their pull requests: what `day.ts` makes a day of. */
export interface Behaviour {
  readonly repositories: number;
  /** Weight of a repository: 1 / rank to this power. 0: all have the same. */
  readonly concentration: number;
  /** Every so many pull requests one is a machine's dependency update; 0: none. */
  readonly dependencyEvery: number;
  readonly dependencyHours: readonly number[];
  /** Labels that machines set within seconds of the opening. */
  readonly openingLabels: Range;
  readonly reviewers: Range;
  readonly reviews: Range;
  readonly edited: number;
  readonly drafts: number;
  /** Seconds between the clicks of a person who clicks on. */
  readonly clicks: Range;
  /** Part of pull requests that somebody relabels at once; with how many changes, within how many seconds. */
  readonly storms: { readonly part: number; readonly changes: Range; readonly seconds: Range };
  /** Part of pushes whose test is told by labels. */
  readonly tested: number;
  /** Median of a test, minutes. */
  readonly testMinutes: number;
  readonly closingLabels: Range;
  readonly releases: readonly Release[];
}

/** An organisation of many repositories, some machines, and one release a day. */
export const USUAL: Behaviour = {
  repositories: 40,
  concentration: 0.7,
  dependencyEvery: 12,
  dependencyHours: [5.5, 12],
  openingLabels: [1, 3],
  reviewers: [1, 3],
  reviews: [1, 4],
  edited: 0.3,
  drafts: 0.2,
  clicks: [0.6, 2],
  storms: { part: 0.12, changes: [5, 20], seconds: [5, 60] },
  tested: 0.5,
  testMinutes: 6,
  closingLabels: [1, 3],
  releases: [{ hour: 16.5, part: 0.1, within: 120 }],
};

/** Somewhere around the usual: every seed is another organisation. */
export function drawBehaviour(seed: number): Behaviour {
  const chance = createChance(seed);
  const slowness = chance.between(0.6, 2.2);
  const repositories = chance.whole(5, 120);
  const most = (low: number, high: number): Range => [low, chance.whole(low, high)];
  return {
    repositories,
    concentration: chance.between(0.2, 1.2),
    dependencyEvery: chance.whole(5, 40),
    dependencyHours: [chance.between(2, 8), chance.between(9, 16)],
    openingLabels: most(0, 4),
    reviewers: most(1, 4),
    reviews: most(1, 5),
    edited: chance.between(0.1, 0.5),
    drafts: chance.between(0.05, 0.4),
    clicks: [0.6 * slowness, 2 * slowness],
    storms: { part: chance.between(0, 0.25), changes: [3, chance.whole(8, 25)], seconds: [5, chance.between(20, 90)] },
    tested: chance.between(0, 0.9),
    testMinutes: chance.between(2, 20),
    closingLabels: most(0, 3),
    releases: Array.from({ length: chance.whole(0, 2) }, () => ({
      hour: chance.between(9, 18),
      part: chance.between(0.05, 0.3),
      within: chance.between(10, 180),
    })).sort((left, right) => left.hour - right.hour),
  };
}

/** Days on which no policy was tuned. They are played only after a policy is settled. */
export const HELD_OUT = {
  /** Three releases a day label most of what was merged since the last, within a quarter of a minute. */
  releases: {
    ...USUAL,
    releases: [
      { hour: 11, part: 0.6, within: 15 },
      { hour: 14.5, part: 0.6, within: 15 },
      { hour: 17, part: 0.6, within: 15 },
    ],
  },
  /** People alone: no machine opens, labels or tests anything. */
  people: { ...USUAL, dependencyEvery: 0, openingLabels: [0, 0], tested: 0, clicks: [1, 5], releases: [] },
  /** One repository whose machines label by path, ask whole teams for review, and queue what is to be merged. */
  monorepo: {
    ...USUAL,
    ...{ repositories: 1, concentration: 0, dependencyEvery: 30, tested: 1, testMinutes: 25 },
    ...{ openingLabels: [2, 6], reviewers: [2, 6], closingLabels: [2, 4] },
    storms: { part: 0.3, changes: [3, 10], seconds: [2, 20] },
  },
  /** Many small teams: few labels, slow clicks, one reviewer, much rewriting. */
  teams: {
    ...USUAL,
    ...{ repositories: 400, concentration: 0, dependencyEvery: 25, openingLabels: [0, 1], tested: 0.15 },
    ...{ reviewers: [1, 1], reviews: [1, 2], edited: 0.7, clicks: [2, 9], closingLabels: [0, 1] },
    ...{ storms: { part: 0.03, changes: [3, 6], seconds: [10, 60] }, releases: [] },
  },
} as const satisfies Readonly<Record<string, Behaviour>>;
