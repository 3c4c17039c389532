import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { DeliveryOrigin } from '../../src/model/delivery.ts';
import type { StoredItem } from '../../src/store/items/items.ts';
import { mergeNewest } from '../../src/sync/reconcile/newest-wins.ts';
import { holds } from '../support/harness/depth.ts';
import { modelProviders } from '../support/vendors/model-providers/index.ts';
import type { ModelProvider, Rendered, State } from '../support/vendors/model-providers/provider.ts';

/**
 * For every connector: whatever order and how often the deliveries of one item come in, with polls between, in the end it
 * is stored as the provider has it. Its own deliveries, through its own `translate`, over the real judgement.
 */

type Step =
  /** The item is changed, this much later by the provider's clock. */
  | { readonly do: 'change'; readonly later: number; readonly edit: readonly (readonly [string, number])[] }
  /** Somebody comments: the item is told of, with the time of its last change. */
  | { readonly do: 'tell'; readonly pick: number }
  | { readonly do: 'deliver' | 'repeat'; readonly pick: number }
  /** Between the look of a fetch at the provider and its answer the thing may be removed or restored. */
  | { readonly do: 'poll' | 'fetch' | 'answer' }
  /** It is removed, or brought back; nobody need be told of it, and no time of it need move. */
  | { readonly do: 'remove' | 'restore'; readonly later: number; readonly isTold: boolean };

