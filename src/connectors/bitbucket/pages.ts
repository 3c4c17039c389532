import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import { readAnswer } from '../kit/json.ts';

interface Page {
  readonly values: readonly unknown[];
  readonly next?: unknown;
  /** How many elements the whole list has, where it is told. */
  readonly size?: unknown;
}

/** Throws `answer_malformed`. */
export function readPage(answer: HttpAnswer, path: string): Page {
  const page = readAnswer(answer, `GET ${path}`) as Page | null;
  if (Array.isArray(page?.values)) return page;
  throw new SyncError('answer_malformed', `GET ${path}: the answer is not a page`, { status: answer.status });
}

/** The query of a stored page that was written by `linkTo`; undefined for one of another form. */
export function linkedQuery(page: string): string | undefined {
  return /^link:([\x21-\x7e]{1,4000})$/.exec(page)?.[1];
}

/** A list that links in circles would never end. A link without a page number cannot be compared with the present. */
export function linkTo(next: string, present: string, path: string): string {
  const leadsBack = (pageNumber(next) ?? Number.POSITIVE_INFINITY) <= (pageNumber(present) ?? 1);
  if (next === present || leadsBack)
    throw new SyncError('answer_malformed', `GET ${path}: the link to the next page leads back`);
  return `link:${next}`;
}

function pageNumber(query: string): number | undefined {
  const text = new URLSearchParams(query).get('page') ?? '';
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}
