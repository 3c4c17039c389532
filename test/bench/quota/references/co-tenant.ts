import { type Chance, createChance } from './chance.ts';

/** How another user of the workspace spreads its requests. */
export const MANNERS = ['paced', 'poisson', 'bursts'] as const;
export type Manner = (typeof MANNERS)[number];

const WINDOW = 900;
const CAP = 200;
/** Most of the long window that the other user wants. */
const HIGHEST = 0.8;

/**
 * Seconds at which the other user wants to send, ascending. What it wants changes in steps of 30 to 90 minutes, between
 * nothing and 80 % of the long window.
 */
export function wishesOf(manner: Manner, seed: number, length: number): number[] {
  const chance = createChance(seed);
  const wishes: number[] = [];
  for (let at = 0; at < length; ) {
    const end = Math.min(length, at + chance.between(30, 90) * 60);
    wishes.push(...withinStep(manner, chance, at, end, chance.between(0, HIGHEST) * CAP));
    at = end;
  }
  return wishes;
}

/** @param count requests in each long window */
function withinStep(manner: Manner, chance: Chance, from: number, to: number, count: number): number[] {
  if (manner === 'bursts') return burstsOf(from, to, Math.round(count));
  const wishes: number[] = [];
  const gap = WINDOW / Math.max(count, 0.1);
  const next = () => (manner === 'paced' ? gap : chance.exponential(gap));
  for (let at = from + next(); at < to; at += next()) wishes.push(at);
  return wishes;
}

/** All at once, every quarter of an hour. */
function burstsOf(from: number, to: number, count: number): number[] {
  const wishes: number[] = [];
  for (let at = Math.ceil(from / WINDOW) * WINDOW; at < to; at += WINDOW) {
    for (let each = 0; each < count; each++) wishes.push(at);
  }
  return wishes;
}
