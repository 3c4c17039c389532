import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeliveryOrigin } from '../../src/model/delivery.ts';
import type { PullRequest, Review } from '../../src/model/item.ts';
import type { StoredItem } from '../../src/store/items/items.ts';
import { clampTime, mergeNewest } from '../../src/sync/reconcile/newest-wins.ts';
import { holds } from '../support/harness/depth.ts';
import { bare, PULL_IDENTITY } from '../support/rows/items.ts';

const FIELDS = ['title', 'description', 'state', 'draft', 'labels', 'headBranch'] as const;
type Content = Pick<PullRequest, (typeof FIELDS)[number]>;

const content: fc.Arbitrary<Content> = fc.record({
  title: fc.constantFrom('a', 'b', 'c'),
  description: fc.constantFrom('x', '', null),
  state: fc.constantFrom('open', 'closed', 'merged'),
  draft: fc.boolean(),
  labels: fc.constantFrom([], ['p'], ['p', 'q']),
  headBranch: fc.constantFrom('feature', 'other'),
});

interface Said {
  readonly at: number;
  readonly version?: number;
  readonly whole: Content;
  readonly carried: Partial<Content>;
}

const carriedOf = (whole: Content, fields: readonly (keyof Content)[]): Partial<Content> =>
  Object.fromEntries(fields.map((field) => [field, whole[field]]));

/** States of one item at these times of the provider, and what one delivery of each carries. Merged is final. */
function historyOf(times: fc.Arbitrary<Pick<Said, 'at' | 'version'>[]>): fc.Arbitrary<Said[]> {
  const delivery = fc.tuple(content, fc.subarray([...FIELDS]));
  return fc.tuple(times, fc.array(delivery, { minLength: 12, maxLength: 12 })).map(([stamps, contents]) =>
    stamps.map((stamp, index) => {
      const [drawnWhole, fields] = contents[index] as [Content, (keyof Content)[]];
      const isMerged = contents.slice(0, index).some(([{ state }]) => state === 'merged');
      const whole: Content = isMerged ? { ...drawnWhole, state: 'merged' } : drawnWhole;
      return { ...stamp, whole, carried: carriedOf(whole, fields) };
    }),
  );
}

const byAge = (left: Pick<Said, 'at' | 'version'>, right: Pick<Said, 'at' | 'version'>) =>
  left.at - right.at || (left.version ?? 0) - (right.version ?? 0);

const increasing = fc
  .uniqueArray(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 8 })
  .map((times) => times.toSorted((a, b) => a - b).map((at) => ({ at })));

/** Times are shared; the version tells them apart. */
const versioned = fc
  .uniqueArray(fc.record({ at: fc.integer({ min: 1, max: 3 }), version: fc.integer({ min: 1, max: 9 }) }), {
    minLength: 1,
    maxLength: 8,
    selector: ({ at, version }) => `${at} ${version}`,
  })
  .map((stamps) => stamps.toSorted(byAge));

/** Any order, any repetition, every one at least once. */
function courseOf(history: fc.Arbitrary<Said[]>): fc.Arbitrary<{ history: Said[]; course: Said[] }> {
  return history.chain((states) => {
    const all = [...states, ...states, ...states];
    const course = fc
      .tuple(
        fc.shuffledSubarray(states, { minLength: states.length }),
        fc.shuffledSubarray(all, { maxLength: all.length }),
      )
      .chain(([once, again]) => fc.shuffledSubarray([...once, ...again], { minLength: once.length + again.length }));
    return course.map((deliveries) => ({ history: states, course: deliveries }));
  });
}

const toItem = ({ at, version, carried }: Said) =>
  bare(at, { ...(version === undefined ? {} : { version }), ...carried });

function contentOf(held: StoredItem | undefined): Partial<Content> {
  const item = held?.item as Partial<PullRequest> | undefined;
  const present = FIELDS.filter((field) => item?.[field] !== undefined);
  return Object.fromEntries(present.map((field) => [field, item?.[field]]));
}

/** Each field as the newest delivery that carries it says. */
function newestOf(history: readonly Said[]): Partial<Content> {
  return Object.assign({}, ...history.toSorted(byAge).map(({ carried }) => carried));
}

/** One item as it is stored, and how often it was to be fetched. */
class Holding {
  held: StoredItem | undefined;
  doubts = 0;

  take(item: PullRequest, source: DeliveryOrigin = 'webhook') {
    const judgement = mergeNewest(this.held, item, source);
    if (judgement.needsFetch) this.doubts++;
    if (judgement.outcome === 'applied') this.held = judgement.stored;
    return judgement;
  }

  get content(): Partial<Content> {
    return contentOf(this.held);
  }
}

function holdingOf(course: readonly Said[]): Holding {
  const holding = new Holding();
  for (const said of course) holding.take(toItem(said));
  return holding;
}

