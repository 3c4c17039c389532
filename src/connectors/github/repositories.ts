import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Use } from '../kit/budget.ts';
import { absent } from '../kit/fields.ts';
import { createFollowed } from '../kit/followed.ts';
import type { Page } from '../kit/git-api.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { createMemory } from '../kit/listing.ts';
import { type Candidate, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';

/** A repository as it is now. */
interface Repository extends Candidate {
  /** Where issues are switched off, their list answers 410. */
  readonly hasIssues: boolean;
}

/** The repositories in the scope of a connection now: by name where the configuration names them, else by id. */
export interface Repositories extends ReturnType<typeof createFollowed> {
  /** The repository of a unit, as it was some minutes ago at the latest. */
  find(unit: string, signal: AbortSignal, use?: Use): Promise<Repository>;
  /** What a name leads to at this moment. */
  present(name: string, signal: AbortSignal): Promise<Repository>;
}

/** The path of the repository with this name or id. */
export function repositoryPath(unit: string): string {
  return /^\d+$/.test(unit) ? `/repositories/${unit}` : `/repos/${unit}`;
}

const KEPT_FOR = 12 * 60_000;

export function createRepositories(api: Api, options: Options, clock: Clock): Repositories {
  const scope = scopeOf(options);
  const lists = listsFor(options, patternsOf(scope));
  const pages = createMemory<Page>();
  const singles = createMemory<Repository>();
  const found = new Map<string, { repository: Repository; until: number }>();

  async function readAll({ path, query, otherwise }: List, signal: AbortSignal): Promise<readonly Repository[]> {
    try {
      return await api.all(one, path, { query, signal, use: 'poll' }, pages);
    } catch (thrown) {
      const { code } = asSyncError(thrown);
      if (!otherwise || (code !== 'not_found' && code !== 'forbidden')) throw thrown;
      return readLists(otherwise, signal);
    }
  }

  async function readLists(wanted: readonly List[], signal: AbortSignal): Promise<readonly Repository[]> {
    const all: Repository[] = [];
    for (const each of wanted) all.push(...(await readAll(each, signal)));
    return all;
  }

  return {
    ...createFollowed({
      scope,
      clock,
      all: (signal) => readLists(lists, signal),
      candidate: (each) => each,
      unitOf: ({ id }) => id,
    }),
    present: (name, signal) => api.read(one, repositoryPath(name), { signal, use: 'poll' }),
    async find(unit, signal, use = 'poll') {
      const known = found.get(unit);
      if (known && clock.monotonic() < known.until) return known.repository;
      const path = repositoryPath(unit);
      const repository = await singles.read(
        path,
        (etag) => api.get(path, { etag, signal, use }),
        (answer) => parseAnswer(one, readAnswer(answer, `GET ${path}`), `GET ${path}`),
      );
      found.set(unit, { repository, until: clock.monotonic() + KEPT_FOR });
      return repository;
    },
  };
}

interface List {
  readonly path: string;
  readonly query: string;
  /** The lists to read instead where this one does not exist, or this credential may not read it. */
  readonly otherwise?: readonly List[];
}

/** The lists that contain everything the patterns can match: that of the installation, or those of the named owners. */
function listsFor({ app }: Options, patterns: readonly string[]): readonly List[] {
  if (patterns.length === 0) return [];
  if (app) return [{ path: '/installation/repositories', query: 'per_page=100' }];
  const owners = [...new Set(patterns.map((pattern) => (pattern.split('/', 1)[0] as string).toLowerCase()))];
  const mine = '/user/repos';
  if (owners.some((owner) => owner.includes('*'))) return [{ path: mine, query: 'per_page=100' }];
  return owners.map((owner) => ({
    path: `/orgs/${owner}/repos`,
    query: 'type=all&per_page=100',
    // The owner is a user, whose private repositories appear only in the list of the credential's own user.
    otherwise: [
      { path: `/users/${owner}/repos`, query: 'type=owner&per_page=100' },
      { path: mine, query: 'affiliation=owner,collaborator&per_page=100', otherwise: [] },
    ],
  }));
}

const one = z
  .object({
    id: z.int().positive(),
    full_name: z.string().regex(REPOSITORY),
    archived: absent(z.boolean()),
    fork: absent(z.boolean()),
    has_issues: absent(z.boolean()),
  })
  .transform(({ id, full_name, archived = false, fork = false, has_issues: hasIssues = true }) => {
    return { id: String(id), name: full_name, archived, fork, hasIssues };
  });
