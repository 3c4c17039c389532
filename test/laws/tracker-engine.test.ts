import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Connection, Connector } from '../../src/connectors/connector.ts';
import type { Order } from '../../src/connectors/kit/walk.ts';
import { asSyncError } from '../../src/model/errors.ts';
import type { Item, ItemKey } from '../../src/model/item.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import type { PollState } from '../../src/store/connections/unit-states.ts';
import { afterPage, positionOf, walkOf } from '../../src/sync/intake/polls.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { drawn, holdsAsync } from '../support/harness/depth.ts';
import {
  type ModelOptions,
  ModelTracker,
  modelConnector,
  modelGitConnector,
} from '../support/vendors/model-tracker.ts';

/**
 * The engines of trackers and of git providers over a vendor in memory, with the positions that intake stores. Whatever happens while
 * pages are read, and wherever a walk ends early: an item that was open at the first walk, or has changed since, is known in its last
 * state; a deleted item is known as gone; a hidden item is never called gone; and a moved item is forgotten once it is outside the scope.
 */

const { signal } = new AbortController();
const UNIT = '1';
const HOUR = 3_600_000;
const OPTIONS: ModelOptions = { projects: [UNIT], commits: false };

type Step =
  | { do: 'write'; id: number; done: boolean; lag: number }
  | { do: 'move'; id: number; lag: number }
  | { do: 'delete'; id: number }
  | { do: 'rename' }
  | { do: 'hide' }
  | { do: 'wait'; ms: number }
  /** One page; its position is lost with the process where it `breaks`. */
  | { do: 'poll'; breaks: boolean };

const id = fc.integer({ min: 1, max: 9 });
const lag = fc.constantFrom(0, 0, 2_000, 9 * 60_000);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('write' as const), id, done: fc.boolean(), lag }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('move' as const), id, lag }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), id }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rename' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('hide' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(400, 1_500, 60_000, 480_000, 900_000),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('poll' as const), breaks: fc.boolean() }) },
);

class World {
  readonly model = new ModelTracker();
  readonly held = new Map<ItemKey, Item>();
  private state: PollState = {};
  private readonly connector: Connector<ModelOptions>;
  private readonly connection: Connection;

  private readonly isConditional: boolean;

  constructor({ engine, order, isConditional = false }: Vendor) {
    this.isConditional = isConditional;
    this.connector =
      engine === 'git' ? modelGitConnector(this.model, order, isConditional) : modelConnector(this.model, order);
    const http = { request: () => Promise.reject(new Error('no request')), close: async () => {} };
    const clock = { ...createTravellingClock(), now: () => this.model.now };
    this.connection = this.connector.connect(OPTIONS, { http, clock, logger: silentLogger });
  }

  /** One page. Resolves with whether the walk ended, or could not be read. */
  async poll(breaks = false): Promise<boolean> {
    const walk = walkOf(this.state, this.model.now);
    try {
      const page = await this.connection.poll(positionOf(UNIT, this.state, walk), signal);
      if (page.outcome !== 'page') return true;
      this.take(page.event, page.body);
      if (!breaks) this.state = afterPage(this.state, walk, page, '', this.model.now);
      return page.next === undefined;
    } catch (thrown) {
      if (asSyncError(thrown).code !== 'not_found') throw thrown;
      return true;
    }
  }

  /** Fetches what is held and was not listed, as sweeps do. */
  async sweep(): Promise<void> {
    const keys = new Set<ItemKey>();
    for (let page: string | undefined; ; ) {
      const swept = await this.connection.sweep?.(UNIT, page, signal);
      for (const key of swept?.keys ?? []) keys.add(key);
      page = swept?.next;
      if (page === undefined) break;
    }
    for (const item of this.held.values()) if (!item.gone && !keys.has(item.key)) await this.fetch(item);
  }

  async fetch(item: Item): Promise<void> {
    const { event, body } = await this.connection.fetch(this.connector.reference(item), signal);
    this.take(event, body);
  }

  private take(event: string, body: Buffer): void {
    const translation = this.connector.translate({ source: 'poll', event, body }, OPTIONS);
    if (translation.outcome === 'ignored' && translation.outside) {
      this.held.delete(translation.outside.key);
      return;
    }
    if (translation.outcome !== 'items') throw new Error(translation.outcome);
    for (const item of translation.items) {
      const known = this.held.get(item.key);
      if (!known || item.updatedAt >= known.updatedAt) this.held.set(item.key, item);
    }
  }

  async run(given: Step): Promise<void> {
    const { model } = this;
    const lag = 'lag' in given && !this.isConditional ? given.lag : 0;
    if (given.do === 'write') model.write(given.id, { done: given.done, title: String(model.now) }, lag);
    else if (given.do === 'move') model.write(given.id, { project: 2 }, lag);
    else if (given.do === 'delete' && model.item(given.id)) model.write(given.id, { isGone: true }, 0);
    else if (given.do === 'rename') model.names.set(1, `one-${model.now}`);
    else if (given.do === 'hide') model.turn(1);
    else if (given.do === 'wait') model.now += given.ms;
    else if (given.do === 'poll') await this.poll(given.breaks);
  }

