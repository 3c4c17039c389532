import { z } from 'zod';
import { gitConnector, goneItemReader, type Kind } from '../../../src/connectors/kit/git.ts';
import { identityOf, type ScopeUnknown } from '../../../src/connectors/kit/items.ts';
import { parseAnswer } from '../../../src/connectors/kit/payload.ts';
import { type TrackerSource, trackerConnector } from '../../../src/connectors/kit/tracker.ts';
import type { ListRequest, Order } from '../../../src/connectors/kit/walk.ts';
import { SyncError } from '../../../src/model/errors.ts';
import type { GitProviderId } from '../../../src/model/git-providers.ts';
import { type PullRequest, pullRequestKey, type WorkItem } from '../../../src/model/item.ts';

/** How far behind what happens a vendor's lists may be, milliseconds: less than walks overlap. */
const LATEST = 9 * 60_000;

/** An item at the vendor. Lists show what was changed `lag` milliseconds later; `item` tells the truth at once. */
interface Held {
  readonly id: number;
  readonly project: number;
  readonly updated: number;
  readonly done: boolean;
  readonly title: string;
}

interface Version extends Held {
  readonly listedAt: number;
  readonly isGone?: boolean;
}

/** A vendor in memory, with a clock of its own that counts whole seconds: several changes share a time. */
export class ModelTracker {
  now = Date.parse('2026-01-05T09:00:00Z');
  readonly names = new Map([
    [1, 'one'],
    [2, 'two'],
  ]);
  readonly hidden = new Set<number>();
  /** Whether pages of the first walk are counted, so that what leaves the list moves everything behind it. */
  isCounted = false;
  private readonly versions = new Map<number, Version[]>();

  items(): readonly Held[] {
    return [...this.versions.values()].flatMap((all) => all.at(-1) ?? []).filter(({ isGone }) => !isGone);
  }

  item(id: number): Held | undefined {
    const found = this.items().find((each) => each.id === id);
    return found && !this.hidden.has(found.project) ? found : undefined;
  }

  write(
    id: number,
    change: Partial<Pick<Held, 'project' | 'done' | 'title'>> & { isGone?: boolean },
    lag: number,
  ): void {
    const versions = this.versions.get(id) ?? [];
    const updated = Math.floor(this.now / 1_000) * 1_000;
    const before = versions.at(-1) ?? { id, project: 1, done: false, title: '' };
    // A deletion is seen at once: what a list still shows of it would only be fetched again.
    const listedAt = this.now + (change.isGone ? 0 : Math.min(lag, LATEST));
    this.versions.set(id, [...versions, { ...before, ...change, updated, listedAt }]);
  }

  /** Hides a project from the credential, or shows it again. */
  turn(project: number): void {
    if (!this.hidden.delete(project)) this.hidden.add(project);
  }

  /** Items that lists show at this moment. */
  listed(project: number): readonly Held[] {
    const shown = [...this.versions.values()].flatMap((all) => {
      const last = all.at(-1);
      if (last?.isGone || last?.project !== project) return [];
      return all.findLast(({ listedAt }) => listedAt <= this.now) ?? [];
    });
    return shown.filter((each) => each.project === project);
  }

  /** The project by its name or number. Throws `not_found` where it is hidden. */
  project(unit: string): { id: string; name: string } {
    const found = [...this.names].find(([id, name]) => String(id) === unit || name === unit);
    if (!found || this.hidden.has(found[0])) throw new SyncError('not_found', `no project ${unit}`);
    return { id: String(found[0]), name: found[1] };
  }
}

type Found = z.infer<typeof found>;
const text = z.string().regex(/^\d+$/);
const found = z.object({ id: z.int(), project: z.int(), updated: z.number(), done: z.boolean(), title: z.string() });

const PAGE = 2;

const modelOptions = z.object({ projects: z.array(z.string()), commits: z.literal(false).default(false) });
export type ModelOptions = z.infer<typeof modelOptions>;

