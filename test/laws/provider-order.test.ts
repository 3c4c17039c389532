import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { DeliverySource } from '../../src/model/delivery.ts';
import { type Held, judge } from '../../src/reconcile/newest.ts';
import { modelProviders } from '../support/model-providers/index.ts';
import type { ModelProvider, Rendered, State } from '../support/model-providers/provider.ts';

/**
 * For every connector: whatever order and how often the deliveries of one item come in, with polls between, in the end it
 * is held as the provider has it. Its own deliveries, through its own `translate`, over the real judgement.
 */

type Step =
  /** The item is changed, this much later by the provider's clock. */
  | { readonly do: 'change'; readonly later: number; readonly edit: readonly (readonly [string, number])[] }
  /** Somebody comments: the item is told of, with the time of its last change. */
  | { readonly do: 'tell'; readonly pick: number }
  | { readonly do: 'deliver' | 'repeat'; readonly pick: number }
  | { readonly do: 'poll' | 'fetch' };

function stepsOf({ values, others }: ModelProvider): fc.Arbitrary<Step[]> {
  const edit = fc.uniqueArray(
    fc
      .constantFrom(...Object.entries(values))
      .chain(([name, choices]) => fc.tuple(fc.constant(name), fc.nat(choices.length - 1))),
    { minLength: 1, maxLength: 3, selector: ([name]) => name },
  );
  const pick = fc.nat({ max: 9 });
  const change = fc.record({
    do: fc.constant('change' as const),
    // Below a second, at one, and above: some vendors tell no more than seconds.
    later: fc.constantFrom(1, 40, 400, 999, 1_000, 1_600, 60_000),
    edit,
  });
  const arbitraries: fc.WeightedArbitrary<Step>[] = [
    { weight: 4, arbitrary: change },
    { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('deliver' as const, 'repeat' as const), pick }) },
    { weight: 2, arbitrary: fc.constantFrom<Step>({ do: 'poll' }, { do: 'fetch' }) },
  ];
  if (others.length > 0)
    arbitraries.push({
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('tell' as const), pick: fc.nat(others.length - 1) }),
    });
  return fc.array(fc.oneof(...arbitraries), { minLength: 1, maxLength: 40 });
}

class World {
  readonly #provider: ModelProvider;
  readonly #connector: Connector<unknown>;
  readonly #options: unknown;
  state: State;
  #at = Date.UTC(2026, 2, 5, 9, 0, 0, 100);
  readonly #unsent: Rendered[] = [];
  readonly #made: Rendered[] = [];
  #held: Held | undefined;
  /** Whether the object is to be fetched. */
  #asked = false;

  constructor(provider: ModelProvider) {
    this.#provider = provider;
    this.#connector = connectors.find(({ id }) => id === provider.id) as Connector<unknown>;
    this.#options = this.#connector.options.parse(provider.options);
    this.state = Object.fromEntries(Object.entries(provider.values).map(([name, [first]]) => [name, first]));
    this.#say(provider.webhook(this.state, this.#at));
  }

  step(step: Step): void {
    const { page, others } = this.#provider;
    if (step.do === 'change') this.#change(step.later, step.edit);
    if (step.do === 'tell') this.#say((others[step.pick] as ModelProvider['page'])(this.state, this.#at));
    if (step.do === 'deliver') for (const one of this.#picked(this.#unsent, step.pick)) this.#take('webhook', one);
    if (step.do === 'repeat') this.#take('webhook', this.#made[step.pick % this.#made.length] as Rendered);
    if (step.do === 'poll') this.#take('poll', page(this.state, this.#at));
    if (step.do === 'fetch') this.#fetch();
  }

  deliverRest(): void {
    for (const one of this.#unsent.splice(0)) this.#take('webhook', one);
    this.#fetch();
  }

  /** What is lost is lost. */
  pollInstead(): void {
    this.#take('poll', this.#provider.page(this.state, this.#at));
    this.#fetch();
  }

  /** Fields that are held otherwise than the provider has them. */
  get wrong(): readonly string[] {
    const item = (this.#held?.item ?? {}) as unknown as Record<string, unknown>;
    return Object.keys(this.state).filter((name) => !isDeepStrictEqual(item[name], this.state[name]));
  }

  #change(later: number, edit: readonly (readonly [string, number])[]): void {
    if (this.#provider.final.includes(String(this.state['state']))) return;
    const changes = edit.map(([name, choice]) => [name, this.#provider.values[name]?.[choice]]);
    const next: State = { ...this.state, ...Object.fromEntries(changes) };
    if (isDeepStrictEqual(next, this.state)) return;
    this.#at += later;
    this.state = next;
    this.#say(this.#provider.webhook(next, this.#at));
  }

  #say(rendered: Rendered): void {
    this.#unsent.push(rendered);
    this.#made.push(rendered);
  }

  #picked(list: Rendered[], pick: number): readonly Rendered[] {
    return list.length === 0 ? [] : list.splice(pick % list.length, 1);
  }

  #fetch(): void {
    if (!this.#asked) return;
    this.#asked = false;
    this.#take('fetch', this.#provider.fetched(this.state, this.#at));
  }

  #take(source: DeliverySource, { event, payload }: Rendered): void {
    const body = Buffer.from(JSON.stringify(payload));
    const translation = this.#connector.translate({ source, event, body }, this.#options);
    if (translation.outcome === 'ignored') throw new Error(`${event}: ${translation.reason}`);
    if (translation.references) this.#asked = true;
    if (translation.outcome !== 'items') return;
    if (translation.items.length !== 1) throw new Error(`${event}: ${translation.items.length} items`);
    for (const item of translation.items) {
      const judgement = judge(this.#held, item, source);
      if (judgement.outcome !== 'applied') continue;
      this.#held = judgement.held;
      if (judgement.doubtful) this.#asked = true;
    }
  }
}

describe.each(modelProviders)('$id', (provider) => {
  const runs = { numRuns: 1_000 };

  it('ends in the state of the provider, in any order, with any repetition, with polls between', () => {
    fc.assert(
      fc.property(stepsOf(provider), (steps) => {
        const world = new World(provider);
        for (const step of steps) world.step(step);
        world.deliverRest();
        expect(world.wrong).toEqual([]);
      }),
      runs,
    );
  });

  it('ends there too where webhooks are lost and a poll comes last', () => {
    fc.assert(
      fc.property(stepsOf(provider), (steps) => {
        const world = new World(provider);
        for (const step of steps) world.step(step);
        world.pollInstead();
        expect(world.wrong).toEqual([]);
      }),
      runs,
    );
  });

  it('a single poll or fetch tells everything, whatever was changed', () => {
    fc.assert(
      fc.property(stepsOf(provider), (steps) => {
        const world = new World(provider);
        for (const step of steps) if (step.do === 'change') world.step(step);
        world.pollInstead();
        expect(world.wrong).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});
