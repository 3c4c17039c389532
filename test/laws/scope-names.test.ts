import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/model/errors.ts';
import type { NamedUnit } from '../../src/model/names.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../src/platform/lib/telemetry.ts';
import { type NameBindings, openNameBindings } from '../../src/sync/intake/name-bindings.ts';
import { followedIn } from '../contracts/connectors/profile.ts';
import { createTravellingClock, type TravellingClock } from '../support/fakes/travelling-clock.ts';
import { holdsAsync } from '../support/harness/depth.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';
import { modelProviders } from '../support/vendors/model-providers/index.ts';
import { altered, type ModelProvider } from '../support/vendors/model-providers/provider.ts';

/**
 * For every connector that follows repositories, projects or teams by name: whatever is renamed, moved, deleted and made again
 * under the same name, and in whatever order its deliveries, polls and restarts come, only that is taken which the name led
 * to first, under all its names, until somebody says that the other one is meant.
 */

/** Where a payload of the vendor names what it belongs to. */
interface Place {
  readonly id: (number: number) => string;
  readonly name: (word: string) => string;
  render(provider: ModelProvider, at: NamedUnit): { source: 'webhook' | 'fetch'; event: string; payload: unknown };
}

const numbered = (number: number) => String(7_000 + number);
const uuid = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const AT = Date.UTC(2026, 2, 5, 9);

function webhook(provider: ModelProvider, changes: (payload: object) => Readonly<Record<string, unknown>>) {
  const { event, payload } = provider.webhook(firstState(provider), AT);
  return { source: 'webhook' as const, event, payload: altered(payload, changes(payload as object)) };
}

function firstState({ values }: ModelProvider) {
  return Object.fromEntries(Object.entries(values).map(([name, [first]]) => [name, first]));
}

const path = (word: string) => `acme/${word}`;
const upper = (word: string) => word.toUpperCase();
const plain = (word: string) => word;

const PLACES: Readonly<Record<string, Place>> = {
  github: {
    id: numbered,
    name: path,
    render: (provider, { id, name }) =>
      webhook(provider, (payload) => ({
        'repository.id': Number(id),
        'repository.full_name': name,
        ...('pull_request' in payload && {
          'pull_request.base.repo.id': Number(id),
          'pull_request.base.repo.full_name': name,
        }),
      })),
  },
  gitlab: {
    id: numbered,
    name: path,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({ 'project.id': Number(id), 'project.path_with_namespace': name })),
  },
  bitbucket: {
    id: (number) => `{${uuid(number)}}`,
    name: path,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({
        'repository.uuid': id,
        'repository.full_name': name,
        'pullrequest.destination.repository.uuid': id,
        'pullrequest.destination.repository.full_name': name,
      })),
  },
  jira: {
    id: numbered,
    name: upper,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({ 'issue.fields.project.id': id, 'issue.fields.project.key': name })),
  },
  linear: {
    id: uuid,
    name: upper,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({ 'data.teamId': id, 'data.team.id': id, 'data.team.key': name })),
  },
  sentry: {
    id: numbered,
    name: plain,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({ 'data.issue.project.id': id, 'data.issue.project.slug': name })),
  },
  // Its webhooks name no team: what is fetched is judged.
  shortcut: {
    id: uuid,
    name: plain,
    render(provider, { id, name }) {
      const { payload } = provider.fetched(firstState(provider), AT);
      const told = altered(payload, { team: { id, mention_name: name }, 'story.group_id': id });
      return { source: 'fetch', event: 'stories.judged', payload: told };
    },
  },
  generic: {
    id: numbered,
    name: plain,
    render: (provider, { id, name }) => webhook(provider, () => ({ 'data.project.id': id, 'data.project.name': name })),
  },
  // Its webhooks do not say how a project is called: what is fetched is judged.
  redmine: {
    id: numbered,
    name: plain,
    render(provider, { id, name }) {
      const { event, payload } = provider.fetched(firstState(provider), AT);
      const project = { id: Number(id), identifier: name };
      return { source: 'fetch', event, payload: altered(payload, { project, 'issue.project.id': Number(id) }) };
    },
  },
  'azure-boards': {
    id: uuid,
    name: plain,
    render: (provider, { id, name }) =>
      webhook(provider, () => ({
        'resourceContainers.project.id': id,
        'resource.revision.fields': { 'System.TeamProject': name },
      })),
  },
};

type Step =
  | { readonly do: 'rename'; readonly thing: number; readonly word: string }
  | { readonly do: 'remove'; readonly thing: number }
  | { readonly do: 'make'; readonly word: string }
  /** Something happens in a thing: its webhook comes some time. */
  | { readonly do: 'happen'; readonly thing: number }
  | { readonly do: 'deliver'; readonly pick: number }
  | { readonly do: 'poll' | 'restart' | 'rebind' };

const WORDS = ['one', 'two'] as const;
/** The configured names. */
const WORD = WORDS[0];

const thing = fc.nat({ max: 3 });
const word = fc.constantFrom(...WORDS);
const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('rename' as const), thing, word }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), thing }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('make' as const), word }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('happen' as const), thing }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('deliver' as const), pick: fc.nat({ max: 9 }) }) },
    { weight: 3, arbitrary: fc.constantFrom<Step>({ do: 'poll' }, { do: 'restart' }) },
    { weight: 1, arbitrary: fc.constant<Step>({ do: 'rebind' }) },
  ),
  { minLength: 10, maxLength: 30, size: 'max' },
);

const folder = mkdtempSync(join(tmpdir(), 'worksync-names-'));
let store: OpenedStore;
/** Each course has a connection of its own. */
let connections = 0;