/** A connector on the tracker engine that talks to the model, whose lists have this order. */
export function modelConnector(model: ModelTracker, order: Order) {
  return trackerConnector<ModelOptions, Found, { id: string; name: string }>({
    id: 'model',
    title: 'Model',
    publicHost: 'model',
    capabilities: { workItems: true },
    largestDelivery: 1,
    options: modelOptions,
    host: () => 'model',
    verify: () => Promise.reject(new Error('never')),
    noun: 'things',
    container: { word: 'project', option: 'projects', hint: '' },
    scopeOf: ({ projects }) => ({ include: projects, exclude: [], archived: false, forks: false }),
    candidate: (container) => container,
    unitBy: 'id',
    itemId: { shape: text, locator: 'id', gone: 'id' },
    containerId: { shape: text, locator: 'projectId', gone: 'projectId' },
    identifier: (id) => `#${id}`,
    follows: () => true,
    parseWebhook: (payload) =>
      z.object({ id: text, container: z.object({ id: text, name: z.string() }).optional() }).parse(payload),
    found,
    itemOf,
    containerOf: ({ project }) => ({ id: String(project), name: model.names.get(project) ?? '' }),
    order,
    changedAt: (element) => (element as Held).updated,
    connect: () => sourceOf(model, order),
  });
}

function itemOf({ id, project, updated, done, title }: Found): WorkItem {
  const identity = identityOf('model', 'model', { id: String(id), container: String(project), identifier: `#${id}` });
  return { ...identity, updatedAt: updated, title, state: done ? 'done' : 'open' };
}

function sourceOf(model: ModelTracker, order: Order): TrackerSource<{ id: string; name: string }> {
  return {
    containers: async () =>
      [...model.names.keys()].filter((id) => !model.hidden.has(id)).map((id) => model.project(String(id))),
    container: async (unit) => model.project(unit),
    ...listsOf(model, order),
    about: async () => ({ first: [] }),
    describe: async (unit) => ({ level: 'ok', subject: unit, message: '' }),
  };
}

/** Requests that an engine may send to the model. */
function listsOf(model: ModelTracker, order: Order) {
  return {
    async list(wanted: ListRequest) {
      const project = Number(model.project(wanted.unit).id);
      const all = sorted(model.listed(project), wanted, order);
      const answer = { status: 200, headers: { date: new Date(model.now).toUTCString() }, body: Buffer.alloc(0) };
      if (model.isCounted && wanted.selection.items === 'open') {
        const from = Number(wanted.page ?? 0);
        const isEnd = from + PAGE >= all.length;
        return { found: all.slice(from, from + PAGE), next: isEnd ? undefined : String(from + PAGE), answer };
      }
      const rest = all.slice(all.findIndex((each) => isBehind(each, wanted, order)));
      const left = all.some((each) => isBehind(each, wanted, order)) ? rest : [];
      const page = left.slice(0, PAGE);
      const last = page.at(-1);
      return { found: page, next: last && left.length > PAGE ? placeOf(last) : undefined, answer };
    },
    async item({ id }: { readonly id: string }) {
      const held = model.item(Number(id));
      return held ? { found: held } : { isGone: false };
    },
  };
}

type Place = ScopeUnknown & { readonly id: string; readonly project: string };

/**
 * A connector on the engine of git providers that talks to the same model: its things are pull requests.
 *
 * @param isConditional whether a first page that is as it was is told to be
 */
