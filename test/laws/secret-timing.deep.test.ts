import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { isSameSecret } from '../../src/platform/lib/digest.ts';

/** Does something so many times; what it answers or throws is of no interest. */
type Work = (times: number) => void | Promise<void>;

/** Relative difference of the times that two kinds of work take: less is alike, and what is certainly more is different. */
const BOUND = 0.1;
/** How certain: in deviations of a count of heads and tails. */
const SIGMAS = 5;
/** Microseconds of a round, at least. */
const LONG_ENOUGH = 400;
const FIRST_ROUNDS = 64;
/** On a busy machine the interval may lie on neither side for minutes: then the median of so many decides. */
const MOST_ROUNDS = 2_048;

/**
 * Whether two kinds of work take the same time: `alike`, or `different` where one certainly takes more than a tenth longer.
 *
 * Both are done by turns, and the time of the processor is compared within each round, so that other processes hardly count. The median
 * of the rounds is judged by an interval that takes nothing for granted about their distribution. Rounds are added until it lies
 * on one side, or are enough.
 */
async function compareTimes(one: Work, other: Work): Promise<'alike' | 'different'> {
  const times = await timesOfRound(one, other);
  const random = systemRandom();
  const differences: number[] = [];
  for (let rounds = FIRST_ROUNDS; ; rounds *= 2) {
    while (differences.length < rounds) differences.push(await differenceOf(one, other, times, random.float() < 0.5));
    const { low, middle, high } = medianOf(differences);
    if (low > -BOUND && high < BOUND) return 'alike';
    if (low > BOUND || high < -BOUND) return 'different';
    if (rounds >= MOST_ROUNDS) return Math.abs(middle) < BOUND ? 'alike' : 'different';
  }
}

/** How often in each round; both are warm then. */
async function timesOfRound(one: Work, other: Work): Promise<number> {
  for (let times = 1; ; times *= 2) {
    const taken = [await timeOf(one, times), await timeOf(other, times)];
    if (Math.max(...taken) >= LONG_ENOUGH) return times;
  }
}

/** -2 to 2. */
async function differenceOf(one: Work, other: Work, times: number, isOneFirst: boolean): Promise<number> {
  const before = isOneFirst ? await timeOf(one, times) : 0;
  const there = await timeOf(other, times);
  const here = isOneFirst ? before : await timeOf(one, times);
  return here + there === 0 ? 0 : (2 * (here - there)) / (here + there);
}

/** Microseconds of the processor, of all threads: the count of one alone goes on in steps of milliseconds. */
async function timeOf(work: Work, times: number): Promise<number> {
  const before = process.cpuUsage();
  await work(times);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The median, and an interval around it. */
function medianOf(values: readonly number[]): Readonly<Record<'low' | 'middle' | 'high', number>> {
  const sorted = values.toSorted((a, b) => a - b);
  const { length } = sorted;
  const reach = (SIGMAS * Math.sqrt(length)) / 2;
  const at = (index: number) => sorted[Math.min(length - 1, Math.max(0, index))] as number;
  const middle = length / 2;
  return { low: at(Math.floor(middle - reach)), middle: at(Math.floor(middle)), high: at(Math.ceil(middle + reach)) };
}

/**
 * Law: how long a refusal takes tells nothing of the secret. A secret is compared with guesses that are wrong at their first sign, wrong
 * at their last one, and too short, and all take the same time.
 *
 * Secrets are as long as no secret is, so that a comparison that ends at the first difference would show: the first test says that it
 * does. Of a digest, which is short, only `architecture.test.ts` would find it.
 */
const LENGTH = 1 << 18;
const SECRET = 'wsk_'.padEnd(LENGTH, 'k3y');

/** Guesses of an attacker who measures time; each is a new string, as from a request. */
function guessesAt(secret: string) {
  const end = secret.replace(/=+$/, '').length - 1;
  return {
    'wrong at the first sign': changed(secret, 0),
    'wrong at the last sign': changed(secret, end),
    'right, and cut by one sign': flat(secret.slice(0, -1)),
  };
}

/** Another sign, which hexadecimal and base64 have too: what a text must look like is public. */
function changed(text: string, at: number): string {
  return flat(text.slice(0, at) + (text[at] === 'a' ? 'b' : 'a') + text.slice(at + 1));
}

function flat(text: string): string {
  return Buffer.from(text).toString();
}

type Guess = keyof ReturnType<typeof guessesAt>;

/** All are compared with the first. */
const PAIRS: readonly (readonly [Guess, Guess])[] = [
  ['wrong at the first sign', 'wrong at the last sign'],
  ['wrong at the first sign', 'right, and cut by one sign'],
];
const repeated =
  (work: () => unknown): Work =>
  (times) => {
    for (let count = 0; count < times; count++) work();
  };

type Compare = (given: string, wanted: string) => boolean;

async function timesOf(compare: Compare, [one, other]: readonly [Guess, Guess]): Promise<string> {
  const guesses = guessesAt(SECRET);
  const wanted = flat(SECRET);
  const work = (guess: Guess) => repeated(() => compare(guesses[guess], wanted));
  return compareTimes(work(one), work(other));
}

const NAIVE: Readonly<Record<string, Compare>> = {
  'with ===': (given, wanted) => given === wanted,
  'as a beginning': (given, wanted) => given.startsWith(wanted),
  'sign by sign': (given, wanted) => {
    for (let at = 0; at < wanted.length; at++) if (given.charCodeAt(at) !== wanted.charCodeAt(at)) return false;
    return given.length === wanted.length;
  },
};

describe('a guess', () => {
  it.each(Object.entries(NAIVE))('is seen to be nearly right where it is compared %s [A2]', async (_, compare) => {
    expect(await timesOf(compare, PAIRS[0]!)).toBe('different');
  });

  it.each(PAIRS)('that is %s takes as long as one that is %s [A2]', async (one, other) => {
    expect(await timesOf(isSameSecret, [one, other])).toBe('alike');
  });
});
