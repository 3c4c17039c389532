import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { UUID } from './payload.ts';

/** A host name alone, in lower case. */
const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** The address of an API: https, or http on loopback, without credentials and query. */
export const httpsAddress = z
  .string()
  .refine(isApiUrl, 'must be an https address without query (http only on loopback)');

export function hostName(example?: string) {
  const hint = example === undefined ? '' : `, for example ${example}`;
  return z.string().toLowerCase().regex(HOST, `must be a host name alone${hint}`);
}

/** A token or a key. @param form printable characters, as many as the vendor's tokens may have */
export function oneWord(form: RegExp) {
  return z.string().regex(form, 'must be one word of printable characters');
}

/** @param longest number of characters that the vendor accepts */
export function statusName(longest: number) {
  return z.string().min(1).max(longest);
}

/** An entry of a scope that may be a number. @param adapt converts it to the vendor's form */
export function nameOrNumber(form: RegExp, message: string, adapt = (text: string) => text) {
  return z
    .union([z.string(), z.int()])
    .transform((given) => adapt(String(given)))
    .pipe(z.string().regex(form, message));
}

/** The entries of a scope. @param word the vendor's word for one */
export function atLeastOne<Entry extends z.ZodType>(entry: Entry, word: string) {
  return z.array(entry).min(1, `must name at least one ${word}`);
}

export function excludes<Name extends string>(name: Name, others: readonly Name[], message: string) {
  const isValid = (given: Readonly<Partial<Record<Name, unknown>>>) =>
    given[name] === undefined || others.every((other) => given[other] === undefined);
  return [isValid, { path: [name] as PropertyKey[], message }] as const;
}

/** Whether requests may append paths to it and send a credential there: https, or http on loopback. */
function isApiUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname));
}

const credentialWord = oneWord(/^[\x21-\x7e]{1,8000}$/);

/** A grant of OAuth 2.0. @param tokenUrl the vendor's address that renews tokens */
export function oauthOption(tokenUrl: string) {
  return z
    .strictObject({
      clientId: credentialWord.describe("Client id of your app, as the vendor's console shows it."),
      clientSecret: credentialWord.describe("The app's client secret."),
      refreshToken: credentialWord.describe(
        'The refresh token of your consent. After a new consent, put the new token here.',
      ),
      tokenUrl: httpsAddress
        .default(tokenUrl)
        .describe('Address that renews tokens, where a proxy or a test stands in for it.'),
    })
    .optional();
}

/** Stands for every tenant, for the inspection of payloads without a configuration. */
export const ANY_TENANT = '00000000-0000-0000-0000-000000000000';

/**
 * Parses the host of a vendor whose hosts are ids of tenants. Returns `ANY_TENANT` without a host. Throws `usage`.
 *
 * @param what the vendor's word for such an id
 */
export function readTenant(host: string | undefined, what: string): string {
  const id = host?.toLowerCase() ?? ANY_TENANT;
  if (UUID.test(id)) return id;
  throw new SyncError('usage', `the host of these items is the ${what}, which is a UUID`);
}