describe.each([
  ['times that increase', increasing],
  ['times that are shared, with versions that increase', versioned],
] as const)('%s', (_, times) => {
  it('any order and any repetition end in the newest value of each field', () => {
    holds(courseOf(historyOf(times)), 1_500, ({ history, course }) => {
      const { content, held, doubts } = holdingOf(course);
      expect(doubts).toBe(0);
      expect(content).toEqual(newestOf(history));
      expect(held?.item).toMatchObject(PULL_IDENTITY);
      expect(held?.item.updatedAt).toBe(Math.max(...history.map(({ at }) => at)));
    });
  });

  it('at every moment each field is the newest value delivered so far: nothing moves backwards', () => {
    holds(courseOf(historyOf(times)), 700, ({ course }) => {
      const holding = new Holding();
      course.forEach((said, index) => {
        holding.take(toItem(said));
        expect(holding.content).toEqual(newestOf(course.slice(0, index + 1)));
      });
    });
  });

  it('what changes nothing says so, and what says so changes nothing', () => {
    holds(courseOf(historyOf(times)), 700, ({ course }) => {
      const holding = new Holding();
      for (const said of [...course, ...course]) {
        const before = holding.held;
        const { outcome } = holding.take(toItem(said));
        expect(isDeepStrictEqual(holding.held, before)).toBe(outcome !== 'applied');
        expect(holding.take(toItem(said)).outcome).not.toBe('applied');
      }
    });
  });
});

describe('times that cannot be ordered', () => {
  /** At least two states share a time, as where a provider counts in seconds. */
  const shared = fc
    .array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 8 })
    .map((times) => times.toSorted((a, b) => a - b).map((at) => ({ at })));

  interface Step {
    readonly said: Said;
    /** How many of the fetches that are asked for are answered before this delivery comes. */
    readonly answers: number;
  }

  const steps = courseOf(historyOf(shared)).chain(({ history, course }) =>
    fc.array(fc.integer({ min: 0, max: 2 }), { minLength: course.length, maxLength: course.length }).map((answers) => ({
      history,
      course: course.map((said, index): Step => ({ said, answers: answers[index] as number })),
    })),
  );

  it('where each doubt is followed by a fetch, the end is what the provider holds', () => {
    holds(steps, 3_000, ({ history, course }) => {
      const last = history.at(-1) as Said;
      const final = bare(last.at, last.whole);
      const holding = new Holding();
      const fetch = (answers: number) => {
        holding.take(final, 'fetch');
        holding.doubts = Math.max(0, holding.doubts - answers);
      };
      for (const { said, answers } of course) {
        while (holding.doubts > 0 && answers > 0) fetch(answers);
        holding.take(toItem(said));
      }
      const openDoubt = holding.doubts > 0;
      while (holding.doubts > 0) fetch(1);
      const wrong = openDoubt ? valuesOtherThan : valuesNeverSaid;
      expect(wrong(holding.content, last.whole, history)).toEqual([]);
    });
  });

  function valuesOtherThan(held: Partial<Content>, whole: Content): (keyof Content)[] {
    return FIELDS.filter((field) => !isDeepStrictEqual(held[field], whole[field]));
  }

  /** Without an open doubt at the end: fields that hold what neither a fetch nor a newest delivery said. */
  function valuesNeverSaid(held: Partial<Content>, whole: Content, history: readonly Said[]): string[] {
    return valuesOtherThan(held, whole).filter((field) => {
      const carrying = history.filter(({ carried }) => field in carried);
      const newest = Math.max(...carrying.map(({ at }) => at));
      const said = carrying.filter(({ at }) => at === newest).map(({ carried }) => carried[field]);
      return carrying.length > 0 && !said.some((each) => isDeepStrictEqual(each, held[field]));
    });
  }

  it('a final state that is fetched after all else is the end state', () => {
    holds(courseOf(historyOf(shared)), 1_000, ({ history, course }) => {
      const last = history.at(-1) as Said;
      const holding = holdingOf(course);
      holding.take(bare(last.at, last.whole), 'fetch');
      expect(holding.content).toEqual(last.whole);
    });
  });

  it('two contents of one time never pass without a doubt', () => {
    holds(courseOf(historyOf(shared)), 1_000, ({ course }) => {
      const { doubts } = holdingOf(course);
      const contradicts = FIELDS.some((field) => {
        const carrying = course.filter(({ carried }) => field in carried);
        const newest = Math.max(...carrying.map(({ at }) => at));
        const values = carrying.filter(({ at }) => at === newest).map(({ carried }) => JSON.stringify(carried[field]));
        // A merge settles the state of its time, because no vendor reverts it.
        return new Set(values).size > 1 && !(field === 'state' && values.includes('"merged"'));
      });
      expect(contradicts).toBe(contradicts && doubts > 0);
    });
  });

  it('finished is never taken back by anything that is not newer and was not fetched', () => {
    holds(courseOf(historyOf(shared)), 1_000, ({ course }) => {
      const holding = new Holding();
      for (const said of course) {
        const before = holding.held;
        holding.take(toItem(said));
        const was = before?.item.state;
        const takenBack = was !== undefined && was !== 'open' && holding.held?.item.state === 'open';
        const since = (before?.older['state'] ?? before?.item)?.updatedAt ?? 0;
        expect(takenBack).toBe(takenBack && said.at > since);
      }
    });
  });
});

