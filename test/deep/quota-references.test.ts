import { describe, expect, test } from 'vitest';
import { REPORT, TUNING } from '../bench/quota/days.ts';
import { available } from '../bench/quota/references/available.ts';
import { drawBehaviour, HELD_OUT } from '../bench/quota/references/behaviour.ts';
import { leastQuantile, mostWithin } from '../bench/quota/references/bound.ts';
import { createChance, randomDurations } from '../bench/quota/references/chance.ts';
import { HELD_OUT_MANNERS, MANNERS, wishesOf } from '../bench/quota/references/co-tenant.ts';
import { generateDay } from '../bench/quota/references/day.ts';
import { freshness } from '../bench/quota/references/lag.ts';
import { lookAhead } from '../bench/quota/references/look-ahead.ts';
import { optimum, ruleOfCompletion } from '../bench/quota/references/optimum.ts';
import { type Event, eventsOf } from '../bench/quota/references/trace.ts';
import { fewestWrites } from '../bench/quota/references/visibility.ts';
import { createGate, fullest, type Window } from '../bench/quota/references/windows.ts';

/** What the benches measure against is checked here against exhaustive search, on every small instance. */

/** All sequences of `length` symbols out of `symbols`. */
function* sequences<Symbol>(symbols: readonly Symbol[], length: number): Generator<Symbol[]> {
  if (length === 0) yield [];
  else for (const rest of sequences(symbols, length - 1)) for (const symbol of symbols) yield [symbol, ...rest];
}

function keeps(windows: readonly Window[], times: readonly number[]): boolean {
  return windows.every(({ cap, length }) => fullest(times, length) <= cap);
}

describe('the optimum of a drain', () => {
  /** The earliest whole second at which the last of `count` can start: every ascending schedule is tried. */
  function searched(count: number, windows: readonly Window[], times: readonly number[] = [], best = 60): number {
    if (times.length === count) return Math.min(best, times.at(-1) as number);
    let found = best;
    for (let at = times.at(-1) ?? 0; at < found; at++) {
      const next = [...times, at];
      if (keeps(windows, next)) found = searched(count, windows, next, found);
    }
    return found;
  }

  test.each(
    [1, 2, 3, 4, 5, 6, 7].flatMap((count) =>
      [
        [2, 1],
        [3, 1],
        [4, 2],
        [4, 3],
        [5, 2],
      ].map(([long, short]) => ({ count, long, short })),
    ),
  )('of $count, with $long in 8 s and $short in 2 s, is what trying all schedules finds', ({ count, long, short }) => {
    const windows = [
      { cap: long as number, length: 8 },
      { cap: short as number, length: 2 },
    ] as const;
    expect(optimum(count, [...windows])).toBe(searched(count, windows));
  });

  test('is that of the study for the workspace', () => {
    expect([40, 41, 200, 1_000, 1_001, 1_100, 1_120].map((count) => optimum(count))).toEqual([
      0, 60, 240, 3_840, 4_500, 4_620, 4_620,
    ]);
    const guards = [0, 0] as const;
    expect(ruleOfCompletion(200, { concurrency: 1, d: 0.15, guards })).toBeCloseTo(1.0269 * 240.15, 1);
    expect(ruleOfCompletion(1_000, { concurrency: 8, d: 0.15, guards })).toBeCloseTo(1.0005 * 3840.15, 0);
  });
});

describe('the windows', () => {
  test('the gate lets in exactly what the definition allows, and says when it opens', () => {
    const windows = [
      { cap: 3, length: 6 },
      { cap: 2, length: 2 },
    ];
    for (const gaps of sequences([0, 1, 2, 3], 7)) {
      const gate = createGate(windows);
      let now = 0;
      for (const gap of gaps) {
        now += gap;
        const fits = keeps(windows, [...gate.accepted, now]);
        const opens = gate.opensAt(now);
        expect(opens === now).toBe(fits);
        expect(fits || !keeps(windows, [...gate.accepted, opens - 0.001])).toBe(true);
        expect(gate.arrive(now)).toBe(fits ? undefined : opens - now);
      }
    }
  });
});

