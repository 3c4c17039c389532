import { z } from 'zod';
import { asBase, isApiUrl } from '../kit/addresses.ts';

export const HOST = 'bitbucket.org';
export const PUBLIC_API = 'https://api.bitbucket.org/2.0';

/** `workspace/slug`; neither part may be `.` or `..`, so a path built from it stays where it belongs. */
export const REPOSITORY = /^(?!\.{1,2}\/)[A-Za-z0-9._-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;

const word = z.string().regex(/^[\x21-\x7e]{1,1000}$/, 'must be one word of printable characters');

export const options = z
  .strictObject({
    apiUrl: z
      .string()
      .refine(isApiUrl, 'must be an https address without query (http only on loopback)')
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
    repositories: z
      .array(
        z
          .string()
          .regex(REPOSITORY, 'must be one repository as workspace/slug; patterns and workspaces are not supported yet'),
      )
      .min(1, 'must name at least one repository')
      .describe('Repositories as workspace/slug. Deliveries of others are ignored.'),
  })
  .refine((given) => (given.email === undefined) === (given.apiToken === undefined), {
    path: ['apiToken'],
    message: 'goes with `email`: give both or neither',
  })
  .refine((given) => given.token === undefined || given.apiToken === undefined, {
    path: ['apiToken'],
    message: 'excludes `token`: give one of the two',
  });

export type Options = z.infer<typeof options>;

/** For looking at payloads: no credential, and every repository in scope. */
export function unrestricted(): Options {
  return { repositories: ['*/*'] };
}

/** Base of the REST API, without a slash at its end (providers' facts §3.6). */
export function apiBase({ apiUrl }: Pick<Options, 'apiUrl'>): string {
  return apiUrl === undefined ? PUBLIC_API : asBase(apiUrl);
}

export function isAnonymous(given: Pick<Options, 'token' | 'apiToken'>): boolean {
  return given.token === undefined && given.apiToken === undefined;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/**
 * Shortest sensible poll interval, milliseconds. Bitbucket allows 1,000 requests in any hour, 60 without a credential,
 * and counts every one. A cycle costs one for each repository: polls take at most four fifths, the rest is for fetches.
 */
export function shortestPoll(given: Options): number {
  const [allowed, floor] = isAnonymous(given) ? [60, 5 * MINUTE] : [1_000, MINUTE];
  return Math.max(floor, Math.ceil((given.repositories.length * HOUR) / (0.8 * allowed)));
}
