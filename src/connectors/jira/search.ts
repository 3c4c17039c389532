import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer } from '../kit/json.ts';
import { type Api, malformed } from './api.ts';
import * as schema from './schema.ts';

const PATH = '/rest/api/3/search/jql';

/** Opaque, and sent back as it came: anything that looks like an address is none. */
const TOKEN = /^[\w+/=.~-]{1,4000}$/;

/** What is looked at of a page. */
const KEPT: Shape = { issues: schema.KEPT, nextPageToken: true, isLast: true };

const page = z.object({
  issues: z.array(z.unknown()),
  nextPageToken: absent(z.string().nullable()),
  isLast: absent(z.boolean()),
});

interface Found {
  readonly issues: readonly unknown[];
  /** Names the next page; absent on the last one. */
  readonly next: string | undefined;
  readonly answer: HttpAnswer;
}

interface Search {
  /** Must have a restriction: Jira refuses to search everything. */
  readonly jql: string;
  readonly fields: string;
  readonly size: number;
  readonly page?: string | undefined;
}

/** One page of what a query finds (providers' facts §5); the same query must go with each page's token. */
export async function search(api: Api, wanted: Search, signal: AbortSignal): Promise<Found> {
  const { jql, fields, size, page: token } = wanted;
  const query = { jql, fields, maxResults: String(size), ...(token === undefined ? {} : { nextPageToken: token }) };
  if (token !== undefined && !TOKEN.test(token))
    throw new SyncError('internal', `the stored page of a walk is not one of Jira's: ${token.slice(0, 40)}`);
  const { content, answer } = await api.get(PATH, query, signal, KEPT);
  const data = parseAnswer(page, content, `GET ${PATH}`);
  const next = data.isLast === true ? undefined : (data.nextPageToken ?? undefined);
  if (data.isLast === false && next === undefined) throw malformed(`GET ${PATH}: the next page has no name`);
  if (next !== undefined && !TOKEN.test(next)) throw malformed(`GET ${PATH}: the name of the next page is none`);
  return { issues: data.issues, next, answer };
}

/** Keys are quoted, since some of them are words of the language; numbers must not be. */
export function projectIs(unit: string): string {
  return /^\d+$/.test(unit) ? `project = ${unit}` : `project = "${unit}"`;
}

/**
 * An instant as the language takes it in every time zone: milliseconds since 1970, without quotes. A written date would
 * mean the zone of the profile that the token belongs to.
 */
export function instant(time: number): string {
  return String(Math.floor(time));
}
