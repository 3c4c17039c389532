import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import { commitsOption } from '../kit/commits.ts';
import { excludes, hostName, httpsAddress, nameOrNumber, oneWord } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { isPattern, type Scope, type WithNames } from '../kit/scope.ts';

export const PUBLIC_HOST = 'github.com';

/** `owner/name`. Neither part may be `.` or `..`, so that a path made of it stays in its place. */
export const REPOSITORY = /^(?!\.{1,2}\/)[A-Za-z0-9._-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;
/** `owner/name` with stars, or a repository's id. */
const REPOSITORIES = /^(?:[1-9]\d{0,15}|(?!\.{1,2}\/)[A-Za-z0-9._*-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._*-]{1,100})$/;
const OWNER = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;

const app = z
  .strictObject({
    id: z
      .union([z.string().regex(/^\w+$/, 'must be the App id or the client id'), z.int().positive()])
      .transform(String)
      .describe('App id or client id of the GitHub App.'),
    privateKey: z
      .string()
      .regex(/-----BEGIN (RSA )?PRIVATE KEY-----/, {
        error: 'must be a private key in PEM form, as GitHub gives it to you',
        abort: true,
      })
      .refine(isPrivateKey, 'is no whole private key: give it as GitHub gives it to you, without quotes')
      .describe('Private key of the App in PEM form. Best given as a file.'),
    installationId: z
      .union([z.string().regex(/^\d+$/, 'must be a number'), z.int().positive()])
      .transform(String)
      .describe('Id of the installation that has the repositories: the last part of the address of its settings.'),
  })
  .describe('GitHub App that reads the repositories. Recommended: one App for each workspace. Excludes `token`.');

/** Whether tokens can be signed with it. A variable of one line has a backslash and `n` for line ends. */
function isPrivateKey(pem: string): boolean {
  try {
    return createPrivateKey(pem.replaceAll(String.raw`\n`, '\n')).asymmetricKeyType === 'rsa';
  } catch {
    return false;
  }
}

const repositories = z
  .array(nameOrNumber(REPOSITORIES, 'must be owner/name, a pattern such as acme/api-*, or the id of a repository'))
  .default([]);

export const options = z
  .strictObject({
    host: hostName('ghe.example.com')
      .default(PUBLIC_HOST)
      .describe('Host of the GitHub: github.com, a host under ghe.com, or a GitHub Enterprise Server.'),
    apiUrl: httpsAddress
      .optional()
      .describe('Address of the API, where it is not the one that follows from `host`: a proxy, or a test.'),
    token: oneWord(/^[\x21-\x7e]{1,1000}$/)
      .optional()
      .describe(
        'Personal access token. Without token and App, worksync reads only public repositories, at 60 requests an hour.',
      ),
    app: app.optional(),
    repositories: repositories.describe(
      'Repositories as owner/name, patterns (`acme/*`, `acme/api-*`), or ids, which survive renaming. worksync ignores deliveries of others. With an App, and without repositories and organizations, it follows all repositories of the installation.',
    ),
    organizations: z
      .array(z.string().regex(OWNER, 'must be the login of one organisation or user'))
      .default([])
      .describe('Organisations or users, by login; worksync follows all their repositories.'),
    exclude: repositories.describe('Repositories to leave out, as names, patterns or ids.'),
    archived: z.boolean().default(false).describe('Whether patterns and organisations take in archived repositories.'),
    forks: z.boolean().default(false).describe('Whether patterns and organisations take in forks.'),
    issues: z.boolean().default(false).describe('Whether worksync follows issues too, as work items.'),
    commits: commitsOption,
  })
  .refine(...excludes('app', ['token'], 'excludes `token`: give one of the two'))
  .refine((given) => given.app !== undefined || given.repositories.length + given.organizations.length > 0, {
    path: ['repositories'],
    message: 'must name at least one repository, here or by organizations',
  })
  .refine((given) => hasCredential(given) || !needsListing(given), {
    path: ['repositories'],
    message: 'patterns and organisations need app or token: without one there are 60 requests an hour',
  });

export type Options = z.infer<typeof options>;

export interface Access {
  readonly host: string;
  readonly apiUrl?: string | undefined;
  readonly token?: string | undefined;
  readonly app?: Options['app'];
}

export function unrestricted(host = PUBLIC_HOST): Options {
  const scope = { repositories: ['*/*'], organizations: [], exclude: [], archived: true, forks: true };
  return { host, ...scope, issues: false, commits: false };
}

export function scopeOf(given: Options & WithNames): Scope {
  const { repositories, organizations, exclude, archived, forks, names } = given;
  const named = [...repositories, ...organizations.map((owner) => `${owner}/*`)];
  return { include: named.length === 0 ? ['*/*'] : named, exclude, archived, forks, names };
}

export function hasCredential({ token, app }: { readonly token?: unknown; readonly app?: unknown }): boolean {
  return token !== undefined || app !== undefined;
}

interface Named {
  readonly repositories: readonly string[];
  readonly organizations: readonly string[];
}

function needsListing({ repositories, organizations }: Named): boolean {
  return organizations.length > 0 || repositories.some(isPattern);
}

/** Base of the REST API, without a slash at its end (GH7). */
export function apiBase(given: Pick<Access, 'host' | 'apiUrl'>): string {
  return given.apiUrl === undefined ? derivedBase(given.host) : asBase(given.apiUrl);
}

/** The base that this host writes into its links and redirects, even when requests go through another address. */
export function derivedBase(host: string): string {
  if (host === PUBLIC_HOST) return 'https://api.github.com';
  return host.endsWith('.ghe.com') ? `https://api.${host}` : `https://${host}/api/v3`;
}

const MINUTE = 60_000;

/**
 * Shortest sensible poll interval, milliseconds. Without a credential GitHub allows 60 requests an hour from one address
 * and counts conditional ones too: polls take at most 48 of them and leave the rest to fetches.
 */
export function shortestPoll(given: Options): number {
  if (hasCredential(given)) return MINUTE;
  return Math.max(5 * MINUTE, given.repositories.length * (given.issues ? 2 : 1) * 75_000);
}
