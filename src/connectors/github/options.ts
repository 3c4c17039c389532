import { z } from 'zod';
import { asBase, HOST, isApiUrl } from '../kit/addresses.ts';

/** `owner/name`; neither part may be `.` or `..`, so a path built from it stays where it belongs. */
export const REPOSITORY = /^(?!\.{1,2}\/)[A-Za-z0-9._-]{1,100}\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;

const app = z
  .strictObject({
    id: z
      .union([z.string().regex(/^\w+$/, 'must be the App id or the client id'), z.int().positive()])
      .transform(String)
      .describe('App id or client id of the GitHub App.'),
    privateKey: z
      .string()
      .regex(/-----BEGIN (RSA )?PRIVATE KEY-----/, 'must be a private key in PEM form, as GitHub hands it out')
      .describe('Private key of the App in PEM form. Best given as a file.'),
    installationId: z
      .union([z.string().regex(/^\d+$/, 'must be a number'), z.int().positive()])
      .transform(String)
      .describe('Id of the installation that holds the repositories; the last part of its settings address.'),
  })
  .describe('GitHub App that reads the repositories. The supported form: one App per workspace. Excludes `token`.');

export const options = z
  .strictObject({
    host: z
      .string()
      .toLowerCase()
      .regex(HOST, 'must be a host name alone, for example ghe.example.com')
      .default('github.com')
      .describe('Host of the GitHub: github.com, a host under ghe.com, or a GitHub Enterprise Server.'),
    apiUrl: z
      .string()
      .refine(isApiUrl, 'must be an https address without query (http only on loopback)')
      .optional()
      .describe('Address of the API, where it is not the one that follows from `host`: a proxy, or a test.'),
    token: z
      .string()
      .regex(/^[\x21-\x7e]{1,1000}$/, 'must be one word of printable characters')
      .optional()
      .describe('Personal access token. Without one only public repositories are read, at 60 requests an hour.'),
    app: app.optional(),
    repositories: z
      .array(
        z
          .string()
          .regex(REPOSITORY, 'must be one repository as owner/name; patterns and organisations are not supported yet'),
      )
      .min(1, 'must name at least one repository')
      .describe('Repositories as owner/name. Deliveries of others are ignored.'),
  })
  .refine((given) => given.token === undefined || given.app === undefined, {
    path: ['app'],
    message: 'excludes `token`: give one of the two',
  });

export type Options = z.infer<typeof options>;

/** Base of the REST API, without a slash at its end (providers' facts §1.8). */
export function apiBase(given: Pick<Options, 'host' | 'apiUrl'>): string {
  return given.apiUrl === undefined ? derivedBase(given.host) : asBase(given.apiUrl);
}

/** The base that links and redirects of this host name, also when requests go through another address. */
export function derivedBase(host: string): string {
  if (host === 'github.com') return 'https://api.github.com';
  return host.endsWith('.ghe.com') ? `https://api.${host}` : `https://${host}/api/v3`;
}

const MINUTE = 60_000;

/**
 * Shortest sensible poll interval, milliseconds. Without a token GitHub allows 60 requests an hour from one address
 * and counts the conditional ones too: polls take at most 48 of them, the rest is for fetches.
 */
export function shortestPoll(given: Options): number {
  if (given.token !== undefined || given.app !== undefined) return MINUTE;
  return Math.max(5 * MINUTE, given.repositories.length * 75_000);
}