beforeAll(async () => {
  store = await openStore({ file: join(folder, 'names.db') });
});
afterAll(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

class World {
  readonly #provider: ModelProvider;
  readonly #place: Place;
  readonly #connector: Connector<unknown>;
  readonly #entry: string;
  readonly #configured: object;
  readonly #clock: TravellingClock = createTravellingClock();
  readonly #connection = `c${connections++}`;
  #book!: NameBindings;
  readonly #things = new Map<string, string | null>();
  readonly #sent: NamedUnit[] = [];
  readonly wrong: string[] = [];
  /** The id that the name was bound to. */
  bound: string | undefined;

  constructor(provider: ModelProvider, place: Place) {
    this.#provider = provider;
    this.#place = place;
    this.#connector = connectors.find(({ id }) => id === provider.id) as Connector<unknown>;
    this.#entry = place.name(WORD);
    this.#configured = this.#connector.options.parse({
      ...provider.options,
      [followedIn(provider.options).name]: [this.#entry],
    }) as object;
    this.#make(WORD);
  }

  static async open(provider: ModelProvider, place: Place): Promise<World> {
    const world = new World(provider, place);
    await world.#openBook();
    return world;
  }

  async step(step: Step): Promise<void> {
    const ids = [...this.#things.keys()];
    const chosen = 'thing' in step ? (ids[step.thing % ids.length] as string) : '';
    const name = this.#things.get(chosen);
    if (step.do === 'make') this.#make(step.word);
    if (step.do === 'rename' && name) this.#rename(chosen, this.#place.name(step.word));
    if (step.do === 'remove') this.#things.set(chosen, null);
    if (step.do === 'happen' && name) this.#sent.push({ id: chosen, name });
    if (step.do === 'deliver') this.#deliver(step.pick);
    if (step.do === 'poll') await this.#poll();
    if (step.do === 'restart') await this.#restart();
    if (step.do === 'rebind') await this.#rebind();
    this.#must('bound', this.#book.idOf(this.#entry), this.bound);
    if (this.bound !== undefined)
      this.#must('asked for by its id', this.#book.addressOf(this.#entry).includes(this.bound), true);
  }

  #must<Value>(what: string, actual: Value, wanted: Value): void {
    if (actual !== wanted) this.wrong.push(`${what}: ${String(actual)} instead of ${String(wanted)}`);
  }

  async #openBook(): Promise<void> {
    const deps = { store, clock: this.#clock, random: systemRandom(), logger: silentLogger, meter: silentMeter };
    const { namesIn, unitOf } = this.#connector;
    const entries = namesIn?.(this.#configured) ?? [];
    this.#must('names', entries.join(), this.#entry);
    this.#book = await openNameBindings(deps, { connection: this.#connection, entries, unitOf });
  }

  #make(word: string): void {
    const name = this.#place.name(word);
    if (![...this.#things.values()].includes(name)) this.#things.set(this.#place.id(this.#things.size + 1), name);
  }

  #rename(id: string, name: string): void {
    if (![...this.#things.values()].includes(name)) this.#things.set(id, name);
  }

  /** As they come, late ones too; each once. */
  #deliver(pick: number): void {
    const [seen] = this.#sent.splice(pick % Math.max(1, this.#sent.length), 1);
    if (!seen) return;
    const { source, event, payload } = this.#place.render(this.#provider, seen);
    const options = { ...this.#configured, names: this.#book };
    const body = Buffer.from(JSON.stringify(payload));
    const { outcome } = this.#connector.translate({ source, event, body }, options);
    this.bound ??= seen.name === this.#entry ? seen.id : undefined;
    this.#must(`ignored ${seen.id}`, outcome === 'ignored', seen.id !== this.bound);
  }

  /** The vendor's answer to a lookup by name. */
  readonly #identify = async (name: string): Promise<NamedUnit> => {
    const found = [...this.#things].find(([, called]) => called === name);
    if (!found) throw new SyncError('not_found', 'no such thing');
    return { id: found[0], name };
  };

  async #poll(): Promise<void> {
    // A day later, so that names are asked for again.
    await this.#clock.advance(25 * 3_600_000);
    await this.#book.refresh({ identify: this.#identify }, new AbortController().signal);
    const holder = this.#holder();
    this.bound ??= holder;
    const [binding] = this.#book.bindings();
    this.#must('elsewhere', binding?.elsewhere, holder === this.bound ? undefined : holder);
  }

  #holder(): string | undefined {
    return [...this.#things].find(([, called]) => called === this.#entry)?.[0];
  }

  async #restart(): Promise<void> {
    await this.#book.settled();
    await this.#openBook();
  }

  async #rebind(): Promise<void> {
    const isDegraded = this.#book.bindings().some(({ elsewhere }) => elsewhere !== undefined);
    const version = this.#book.version();
    const made = await this.#book.rebind({ identify: this.#identify }, new AbortController().signal);
    const holder = this.#holder();
    const isBoundAnew = isDegraded && holder !== undefined && holder !== this.bound;
    this.#must('bound anew', made.length, isBoundAnew ? 1 : 0);
    this.#must('version', this.#book.version(), version + made.length);
    if (isBoundAnew) this.bound = holder;
  }
}

it('every connector that follows things by name is here', () => {
  const naming = connectors.filter(({ namesIn }) => namesIn !== undefined).map(({ id }) => id);
  expect(Object.keys(PLACES).toSorted()).toEqual(naming.toSorted());
});

describe.each(modelProviders.map((provider, index) => [`${provider.id} ${index}`, provider] as const))(
  '%s',
  (_, provider) => {
    it('takes only what its name led to first, under all names [A3]', async () => {
      const place = PLACES[provider.id] as Place;
      await holdsAsync(steps, 150, async (course) => {
        const world = await World.open(provider, place);
        for (const step of course) await world.step(step);
        expect(world.wrong).toEqual([]);
      });
    });
  },
);