  at(id: number): Item | undefined {
    return [...this.held.values()].find((item) => idOf(item) === String(id));
  }

  /** Until two walks have ended at rest, and everything is listed. */
  async rest(): Promise<void> {
    this.model.hidden.clear();
    this.model.now += HOUR;
    for (let ended = 0; ended < 2; ) {
      this.model.now += 1_000;
      if (await this.poll()) ended++;
    }
  }
}

interface Vendor {
  readonly engine: 'tracker' | 'git';
  readonly order: Order;
  /** Tells that a first page is as it was. Its lists lag behind nothing then: a change that comes late stays unseen. */
  readonly isConditional?: boolean;
}

const vendors: readonly Vendor[] = [
  { engine: 'tracker', order: 'since' },
  { engine: 'tracker', order: 'newest first' },
  { engine: 'tracker', order: 'fixed' },
  { engine: 'git', order: 'since' },
  { engine: 'git', order: 'newest first' },
  { engine: 'git', order: 'newest first', isConditional: true },
];

/** Found by the law: a first walk that stood still for two hours began anew, and what was done meanwhile stayed open. */
const write = (id: number, done: boolean): Step => ({ do: 'write', id, done, lag: 0 });
const STOOD_STILL: [Step[], Step[]] = [
  [write(2, false), write(3, false), write(1, false)],
  [{ do: 'wait', ms: 900_000 }, { do: 'wait', ms: 900_000 }, { do: 'wait', ms: 1_860_000 }, write(1, true)],
];

/** Found by the law: a first page of one time only stood as it was, though another changed within the same second. */
const POLL: Step = { do: 'poll', breaks: false };
const ONE_SECOND: [Step[], Step[]] = [
  [],
  [write(3, false), write(4, false), POLL, write(2, false), POLL, write(1, false)],
];

describe.each(vendors)('the engine $engine, of a vendor that lists $order, conditional $isConditional', (vendor) => {
  const world = fc.array(step, { minLength: 5, maxLength: 60 });

  it('tells in the end of everything that was open at first or changed since, as it is', async () => {
    await fc.assert(
      fc.asyncProperty(world, world, async (before, steps) => {
        const given = new World(vendor);
        for (const each of before) if (each.do !== 'poll') await given.run(each);
        given.model.hidden.clear();
        given.model.now += HOUR;
        const began = given.model.now;
        await given.poll();
        for (const each of steps) await given.run(each);
        await given.rest();
        for (const item of given.model.items()) {
          if (item.project !== 1 || (item.done && item.updated < began)) continue;
          const held = given.at(item.id);
          expect(held).toMatchObject({
            title: item.title,
            state: item.done ? (held?.kind === 'pull_request' ? 'closed' : 'done') : 'open',
            updatedAt: item.updated,
          });
        }
      }),
      { numRuns: drawn(300), examples: [STOOD_STILL, ONE_SECOND] },
    );
  });

  it('loses nobody from a first walk whose pages are counted, while items are done under it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 }), async (done) => {
        const given = new World(vendor);
        given.model.isCounted = true;
        for (let each = 1; each <= 9; each++) given.model.write(each, { title: 'open' }, 0);
        given.model.now += HOUR;
        for (const each of done) {
          await given.poll();
          given.model.now += 1_000;
          given.model.write(each, { done: true }, 0);
        }
        while (!(await given.poll()));
        expect(given.held.size).toBe(9);
      }),
    );
  });

  it('has gone what is gone, and nothing else, after a sweep', async () => {
    await holdsAsync(world, 300, async (steps) => {
      const given = new World(vendor);
      for (const each of steps) await given.run(each);
      await given.rest();
      await given.sweep();
      const there = new Map(given.model.items().map((item) => [String(item.id), item.project]));
      for (const item of given.held.values()) {
        const project = there.get(idOf(item));
        expect(item.gone ?? false).toBe(project === undefined);
        if (!item.gone) expect(item.kind === 'pull_request' ? item.repoId : item.containerId).toBe(String(project));
      }
    });
  });

  it('never calls gone what is hidden', async () => {
    await holdsAsync(world, 100, async (steps) => {
      const given = new World(vendor);
      for (const each of steps) await given.run(each);
      await given.rest();
      given.model.hidden.add(1).add(2);
      for (const item of [...given.held.values()].filter(({ gone }) => !gone)) {
        const error = await given.fetch(item).then(() => undefined, asSyncError);
        expect(error?.code).toBe('not_found');
      }
      await expect(given.sweep()).rejects.toMatchObject({ code: 'not_found' });
    });
  });
});

/** The model's own, which both engines write last. */
function idOf({ key }: Pick<Item, 'key'>): string {
  return key.slice(key.lastIndexOf(':') + 1);
}
