import { type ZodType, z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import type { ConnectionDeps } from '../connector.ts';
import { saidBy } from '../kit/answers.ts';
import { parseAnswer, readAnswer, readable } from '../kit/json.ts';
import { feedBase, type Options } from './options.ts';

/** A page of the feed, each item with a long description. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const MINUTE = 60_000;
/** No honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;

type Query = Readonly<Record<string, string>>;

/** The feed of one connection. Everything but 200 is thrown. */
export interface Feed {
  /** @param keep whether a large answer may be read aside: see `HttpRequest` */
  get(path: string, query: Query, signal: AbortSignal, keep?: true): Promise<{ content: unknown; answer: HttpAnswer }>;
}

/** Undefined where none is configured. */
export function createFeed(options: Options, { http, clock }: ConnectionDeps): Feed | undefined {
  const base = feedBase(options);
  if (base === undefined) return undefined;
  const headers = {
    accept: 'application/json',
    'user-agent': 'worksync',
    ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
  };
  return {
    async get(path, query, signal, keep) {
      const search = new URLSearchParams(query).toString();
      const url = search === '' ? base + path : `${base}${path}?${search}`;
      const request = { method: 'GET' as const, url, headers, signal, keep, largestAnswer: LARGEST_ANSWER };
      const answer = await http.request({ ...request, target: 'generic' });
      if (answer.status !== 200) throw refusal(answer, `GET ${path}`, clock.now());
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
  };
}

function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const { status } = answer;
  const said = saidBy(answer, (body) => (body as { message?: unknown }).message);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status, hint });
  const wait = Math.max(retryAfter(answer.headers, now) ?? MINUTE, MINUTE);
  return new SyncError('rate_limited', message, { status, retryAfter: Math.min(wait, LONGEST_WAIT) });
}

/** Opaque, and sent back as it came: anything that looks like an address is none. */
const cursor = z.string().regex(/^[\w.=~+-]{1,1000}$/);

/** What every page has; absent or null on the last one. */
export const page = z.object({ nextCursor: cursor.nullish() });

interface Wanted<Page> {
  readonly path: string;
  readonly query: Query;
  /** Absent on the first page. */
  readonly cursor: string | undefined;
  readonly shape: ZodType<Page>;
}

/** One page of a list of the feed. Throws `answer_malformed`. */
export async function readPage<Page extends z.infer<typeof page>>(
  feed: Feed,
  wanted: Wanted<Page>,
  signal: AbortSignal,
): Promise<{ found: Page; next: string | undefined; answer: HttpAnswer }> {
  const { path, shape, cursor: present } = wanted;
  if (present !== undefined && readable(cursor, present) === undefined)
    throw new SyncError('internal', `the stored page of a walk is not one of ours: ${present.slice(0, 40)}`);
  const query = present === undefined ? wanted.query : { ...wanted.query, cursor: present };
  const { content, answer } = await feed.get(path, query, signal, true);
  const found = parseAnswer(shape, content, `GET ${path}`);
  const next = found.nextCursor ?? undefined;
  if (next !== undefined && next === present)
    throw new SyncError('answer_malformed', `GET ${path}: a page names itself as the next one`);
  return { found, next, answer };
}