describe('fewest writes for a promised visibility', () => {
  /** Whether writing at exactly these events leaves no stale run longer than `longest`. */
  function isVisible(events: readonly Event[], written: readonly boolean[], longest: number): boolean {
    let known: string | undefined;
    let staleSince: number | undefined;
    for (const [index, { at, state }] of events.entries()) {
      if (staleSince !== undefined && at - staleSince > longest) return false;
      if (written[index]) known = state;
      staleSince = state === known ? undefined : (staleSince ?? at);
    }
    return staleSince === undefined;
  }

  function searched(events: readonly Event[], longest: number): number {
    const counts = [...sequences([false, true], events.length)]
      .filter((written) => isVisible(events, written, longest))
      .map((written) => written.filter(Boolean).length);
    return Math.min(...counts);
  }

  /** Lengths, states and gaps of which all sequences are tried; from 5 changes on, one pattern of gaps. */
  const instances: readonly (readonly [length: number, states: string, gaps: readonly number[]])[] = [
    ...[1, 2, 3, 4, 5].map((length) => [length, 'abc', [1, 3]] as const),
    [6, 'ab', [1, 3]],
    [7, 'ab', [2]],
  ];

  test.each(instances)(
    'equals the best of all choices, for every sequence of %d changes of %s',
    (length, symbols, gaps) => {
      const steps = length <= 4 ? [...sequences(gaps, length)] : [pattern(gaps, length)];
      for (const states of sequences(symbols.split(''), length)) {
        for (const each of steps) {
          const events = eventsWith(states, each);
          for (const longest of [0, 2, 4]) expect(fewestWrites(events, longest)).toBe(searched(events, longest));
        }
      }
    },
  );

  function eventsWith(states: readonly string[], gaps: readonly number[]): Event[] {
    let at = 0;
    return states.map((state, index) => {
      at += gaps[index] as number;
      return { at, item: 'one', state, finished: false };
    });
  }

  /** Fixed but uneven gaps, where all combinations would be too many. */
  function pattern(gaps: readonly number[], length: number): number[] {
    return Array.from({ length }, (_, index) => gaps[(index * index + 1) % gaps.length] as number);
  }

  test('adds up over items, and falls as the promise gets weaker', () => {
    const events = eventsOf(generateDay(1, 0.1).lines);
    const counts = [0, 5, 10, 60, 300, 900].map((longest) => fewestWrites(events, longest));
    expect(counts).toEqual(counts.toSorted((left, right) => right - left));
    expect(counts.at(-1)).toBeGreaterThanOrEqual(new Set(events.map(({ item }) => item)).size);
  });
});

describe('lags', () => {
  test('an event waits for the first write that starts after it, or until its difference is gone', () => {
    const event = (at: number, state: string): Event => ({ at, item: 'one', state, finished: false });
    const events = [event(0, 'a'), event(10, 'b'), event(12, 'a'), event(20, 'c'), event(21, 'd')];
    const writes = [
      { item: 'one', start: 1, end: 2 },
      { item: 'one', start: 20.5, end: 22 },
      { item: 'one', start: 30, end: 31 },
    ];
    const { lags, staleHours } = freshness(events, writes, 100);
    expect(lags).toEqual([0, 2, 2, 2, 10]);
    expect(staleHours * 3_600).toBeCloseTo(2 + 2 + 11, 9);
  });

  test('what is never written counts to the end', () => {
    expect(freshness([{ at: 5, item: 'one', state: 'a', finished: false }], [], 20)).toEqual({
      lags: [15],
      staleHours: 15 / 3_600,
    });
  });
});

describe('the schedule that knows the next seconds', () => {
  const windows = [
    { cap: 2, length: 10 },
    { cap: 1, length: 2 },
  ];

  test('never exceeds a window, writes the last state of everything, and never while it knows of more', () => {
    const chance = createChance(3);
    for (let round = 0; round < 300; round++) {
      const events = Array.from({ length: 7 }, () => ({
        at: chance.whole(0, 20),
        item: `item-${chance.whole(1, 3)}`,
        state: `state-${chance.whole(1, 3)}`,
        finished: false,
      })).sort((left, right) => left.at - right.at);
      const writes = lookAhead(events, { knows: 3, windows });
      const starts = writes.map(({ start }) => start);
      expect(keeps(windows, starts)).toBe(true);
      for (const { item, start } of writes) {
        expect(events.some((event) => event.item === item && event.at > start && event.at <= start + 3)).toBe(false);
      }
      const { lags } = freshness(events, writes, 1_000);
      expect(Math.max(...lags)).toBeLessThan(200);
    }
  });

  test('knowing nothing, it works as greedily as the windows allow', () => {
    const events = ['a', 'b', 'c'].map((item) => ({ at: 0, item, state: 'x', finished: false }));
    expect(lookAhead(events, { knows: 0, windows }).map(({ start }) => start)).toEqual([0, 2, 10]);
  });
});

