import { z } from 'zod';
import {
  atLeastOne,
  excludes,
  hostName,
  httpsAddress,
  nameOrNumber,
  oauthOption,
  oneWord,
  statusName,
} from '../kit/options.ts';
import { UUID } from '../kit/payload.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

/** A project's key, its number, or a pattern over keys. */
const PROJECT = /^(?:[1-9]\d{0,15}|[A-Z*][A-Z0-9_*]{0,254})$/;
const GATEWAY = 'https://api.atlassian.com/ex/jira/';

const project = nameOrNumber(
  PROJECT,
  'must be one project, by its key (ENG) or its number, or a pattern (ENG*, *)',
  (given) => given.toUpperCase(),
);

const word = oneWord(/^[\x21-\x7e]{1,4000}$/);

const fields = z.strictObject({
  site: hostName('acme.atlassian.net').describe(
    'Host of the Jira Cloud site, for example `acme.atlassian.net`. Links to issues lead there.',
  ),
  cloudId: z
    .string()
    .toLowerCase()
    .regex(UUID, 'must be the cloud id of the site; https://<site>/_edge/tenant_info shows it')
    .describe(
      "The site's cloud id, as `https://<site>/_edge/tenant_info` shows it. It survives renaming the site, so worksync identifies issues by it.",
    ),
  email: z
    .string()
    .regex(/^[^\s@:]{1,100}@[^\s@:]{1,150}$/, 'must be the e-mail address of an Atlassian account')
    .optional()
    .describe('Account that the API token belongs to. Leave it out for an OAuth 2.0 access token.'),
  token: word
    .optional()
    .describe(
      'API token of that account, or an OAuth 2.0 access token. Without one worksync reads only what is public.',
    ),
  oauth: oauthOption('https://auth.atlassian.com/oauth/token').describe(
    'An OAuth 2.0 (3LO) app whose access tokens worksync renews, in place of `email` and `token`.',
  ),
  apiUrl: httpsAddress
    .optional()
    .describe(
      'Address of the API, where it is not the site (with `email`) or `https://api.atlassian.com/ex/jira/<cloudId>` (without): API tokens with scopes need the latter too.',
    ),
  projects: atLeastOne(project, 'project').describe(
    'Projects by key, by number, or as patterns such as `*`; a number survives a change of the key.',
  ),
  exclude: z.array(project).default([]).describe('Projects to leave out.'),
  completedStatus: statusName(255)
    .optional()
    .describe('Status that closed issues get, if closing is switched on. Default: the first one of the category Done.'),
  dropped: z
    .array(statusName(255))
    .default(["Won't Do", "Won't Fix", 'Duplicate', 'Cannot Reproduce', 'Declined'])
    .describe('Resolutions, by name, of issues that were dropped. Other issues of the category Done are completed.'),
  publicComments: z
    .boolean()
    .default(false)
    .describe(
      'Whether customers see the comments that worksync writes in projects of Jira Service Management. Default: they are internal.',
    ),
});

export const options = fields.refine(
  ...excludes('oauth', ['email', 'token'], 'excludes email and token: give one or the other'),
);

export type Options = z.infer<typeof options>;

/** Base of the API, without a slash at its end (JI1). */
export function apiBase({ site, cloudId, email, token, oauth, apiUrl }: Options): string {
  if (apiUrl !== undefined) return asBase(apiUrl);
  const isOAuth = oauth !== undefined || (email === undefined && token !== undefined);
  return isOAuth ? `${GATEWAY}${cloudId}` : siteBase({ site });
}

/** Base of what the site answers without a credential; a proxy or a test replaces it too. */
export function tenantBase(given: Options): string {
  const { apiUrl } = given;
  return apiUrl === undefined || apiUrl.startsWith(GATEWAY) ? siteBase(given) : asBase(apiUrl);
}

export function siteBase({ site }: Pick<Options, 'site'>): string {
  return `https://${site}`;
}

export const scopeOf = scopeBy<Options>('projects');

/** Keys are quoted, since some of them are words of the language; numbers must not be. */
export function projectIs(unit: string): string {
  return /^\d+$/.test(unit) ? `project = ${unit}` : `project = "${unit}"`;
}