function stepsOf({ values, others }: ModelProvider, mayVanish = false): fc.Arbitrary<Step[]> {
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
    { weight: 3, arbitrary: fc.constantFrom<Step>({ do: 'poll' }, { do: 'fetch' }, { do: 'answer' }) },
  ];
  if (mayVanish)
    arbitraries.push({
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom('remove' as const, 'restore' as const),
        later: fc.constantFrom(0, 400, 1_000, 60_000),
        isTold: fc.boolean(),
      }),
    });
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
  #held: StoredItem | undefined;
  /** How often the object was asked for since a fetch began that has been answered; 0: it is not to be fetched. */
  #asks = 0;
  #reading: { readonly exists: boolean; readonly asks: number } | undefined;
  exists = true;

  constructor(provider: ModelProvider) {
    this.#provider = provider;
    this.#connector = connectors.find(({ id }) => id === provider.id) as Connector<unknown>;
    this.#options = this.#connector.options.parse(provider.options);
    this.state = Object.fromEntries(Object.entries(provider.values).map(([name, [first]]) => [name, first]));
    this.#say(provider.webhook(this.state, this.#at));
  }

  step(step: Step): void {
    const { page, others } = this.#provider;
    if (step.do === 'change' && this.exists) this.#change(step.later, step.edit);
    if (step.do === 'remove' || step.do === 'restore') this.#vanish(step.do === 'remove', step.later, step.isTold);
    if (step.do === 'tell' && this.exists)
      this.#say((others[step.pick] as ModelProvider['page'])(this.state, this.#at));
    if (step.do === 'deliver') for (const one of this.#picked(this.#unsent, step.pick)) this.#take('webhook', one);
    if (step.do === 'repeat') this.#take('webhook', this.#made[step.pick % this.#made.length] as Rendered);
    if (step.do === 'poll' && this.exists) this.#take('poll', page(this.state, this.#at));
    if (step.do === 'fetch') this.#read();
    if (step.do === 'answer') this.#answer();
  }

  deliverAll(): void {
    for (const one of this.#unsent.splice(0)) this.#take('webhook', one);
  }

  deliverRest(): void {
    for (const one of this.#unsent.splice(0)) this.#take('webhook', one);
    this.#fetch();
  }

  /** The list of what exists: what is held otherwise is fetched. */
  sweep(): void {
    if (this.#held && this.isHeld !== this.exists) this.#asks++;
    this.#fetch();
  }

  get isHeld(): boolean {
    return this.#held !== undefined && this.#held.item.gone !== true;
  }

  /** Lost deliveries stay lost. */
  pollInstead(): void {
    this.#take('poll', this.#provider.page(this.state, this.#at));
    this.#fetch();
  }

  get isFinished(): boolean {
    return !['open', 'in_progress'].includes(String(this.state['state']));
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

  #vanish(isRemoval: boolean, later: number, isTold: boolean): void {
    if (this.exists !== isRemoval) return;
    this.exists = !isRemoval;
    this.#at += isRemoval ? 0 : later;
    const told = isRemoval ? this.#provider.removed?.(this.#at + later) : this.#provider.webhook(this.state, this.#at);
    if (isTold && told) this.#say(told);
  }

  #say(rendered: Rendered): void {
    this.#unsent.push(rendered);
    this.#made.push(rendered);
  }

  #picked(list: Rendered[], pick: number): readonly Rendered[] {
    return list.length === 0 ? [] : list.splice(pick % list.length, 1);
  }

  #fetch(): void {
    while (this.#asks > 0) {
      this.#read();
      this.#answer();
    }
  }

  #read(): void {
    if (this.#asks === 0 || this.#reading) return;
    this.#reading = { exists: this.exists, asks: this.#asks };
  }

  /** Whoever asked meanwhile may mean something newer. */
  #answer(): void {
    if (!this.#reading) return;
    const { exists, asks } = this.#reading;
    this.#reading = undefined;
    if (this.#asks === asks) this.#asks = 0;
    const { fetched, gone } = this.#provider;
    // By our clock: later than whatever was seen.
    this.#take('fetch', exists ? fetched(this.state, this.#at) : gone(this.#at + 100_000));
  }

  #take(source: DeliveryOrigin, { event, payload }: Rendered): void {
    const body = Buffer.from(JSON.stringify(payload));
    const translation = this.#connector.translate({ source, event, body }, this.#options);
    if (translation.outcome === 'ignored') throw new Error(`${event}: ${translation.reason}`);
    if (translation.references) this.#asks++;
    if (translation.outcome !== 'items') return;
    if (translation.items.length !== 1) throw new Error(`${event}: ${translation.items.length} items`);
    for (const item of translation.items) {
      if (this.#held && item.key !== this.#held.item.key) throw new Error(`${event}: another item`);
      const judgement = mergeNewest(this.#held, item, source);
      if (judgement.needsFetch) this.#asks++;
      if (judgement.outcome === 'applied') this.#held = judgement.stored;
    }
  }
}

describe.each(modelProviders)('$id', (provider) => {
  it.each<[how: string, runs: number, end: 'rest' | 'poll', only?: Step['do']]>([
    ['in any order, with any repetition, with polls between', 1_000, 'rest'],
    ['where webhooks are lost and a poll comes last', 1_000, 'poll'],
    ['by a single poll, whatever was changed', 100, 'poll', 'change'],
  ])('ends in the state of the provider %s', (_what, runs, end, only) => {
    holds(stepsOf(provider), runs, (steps) => {
      const world = new World(provider);
      for (const step of steps) if (only === undefined || step.do === only) world.step(step);
      if (end === 'rest') world.deliverRest();
      else world.pollInstead();
      expect(world.wrong).toEqual([]);
    });
  });

  it('ends in the state of the provider where all fetches are refused and the webhooks arrive in order', () => {
    holds(stepsOf(provider), 1_000, (steps) => {
      const world = new World(provider);
      for (const step of steps) {
        if (step.do !== 'change') continue;
        // Some descriptions are not in the webhooks.
        const edit = step.edit.filter(([field]) => field !== 'description');
        // Nothing shows that an item was closed and opened again within one time of the vendor, at most a minute.
        world.step({ ...step, edit, later: world.isFinished ? 60_000 : step.later });
      }
      world.deliverAll();
      // Some vendors only name the item.
      expect(world.isHeld ? world.wrong : []).toEqual([]);
    });
  });

  it('exists where it exists at the provider, removed and restored in any order, by the next sweep', () => {
    holds(stepsOf(provider, true), 1_000, (steps) => {
      const world = new World(provider);
      for (const step of steps) world.step(step);
      world.deliverRest();
      world.sweep();
      expect(world.isHeld).toBe(world.exists);
      if (world.exists) expect(world.wrong).toEqual([]);
    });
  });
});