describe('without fetches', () => {
  const NOW = Date.UTC(2026, 2, 5);
  const FUTURE = Date.UTC(2199, 0, 1);
  /** Few times, so that many states share one. Some are in the future. */
  const times = fc
    .array(fc.constantFrom(NOW - 3, NOW - 2, NOW - 1, FUTURE, FUTURE + 1), { minLength: 1, maxLength: 8 })
    .map((all) => all.map((at) => ({ at })));
  const isPlausible = ({ at }: Said) => at <= NOW;

  function stored(course: readonly Said[]): Partial<Content> {
    let held: StoredItem | undefined;
    for (const [index, said] of course.entries()) {
      const result = mergeNewest(held, clampTime(toItem(said), NOW + index, held?.item), 'webhook');
      if (result.outcome === 'applied') held = result.stored;
    }
    return contentOf(held);
  }

  /** The deliveries of the newest plausible time in the order of their arrival, or all if no time is plausible. */
  function newest(deliveries: readonly Said[]): readonly Said[] {
    const plausible = deliveries.filter(isPlausible);
    const latest = Math.max(...plausible.map(({ at }) => at));
    return plausible.length === 0 ? deliveries : plausible.filter(({ at }) => at === latest);
  }

  const withoutState = (said: Said): Said => {
    const { state: _, ...carried } = said.carried;
    return { ...said, carried };
  };

  it('each field ends as the last arrival of its newest time says, and a time in the future never wins', () => {
    holds(courseOf(historyOf(times)), 2_000, ({ course }) => {
      const deliveries = course.map(withoutState);
      const expected = FIELDS.flatMap((field) => {
        const carrying = newest(deliveries.filter(({ carried }) => field in carried));
        return carrying.length === 0 ? [] : [[field, carrying.at(-1)?.carried[field]] as const];
      });
      expect(stored(deliveries)).toEqual(Object.fromEntries(expected));
    });
  });

  it('a merged state always wins, and a closed one wins over an open one of its time', () => {
    holds(courseOf(historyOf(times)), 2_000, ({ course }) => {
      const carrying = course.filter(({ carried }) => carried.state !== undefined);
      const states = newest(carrying).map(({ carried }) => carried.state);
      const isMerged = carrying.some(({ carried }) => carried.state === 'merged');
      const expected = isMerged ? 'merged' : states.includes('closed') ? 'closed' : states.at(-1);
      expect(stored(course).state).toBe(expected);
    });
  });
});

describe('reviews', () => {
  /** A delivery of one review. `dismissed` is later than all, then the time of the review, then that of the item. */
  interface Reviewed {
    readonly at: number;
    readonly version: number;
    readonly id: string;
    readonly review: Review;
  }

  const reviewed: fc.Arbitrary<Reviewed> = fc.record({
    at: fc.integer({ min: 1, max: 4 }),
    version: fc.integer({ min: 1, max: 3 }),
    id: fc.constantFrom('7', '8', '9'),
    review: fc.record(
      {
        reviewer: fc.constantFrom('ben', 'cho'),
        state: fc.constantFrom('approved', 'changes', 'commented', 'dismissed'),
        at: fc.constantFrom('2026-03-02T08:00:00Z', '2026-03-02T08:00:00.500Z', '2026-03-02T09:00:00Z'),
      },
      { noNullPrototype: true },
    ),
  });

  const merged = (deliveries: readonly Reviewed[], before?: StoredItem): StoredItem => {
    let stored = before;
    for (const { at, version, id, review } of deliveries) {
      const result = mergeNewest(
        stored,
        bare(at, { version, title: `${at}.${version}`, reviews: { [id]: review } }),
        'webhook',
      );
      expect(result.needsFetch).toBe(false);
      if (result.outcome === 'applied') stored = result.stored;
    }
    return stored as StoredItem;
  };
  const reviewsOf = ({ item }: StoredItem) => (item as PullRequest).reviews ?? {};

  it('end in the latest state of each review, in any order, with any repetition', () => {
    const course = fc
      .array(reviewed, { minLength: 1, maxLength: 12 })
      .chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray([...all, ...all], { minLength: all.length * 2 })));
    holds(course, 1_500, ([all, shuffled]) => {
      const stored = merged(shuffled);
      expect(stored).toEqual(merged(all));
      expect(merged(all, stored)).toEqual(stored);
      const reviews = reviewsOf(stored);
      expect(Object.keys(reviews).toSorted()).toEqual([...new Set(all.map(({ id }) => id))].toSorted());
      for (const [id, { state, at }] of Object.entries(reviews)) {
        const own = all.filter((each) => each.id === id);
        const dismissed = own.filter(({ review }) => review.state === 'dismissed');
        const counted = dismissed.length > 0 ? dismissed : own;
        const newest = Math.max(...counted.map(({ review }) => Date.parse(review.at)));
        expect(Date.parse(at)).toBe(newest);
        const latest = counted.filter(({ review }) => Date.parse(review.at) === newest).toSorted(byAge);
        const last = latest.filter((each) => byAge(each, latest.at(-1) as Reviewed) === 0);
        expect(last.map(({ review }) => review.state)).toContain(state);
      }
    });
  });
});