export function modelGitConnector(model: ModelTracker, order: Order, isConditional: boolean) {
  const keyOf = (id: number) => pullRequestKey('model', 'model', '0', String(id));
  const identityOf = ({ id, project }: Pick<Found, 'id' | 'project'>) => ({
    kind: 'pull_request' as const,
    key: keyOf(id),
    connector: 'model',
    host: 'model',
    repoId: String(project),
    identifier: String(id),
  });
  const pullOf = (given: Found): PullRequest => ({
    ...identityOf(given),
    updatedAt: given.updated,
    title: given.title,
    state: given.done ? 'closed' : 'open',
  });
  const gone = z.object({ id: z.int(), project: z.int(), seen_at: z.string() });
  const pulls: Kind<ModelOptions, Place> = {
    kind: 'pull_request',
    noun: 'pulls',
    order,
    isConditional,
    changedAt: (element) => (element as Held).updated,
    locator: z.object({ id: text, project: text }),
    locatorOf: ({ number: id, container: project }) => ({ id, project }),
    requiredFields: ['state', 'title'],
    itemsOnPage: (page) => z.array(found).parse(page).map(pullOf),
    itemOf: (fetched) => pullOf(found.parse(fetched)),
    rowOfGone: ({ id, project }, seen_at) => ({ id: Number(id), project: Number(project), seen_at }),
    goneItemOf: goneItemReader(gone, identityOf),
  };
  return gitConnector<ModelOptions, Place>({
    id: 'model' as GitProviderId,
    title: 'Model',
    publicHost: 'model',
    capabilities: { pullRequests: true },
    largestDelivery: 1,
    options: modelOptions,
    host: () => 'model',
    verify: () => Promise.reject(new Error('never')),
    container: 'repository',
    scopeOf: ({ projects }) => ({ include: projects, exclude: [], archived: false, forks: false }),
    kinds: [pulls],
    parseWebhook: () => undefined,
    connect({ projects }) {
      const lists = listsOf(model, order);
      return {
        ...lists,
        async list(wanted) {
          const listed = await lists.list(wanted);
          if (!isConditional || wanted.page !== undefined) return listed;
          const etag = JSON.stringify(listed.found);
          const answer = { headers: { ...listed.answer.headers, etag } };
          return { ...listed, answer, isUnchanged: wanted.etag === etag };
        },
        sweptPage: async (elements, { unit }) => ({
          keys: parseAnswer(z.array(found), elements, 'ids').map(({ id }) => keyOf(id)),
          containers: [unit],
        }),
        identify: async (name) => model.project(name),
        item: async (_, locator) => lists.item(locator),
        requireVisible: async (_, { project }) => void model.project(project),
        credential: async () => [],
        namedRepositories: () => [],
        lists: { names: [], query: '' },
        get: () => Promise.reject(new Error('nothing is named one by one')),
        repositories: {
          units: async () => projects,
          ...{ patterns: [], listed: async () => [], refused: () => new Map(), requireReadable: () => undefined },
        },
        limit: () => ({ level: 'ok', subject: '', message: '' }),
      };
    },
  });
}

const placeOf = ({ id, updated }: Held) => `${updated}-${id}`;

/** Pages are told by the element that they stand behind, in an order that is total. */
function sorted(all: readonly Held[], { selection }: ListRequest, order: Order): readonly Held[] {
  const byId = (left: Held, right: Held) => left.id - right.id;
  const newestFirst = (left: Held, right: Held) => right.updated - left.updated || right.id - left.id;
  const isByChange = selection.items === 'changed' && order !== 'fixed';
  return all.filter((each) => isMeant(each, selection, order)).toSorted(isByChange ? newestFirst : byId);
}

function isMeant({ done, updated }: Held, selection: ListRequest['selection'], order: Order): boolean {
  if (selection.items === 'open') return !done || updated >= selection.began;
  if (selection.items === 'ids' || order === 'newest first') return true;
  return updated >= (selection.since ?? 0);
}

function isBehind({ id, updated }: Held, { page, selection }: ListRequest, order: Order): boolean {
  if (page === undefined) return true;
  const [time, last] = page.split('-').map(Number) as [number, number];
  if (selection.items !== 'changed' || order === 'fixed') return id > last;
  return updated < time || (updated === time && id < last);
}
