import { type ZodType, z } from 'zod';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { nextPage, storedPage } from '../kit/pages.ts';
import type { Refusals } from '../kit/refusal.ts';
import { bearer, createRest, type Rest } from '../kit/rest.ts';
import { feedBase, type Options } from './options.ts';

const MINUTE = 60_000;

const refusals: Refusals = { messageOf: (body) => (body as { message?: unknown }).message, shortest: MINUTE };

/** The feed of one connection; undefined where none is configured. */
export function createFeed(options: Options, deps: ConnectionDeps): Rest | undefined {
  const base = feedBase(options);
  if (base === undefined) return undefined;
  return createRest({ target: 'generic', base, headers: bearer(options.token), refusals }, deps);
}

/** Opaque, and sent back as it came: anything that looks like an address is none. */
const CURSOR = /^[\w.=~+-]{1,1000}$/;

/** What every page has; absent or null on the last one. */
export const page = z.object({ nextCursor: z.string().nullish() });

interface Wanted<Page> {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Absent on the first page. */
  readonly cursor: string | undefined;
  readonly shape: ZodType<Page>;
}

/** One page of a list of the feed. Throws `answer_malformed`. */
export async function readPage<Page extends z.infer<typeof page>>(
  feed: Rest,
  { path, query, shape, cursor }: Wanted<Page>,
  signal: AbortSignal,
): Promise<{ found: Page; next: string | undefined; answer: HttpAnswer }> {
  const present = storedPage(cursor, CURSOR);
  const wanted = present === undefined ? query : { ...query, cursor: present };
  const { content: found, answer } = await feed.read(shape, path, wanted, signal, true);
  const { nextCursor } = found;
  const next =
    nextCursor === undefined || nextCursor === null ? undefined : nextPage(nextCursor, CURSOR, present, `GET ${path}`);
  return { found, next, answer };
}
