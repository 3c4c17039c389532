import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Use } from '../kit/budget.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { createListing, createMemory } from '../kit/listing.ts';
import { type Candidate, inScope, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';

/** A repository as it is now. */
export interface Repository extends Candidate {
  readonly archived: boolean;
  readonly fork: boolean;
  /** Where issues are switched off, their list answers 410. */
  readonly hasIssues: boolean;
}

/** What the scope of a connection takes in at the moment. */
export interface Repositories {
  /**
   * A name where the configuration names one, an id where a pattern took the repository in: so what is known of it
   * stays with it under a new name. Costs nothing where there are no patterns.
   */
  units(signal: AbortSignal): Promise<readonly string[]>;
  /** The repository of a unit, as it was some minutes ago at the latest. */
  find(unit: string, signal: AbortSignal, use?: Use): Promise<Repository>;
  /** What a name leads to at this moment. */
  present(name: string, signal: AbortSignal): Promise<Repository>;
  /** What the patterns take in beside what is named. */
  listed(signal: AbortSignal): Promise<readonly Repository[]>;
}

/** The path of the repository with this name or id. */
export function repositoryPath(unit: string): string {
  return /^\d+$/.test(unit) ? `/repositories/${unit}` : `/repos/${unit}`;
}

/** More pages than any account has; a list that links in circles ends. */
const MOST_PAGES = 1_000;
const KEPT_FOR = 12 * 60_000;

export function createRepositories(api: Api, options: Options, clock: Clock): Repositories {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  const lists = listsFor(options, patternsOf(scope));
  const pages = createMemory<ListPage>();
  const singles = createMemory<Repository>();
  const found = new Map<string, { repository: Repository; until: number }>();

  const isNamed = ({ id, name }: Repository) =>
    named.some((entry) => entry === id || entry.toLowerCase() === name.toLowerCase());

  const listed = createListing(clock, async (signal) => {
    const repositories = new Map<string, Repository>();
    for (const list of lists)
      for (const each of await readAll(list, signal))
        if (inScope(each, scope) && !isNamed(each)) repositories.set(each.id, each);
    return [...repositories.values()];
  });

  async function readAll(list: List, signal: AbortSignal): Promise<readonly Repository[]> {
    try {
      return await readPages(list, signal);
    } catch (thrown) {
      const { code } = asSyncError(thrown);
      if (!list.otherwise || (code !== 'not_found' && code !== 'forbidden')) throw thrown;
      const others: Repository[] = [];
      for (const other of list.otherwise) others.push(...(await readAll(other, signal)));
      return others;
    }
  }

  async function readPages({ path, query }: List, signal: AbortSignal): Promise<readonly Repository[]> {
    const all: Repository[] = [];
    let next: string | undefined = query;
    for (let count = 0; next !== undefined; count++) {
      if (count === MOST_PAGES) throw new SyncError('answer_malformed', `GET ${path}: the list does not end`);
      const present: string = next;
      const page: ListPage = await pages.read(
        `${path}?${present}`,
        (etag) => api.get(path, { query: present, etag, signal, use: 'poll' }),
        (answer) => readPage(api, answer, path),
      );
      all.push(...page.repositories);
      next = page.next;
    }
    return all;
  }

  return {
    listed,
    async units(signal) {
      if (lists.length === 0) return named;
      return [...named, ...(await listed(signal)).map(({ id }) => id)];
    },
    async present(name, signal) {
      const path = repositoryPath(name);
      return asRepository(readAnswer(await api.get(path, { signal, use: 'poll' }), `GET ${path}`), path);
    },
    async find(unit, signal, use = 'poll') {
      const known = found.get(unit);
      if (known && clock.monotonic() < known.until) return known.repository;
      const path = repositoryPath(unit);
      const repository = await singles.read(
        path,
        (etag) => api.get(path, { etag, signal, use }),
        (answer) => asRepository(readAnswer(answer, `GET ${path}`), path),
      );
      found.set(unit, { repository, until: clock.monotonic() + KEPT_FOR });
      return repository;
    },
  };
}

interface List {
  readonly path: string;
  readonly query: string;
  /** What is read instead where there is no such list, or it is not for this credential. */
  readonly otherwise?: readonly List[];
}

/** The lists that hold whatever the patterns mean: an installation's own, or those of the owners named. */
function listsFor({ app }: Options, patterns: readonly string[]): readonly List[] {
  if (patterns.length === 0) return [];
  if (app) return [{ path: '/installation/repositories', query: 'per_page=100' }];
  const owners = [...new Set(patterns.map((pattern) => (pattern.split('/', 1)[0] as string).toLowerCase()))];
  const mine = '/user/repos';
  if (owners.some((owner) => owner.includes('*'))) return [{ path: mine, query: 'per_page=100' }];
  return owners.map((owner) => ({
    path: `/orgs/${owner}/repos`,
    query: 'type=all&per_page=100',
    // The owner is a user: their private repositories are seen in one's own list alone.
    otherwise: [
      { path: `/users/${owner}/repos`, query: 'type=owner&per_page=100' },
      { path: mine, query: 'affiliation=owner,collaborator&per_page=100', otherwise: [] },
    ],
  }));
}

const one = z.object({
  id: z.int().positive(),
  full_name: z.string().regex(REPOSITORY),
  archived: absent(z.boolean()),
  fork: absent(z.boolean()),
  has_issues: absent(z.boolean()),
});
const many = z.union([z.array(one), z.object({ repositories: z.array(one) }).transform((page) => page.repositories)]);

interface ListPage {
  readonly repositories: readonly Repository[];
  readonly next: string | undefined;
}

function readPage(api: Api, answer: HttpAnswer, path: string): ListPage {
  const page = parseAnswer(many, readAnswer(answer, `GET ${path}`), `GET ${path}`);
  return { repositories: page.map(toRepository), next: api.nextQuery(answer, path) };
}

function asRepository(content: unknown, path: string): Repository {
  return toRepository(parseAnswer(one, content, `GET ${path}`));
}

function toRepository({ id, full_name, archived, fork, has_issues }: z.infer<typeof one>): Repository {
  const traits = { archived: archived ?? false, fork: fork ?? false, hasIssues: has_issues ?? true };
  return { id: String(id), name: full_name, ...traits };
}
