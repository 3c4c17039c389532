import { sleep } from '../../../../src/platform/lib/clock.ts';
import type { TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { type Chance, createChance } from './chance.ts';
import type { Gate } from './windows.ts';

/** How another user of the workspace spreads its requests. The controller was tuned beside these three. */
export const MANNERS = ['paced', 'poisson', 'bursts'] as const;
/** And beside none of these: nobody looks at them before it is settled. */
export const HELD_OUT_MANNERS = ['rhythm', 'turns', 'jobs', 'office'] as const;
export type Manner = (typeof MANNERS)[number] | (typeof HELD_OUT_MANNERS)[number];

const WINDOW = 900;
const CAP = 200;
const MINUTE = 60;
/** Most of the long window that the other user wants. */
const HIGHEST = 0.8;

/** Seconds at which the other user wants to send, ascending. */
export function wishesOf(manner: Manner, seed: number, length: number): number[] {
  const chance = createChance(seed);
  return (MANNERS as readonly Manner[]).includes(manner)
    ? inSteps(manner, chance, length)
    : OTHERS[manner as (typeof HELD_OUT_MANNERS)[number]](chance, length);
}

/** Its demand changes every 30 to 90 minutes, between nothing and 80 % of the long window. */
function inSteps(manner: Manner, chance: Chance, length: number): number[] {
  const wishes: number[] = [];
  for (let at = 0; at < length; ) {
    const end = Math.min(length, at + chance.between(30, 90) * MINUTE);
    wishes.push(...withinStep(manner, chance, at, end, chance.between(0, HIGHEST) * CAP));
    at = end;
  }
  return wishes;
}

/** @param count requests in each long window */
function withinStep(manner: Manner, chance: Chance, from: number, to: number, count: number): number[] {
  if (manner === 'bursts') return regular(Math.ceil(from / WINDOW) * WINDOW, WINDOW, Math.round(count), to);
  return manner === 'paced' ? paced(from, to, count) : poisson(chance, from, to, count);
}

function paced(from: number, to: number, count: number): number[] {
  return spaced(from, to, count, (gap) => gap);
}

function poisson(chance: Chance, from: number, to: number, count: number): number[] {
  return spaced(from, to, count, chance.exponential);
}

function spaced(from: number, to: number, count: number, next: (gap: number) => number): number[] {
  const wishes: number[] = [];
  const gap = WINDOW / Math.max(count, 0.1);
  for (let at = from + next(gap); at < to; at += next(gap)) wishes.push(at);
  return wishes;
}

const OTHERS: Readonly<Record<(typeof HELD_OUT_MANNERS)[number], (chance: Chance, length: number) => number[]>> = {
  /** So many at once in each period, from morning to evening the same: a job on a schedule. */
  rhythm(chance, length) {
    const period = chance.between(4, 25) * MINUTE;
    return regular(chance.between(0, period), period, chance.whole(10, 60), length);
  },

  turns(chance, length) {
    const wishes: number[] = [];
    for (let at = 0; at < length; ) {
      const on = Math.min(length, at + chance.between(8, 40) * MINUTE);
      wishes.push(...paced(at, on, chance.between(0.2, HIGHEST) * CAP));
      at = on + chance.between(8, 40) * MINUTE;
    }
    return wishes;
  },

  /** A CI: jobs of some requests begin whenever somebody pushes. */
  jobs(chance, length) {
    const every = chance.between(3, 12) * MINUTE;
    const wishes: number[] = [];
    for (let at = chance.exponential(every); at < length; at += chance.exponential(every)) {
      const gap = chance.between(0.2, 4);
      for (let each = 0, count = chance.whole(3, 40); each < count; each++) wishes.push(at + each * gap);
    }
    return wishes.filter((at) => at < length).sort((left, right) => left - right);
  },

  /** People: more and less by the hour, and a lunch break. */
  office(chance, length) {
    const most = chance.between(0.3, HIGHEST) * CAP;
    const wishes: number[] = [];
    for (let hour = 0; hour * 60 * MINUTE < length; hour++) {
      const local = hour % 24;
      const part = local < 8 || local >= 18 ? 0.03 : local === 12 ? 0.3 : chance.between(0.5, 1);
      wishes.push(...poisson(chance, hour * 60 * MINUTE, Math.min(length, (hour + 1) * 60 * MINUTE), part * most));
    }
    return wishes;
  },
};

export function regular(first: number, period: number, count: number, length: number): number[] {
  const wishes: number[] = [];
  for (let at = first; at < length; at += period) for (let each = 0; each < count; each++) wishes.push(at);
  return wishes;
}

/** Seconds that a request takes. */
const D = 0.15;

export interface Wait {
  readonly wish: number;
  /** Seconds until it was let in, and how often it was refused before. */
  readonly wait: number;
  readonly refused: number;
}

/**
 * Another user of the workspace: one request at a time; refused, it waits as long as it is told and asks again.
 *
 * @param wishes when it wants to send, seconds, ascending
 */
export async function sendAll(
  wishes: readonly number[],
  { gate, clock, waits }: { readonly gate: Gate; readonly clock: TravellingClock; readonly waits: Wait[] },
): Promise<void> {
  const seconds = () => clock.elapsed() / 1_000;
  for (const wish of wishes) {
    await sleep(clock, Math.max(0, wish - seconds()) * 1_000);
    let refused = 0;
    for (;;) {
      const retryAfter = gate.arrive(seconds());
      if (retryAfter === undefined) break;
      refused++;
      await sleep(clock, retryAfter * 1_000);
    }
    waits.push({ wish, wait: Math.max(0, seconds() - wish), refused });
    await sleep(clock, D * 1_000);
  }
}

/** Returns NaN, which is no figure, without values. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