describe('what another user leaves', () => {
  const windows = [
    { cap: 3, length: 4 },
    { cap: 2, length: 2 },
  ];

  /** Most requests of ours, by trying every number in every second. */
  function searched(others: readonly number[], length: number): number {
    const isFree = (ours: readonly number[]) =>
      windows.every(({ cap, length: reach }) =>
        Array.from({ length }, (_, from) => from).every((from) => {
          const within = (second: number) => second >= from && second < from + reach;
          const own = ours.reduce((sum, count, second) => sum + (within(second) ? count : 0), 0);
          return own === 0 || own + others.filter((at) => within(Math.floor(at))).length <= cap;
        }),
      );
    let best = 0;
    for (const ours of sequences([0, 1, 2], length)) {
      if (isFree(ours))
        best = Math.max(
          best,
          ours.reduce((sum, count) => sum + count, 0),
        );
    }
    return best;
  }

  test('equals the best of all choices, for every use of 7 seconds', () => {
    for (const counts of sequences([0, 1], 7)) {
      const others = counts.flatMap((count, second) => Array.from({ length: count }, () => second + 0.5));
      expect(available(others, 7, windows)).toBe(searched(others, 7));
    }
  });

  test('alone, it is what the windows allow', () => {
    expect(available([], 3_600)).toBe(800);
  });
});

describe('the generated day', () => {
  test('is the same for the same seed, and another for another', () => {
    expect(generateDay(1, 0.2)).toEqual(generateDay(1, 0.2));
    expect(generateDay(1, 0.2)).not.toEqual(generateDay(2, 0.2));
  });

  test.each([0.7, 1.2, 3])('at a load of %d has that many events in working hours, in order', (load) => {
    const { lines, length } = generateDay(1, load);
    const events = eventsOf(lines);
    const inWork = events.filter(({ at }) => at >= 8 * 3_600 && at < 18 * 3_600).length;
    expect(inWork / 8_000).toBeGreaterThanOrEqual(load);
    expect(inWork / 8_000).toBeLessThan(load + 0.02);
    expect(lines.every((line, index) => line.at < length && line.at >= (lines[index - 1]?.at ?? 0))).toBe(true);
    // Every one of its items ends as its last webhook said: replays and polls bring nothing new.
    const webhooks = lines.filter(({ event }) => event !== 'replay' && event !== 'poll');
    expect(eventsOf(webhooks)).toEqual(events);
    expect(lines.length / events.length).toBeGreaterThan(1.5);
  });

  test.each(Object.entries(HELD_OUT))(
    'of %s is another day than the usual one, at the same load',
    (_name, behaviour) => {
      const { lines } = generateDay(1, 0.2, behaviour);
      const inWork = eventsOf(lines).filter(({ at }) => at >= 8 * 3_600 && at < 18 * 3_600).length;
      expect(Math.abs(inWork / 8_000 - 0.2)).toBeLessThan(0.02);
      expect(lines).not.toEqual(generateDay(1, 0.2).lines);
    },
  );

  test('with releases labels many at once, and without machines none', () => {
    const labelled = (behaviour?: (typeof HELD_OUT)[keyof typeof HELD_OUT]) =>
      generateDay(1, 0.7, behaviour).lines.filter(
        ({ event, fields }) => event === 'labeled' && fields.labels.includes('released'),
      );
    const moments = labelled(HELD_OUT.releases).map(({ at }) => at);
    expect(fullest(moments, 15)).toBeGreaterThan(40);
    expect(labelled(HELD_OUT.people)).toEqual([]);
    const { lines } = generateDay(1, 0.2, HELD_OUT.monorepo);
    expect(new Set(lines.map(({ item }) => item.split('/')[0]))).toEqual(new Set(['0']));
  });

  test('durations are about what they should be', () => {
    const duration = randomDurations(1);
    const drawn = Array.from({ length: 10_000 }, duration).sort((left, right) => left - right);
    expect(drawn[5_000]).toBeCloseTo(0.15, 1);
    expect(drawn.filter((each) => each === 10).length).toBeGreaterThan(5);
  });
});

