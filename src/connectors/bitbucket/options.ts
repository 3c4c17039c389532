import { z } from 'zod';
import { commitsOption } from '../kit/commits.ts';
import { excludes, httpsAddress, oneWord } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { isPattern, type Scope, type WithNames } from '../kit/scope.ts';

export const HOST = 'bitbucket.org';
export const PUBLIC_API = 'https://api.bitbucket.org/2.0';

/** `workspace/slug`. Neither part may be `.` or `..`, so that a path made of it stays in its place. */
export const REPOSITORY = /^(?!\.{1,2}\/)[A-Za-z0-9._-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;

/** `workspace/slug` with stars in the slug only: the workspace decides whose repositories are listed. */
const REPOSITORIES = /^(?!\.{1,2}\/)[A-Za-z0-9._-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._*-]{1,100}$/;
const WORKSPACE = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;

const repositories = z
  .array(z.string().regex(REPOSITORIES, 'must be workspace/slug, or a pattern such as acme/api-*'))
  .default([]);

const word = oneWord(/^[\x21-\x7e]{1,1000}$/);

export const options = z
  .strictObject({
    apiUrl: httpsAddress
      .optional()
      .describe(`Address of the API, where it is not \`${PUBLIC_API}\`: a proxy, or a test.`),
    token: word
      .optional()
      .describe('Access token of a repository, a project or a workspace. Excludes `email` and `apiToken`.'),
    email: z
      .string()
      .regex(/^[^\s:@]{1,200}@[^\s:@]{1,200}$/, 'must be the e-mail address of an Atlassian account')
      .optional()
      .describe('E-mail address of the Atlassian account that `apiToken` belongs to.'),
    apiToken: word
      .optional()
      .describe('API token of a person, with scopes for Bitbucket. Needs `email`. App passwords no longer work.'),
    repositories: repositories.describe(
      'Repositories as workspace/slug, or patterns (`acme/api-*`). worksync ignores deliveries of others.',
    ),
    workspaces: z
      .array(z.string().regex(WORKSPACE, 'must be the id of one workspace, as its web address contains it'))
      .default([])
      .describe('Workspaces of Bitbucket; worksync follows all their repositories.'),
    exclude: repositories.describe('Repositories to leave out, as workspace/slug or patterns.'),
    forks: z.boolean().default(false).describe('Whether patterns and workspaces take in forks.'),
    commits: commitsOption,
  })
  .refine((given) => (given.email === undefined) === (given.apiToken === undefined), {
    path: ['apiToken'],
    message: 'goes with `email`: give both or neither',
  })
  .refine(...excludes('apiToken', ['token'], 'excludes `token`: give one of the two'))
  .refine((given) => given.repositories.length + given.workspaces.length > 0, {
    path: ['repositories'],
    message: 'must name at least one repository, here or by workspaces',
  });

export type Options = z.infer<typeof options>;

export function unrestricted(): Options {
  return { repositories: ['*/*'], workspaces: [], exclude: [], forks: true, commits: false };
}

/** Pure. Returns the options as one scope. Bitbucket has no archived repositories. */
export function scopeOf({ repositories: named, workspaces, exclude, forks, names }: Options & WithNames): Scope {
  return {
    include: [...named, ...workspaces.map((workspace) => `${workspace}/*`)],
    exclude,
    archived: true,
    forks,
    names,
  };
}

/** Base of the REST API, without a slash at its end (BB5). */
export function apiBase({ apiUrl }: Pick<Options, 'apiUrl'>): string {
  return apiUrl === undefined ? PUBLIC_API : asBase(apiUrl);
}

export function isAnonymous(given: Pick<Options, 'token' | 'apiToken'>): boolean {
  return given.token === undefined && given.apiToken === undefined;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/**
 * Shortest sensible poll interval, milliseconds. Bitbucket allows 1,000 requests in any hour, 60 without a credential, and
 * counts every one. Polling all repositories once takes one for each: polls take at most four fifths, and leave the rest to
 * fetches. This does not know how many repositories a pattern matches: the budget limits their cost.
 */
export function shortestPoll(given: Options): number {
  const [allowed, floor] = isAnonymous(given) ? [60, 5 * MINUTE] : [1_000, MINUTE];
  const named = given.repositories.filter((repository) => !isPattern(repository)).length;
  return Math.max(floor, Math.ceil((named * HOUR) / (0.8 * allowed)));
}
