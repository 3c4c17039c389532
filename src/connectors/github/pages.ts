import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Api } from './api.ts';

/** A place in a list that is read along its links: how many pages came before, and the query of this one. */
interface Place {
  readonly count: number;
  readonly query: string;
}

/** More pages than any repository has: a list that links in circles ends. */
const MOST_PAGES = 100_000;

/** @param first the query of the first page */
export function readPlace(page: string | undefined, first: string): Place {
  if (page === undefined) return { count: 0, query: first };
  const [, count, query] = /^link:(\d{1,6}):([\x21-\x7e]{1,4000})$/.exec(page) ?? [];
  if (query !== undefined) return { count: Number(count), query };
  throw new SyncError('internal', `the stored page of a list is not one of ours: ${page.slice(0, 40)}`);
}

/** The page after this one, as text to be stored; undefined on the last. */
export function nextPlace(api: Api, answer: HttpAnswer, path: string, { count, query }: Place): string | undefined {
  const next = api.nextQuery(answer, path);
  if (next === undefined) return undefined;
  if (next === query || count >= MOST_PAGES)
    throw new SyncError('answer_malformed', `GET ${path}: the link to the next page leads back`);
  return `link:${count + 1}:${next}`;
}