describe('the bound of what can be shown in time', () => {
  const WINDOW: Window = { cap: 2, length: 6 };
  const SECONDS = 16;

  /** Most events with a lag of at most `longest`, over every schedule in whole seconds that keeps the window. */
  function searched(events: readonly Event[], longest: number): number {
    const items = [...new Set(events.map(({ item }) => item))];
    const choices = [[], ...items.map((item) => [item]), items];
    const writes: { item: string; start: number; end: number }[] = [];
    let best = 0;
    const from = (second: number) => {
      if (second > SECONDS) {
        const { lags } = freshness(events, writes, 1_000);
        best = Math.max(best, lags.filter((lag) => lag <= longest).length);
        return;
      }
      for (const choice of choices) {
        const recent = writes.filter(({ start }) => second - start < WINDOW.length).length;
        if (choice.length > 0 && recent + choice.length > WINDOW.cap) continue;
        for (const item of choice) writes.push({ item, start: second, end: second });
        from(second + 1);
        writes.length -= choice.length;
      }
    };
    from(0);
    return best;
  }

  test.each([1, 2, 3, 4, 5, 6, 7, 8])('is never below what an exhaustive search finds, and near it (%d)', (seed) => {
    const chance = createChance(seed);
    const events = Array.from({ length: 7 }, () => ({
      ...{ at: chance.whole(0, 10), item: chance.happens(0.5) ? 'a' : 'b', finished: false },
      state: String(chance.whole(1, 5)),
    })).sort((left, right) => left.at - right.at);
    for (const longest of [0, 1, 3, 5]) {
      const bound = mostWithin(events, longest, { d: 0, window: WINDOW });
      const most = searched(events, longest);
      expect(bound).toBeGreaterThanOrEqual(most - 1e-9);
      // Changes back are given for nothing, and a window binds only where one is laid.
      expect(bound).toBeLessThanOrEqual(most + 3);
    }
  });

  test('binds: where three items change at once and two may be written, a third of the events is late', () => {
    const events = ['a', 'b', 'c'].map((item) => ({ at: 0, item, state: '1', finished: false }));
    expect(mostWithin(events, 1, { d: 0, window: WINDOW, steps: 2_000 })).toBeLessThan(2.1);
    expect(leastQuantile(events, 1, { d: 0, window: WINDOW, steps: 500 })).toBeGreaterThan(4);
    expect(leastQuantile(events, 0.5, { d: 0, window: WINDOW, steps: 500 })).toBe(0);
  });
});

describe('what is reported', () => {
  test('is nothing that policies were tuned on', () => {
    const both = new Set([...TUNING.seeds, ...REPORT.seeds]);
    expect(both.size).toBe(TUNING.seeds.length + REPORT.seeds.length);
    for (const { seeds, behaviours } of [TUNING, REPORT]) {
      expect(seeds).toHaveLength(5);
      expect(behaviours).toHaveLength(seeds.length);
    }
    const behaviours = [...TUNING.behaviours, ...REPORT.behaviours].map((each) => JSON.stringify(each));
    expect(new Set(behaviours).size).toBe(behaviours.length);
    expect(drawBehaviour(7)).toEqual(drawBehaviour(7));
  });

  test.each([...MANNERS, ...HELD_OUT_MANNERS])(
    'another user, %s, wants something else with every seed, in order',
    (manner) => {
      const wishes = wishesOf(manner, 1, 86_400);
      expect(wishes.length).toBeGreaterThan(500);
      expect(wishes).toEqual(wishes.toSorted((left, right) => left - right));
      expect(wishes.at(-1)).toBeLessThan(86_400);
      expect(wishesOf(manner, 1, 86_400)).toEqual(wishes);
      expect(wishesOf(manner, 2, 86_400)).not.toEqual(wishes);
    },
  );
});
