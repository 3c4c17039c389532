import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { createMemory } from '../kit/cached-reads.ts';
import type { Page } from '../kit/git-api.ts';
import { absent, parseAnswer, readAnswer } from '../kit/payload.ts';
import type { RateLimitUse } from '../kit/refusal.ts';
import { type Candidate, createScopeResolver, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { ISSUES } from './items.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';

/** A repository as it is now. Its issues and its pull requests can be switched off: GitHub then hides them, and keeps them. */
export interface Repository extends Candidate {
  readonly hasIssues: boolean;
  readonly hasPullRequests: boolean;
  readonly isPrivate?: boolean | undefined;
}

/** Names the list of a repository that is switched off, for people; undefined if it is on. */
export function offIn(noun: string, { name, hasIssues, hasPullRequests }: Repository): string | undefined {
  if (noun === ISSUES) return hasIssues ? undefined : `issues of ${name}`;
  return hasPullRequests ? undefined : `pull requests of ${name}`;
}

export type Repositories = ReturnType<typeof createRepositories>;

export function repositoryPath(unit: string): string {
  return /^\d+$/.test(unit) ? `/repositories/${unit}` : `/repos/${unit}`;
}

const KEPT_FOR = 12 * 60_000;

/** The units are names if the configuration has them, else ids. */
export function createRepositories(api: Api, options: Options, clock: Clock) {
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

  const present = (name: string, signal: AbortSignal) => api.read(one, repositoryPath(name), { signal, use: 'poll' });

  return {
    ...createScopeResolver({
      scope,
      clock,
      lists: lists.map((list) => ({ name: list.name, read: (signal) => readAll(list, signal) })),
      candidate: (each) => each,
      unitOf: ({ id }) => id,
    }),
    present,
    /** Reads whether the list is switched off now; see `offIn`. */
    switchedOff: async (noun: string, unit: string, signal: AbortSignal) => offIn(noun, await present(unit, signal)),
    async find(unit: string, signal: AbortSignal, use: RateLimitUse = 'poll') {
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
  readonly name: string;
  readonly path: string;
  readonly query: string;
  /** The lists to read instead if this one does not exist, or this credential may not read it. */
  readonly otherwise?: readonly List[];
}

/** Returns the lists with everything that the patterns can match: that of the installation, or those of the named owners. */
function listsFor({ app }: Options, patterns: readonly string[]): readonly List[] {
  if (patterns.length === 0) return [];
  const name = patterns.join(', ');
  if (app) return [{ name, path: '/installation/repositories', query: 'per_page=100' }];
  const owners = [...new Set(patterns.map((pattern) => (pattern.split('/', 1)[0] as string).toLowerCase()))];
  const mine = '/user/repos';
  if (owners.some((owner) => owner.includes('*'))) return [{ name, path: mine, query: 'per_page=100' }];
  return owners.map((owner) => ({
    name: `${owner}/*`,
    path: `/orgs/${owner}/repos`,
    query: 'type=all&per_page=100',
    // The owner is a user, whose private repositories appear only in the list of the credential's own user.
    otherwise: [
      { name: `${owner}/*`, path: `/users/${owner}/repos`, query: 'type=owner&per_page=100' },
      { name: `${owner}/*`, path: mine, query: 'affiliation=owner,collaborator&per_page=100', otherwise: [] },
    ],
  }));
}

export const one = z
  .object({
    id: z.int().positive(),
    full_name: z.string().regex(REPOSITORY),
    archived: absent(z.boolean()),
    fork: absent(z.boolean()),
    has_issues: absent(z.boolean()),
    has_pull_requests: absent(z.boolean()),
    private: absent(z.boolean()),
  })
  .transform(({ id, full_name: name, archived = false, fork = false, private: isPrivate, ...has }): Repository => {
    const [hasIssues, hasPullRequests] = [has.has_issues ?? true, has.has_pull_requests ?? true];
    return { id: String(id), name, archived, fork, hasIssues, hasPullRequests, isPrivate };
  });
