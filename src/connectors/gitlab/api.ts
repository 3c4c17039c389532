import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readList } from '../kit/payload.ts';
import { createBudget, malformed, rateFrom, refusalOf, untilReset, vendorMessage } from '../kit/refusal.ts';
import { type ApiDialect, bearer, createGitApi, linkedUrl, linkTo } from '../kit/rest.ts';
import { type Access, apiBase, derivedBase } from './options.ts';

export type Neighbour = 'next' | 'prev' | 'last';

export type Api = ReturnType<typeof createApi>;

export function createApi(access: Access, deps: ConnectionDeps) {
  const links = { bases: [apiBase(access), derivedBase(access.host)], isSame: isSameByNumber } as const;
  /** Undefined if the answer names no such page. Throws `answer_malformed` for a link that leaves the requested list. */
  const pageNumber = (answer: HttpAnswer, which: Neighbour, path: string) => {
    const plain = answer.headers[PAGE_HEADERS[which]];
    if (plain !== undefined) return readNumber(plain, path);
    const link = linkTo(answer.headers['link'], which);
    if (link === undefined) return undefined;
    const number = readNumber(linkedUrl(links, link, path).searchParams.get('page') ?? '', path);
    if (number === undefined) throw malformed(`GET ${path}: the link to another page leads elsewhere`);
    return number;
  };
  // GitLab accepts `Bearer` for tokens of every kind, OAuth's too (GL10).
  const authorization = bearer(access.token);
  const dialect: ApiDialect = {
    ...links,
    target: 'gitlab',
    headers: { accept: 'application/json', 'user-agent': 'worksync' },
    authorization: async () => authorization,
    budget: createBudget(deps.clock, (headers) => rateFrom(headers, 'ratelimit')),
    // Only 429 is a limit; its body is plain text (GL8).
    refusal: (...given) => refusalOf({ messageOf, waitOf }, ...given),
    // GitLab names a moved project, or group, by its number in `Location` (GL7).
    isMoved: isSameByNumber,
    pageOf(answer, { path, query }) {
      const found = readList(answer, `GET ${path}`);
      const [present, next] = [Number(PAGE.exec(query)?.[1]), pageNumber(answer, 'next', path)];
      if (next === undefined) return { found, next };
      if (next > present) return { found, next: query.replace(PAGE, `&page=${next}`) };
      throw malformed(`GET ${path}: the page after ${present} is said to be ${next}`);
    },
    firstQuery: (query = 'per_page=100') => `${query.includes('per_page=') ? query : `${query}&per_page=100`}&page=1`,
  };
  return { ...createGitApi(dialect, deps), pageNumber };
}

const PAGE = /&page=(\d+)$/;

/** Plain numbers, empty where there is no such page. If a proxy drops these headers, `Link` has the same numbers. */
const PAGE_HEADERS: Readonly<Record<Neighbour, string>> = {
  next: 'x-next-page',
  prev: 'x-prev-page',
  last: 'x-total-pages',
};

/** Whether both paths mean the same part of a project or a group, which the first path names by number. */
function isSameByNumber(numbered: string, path: string): boolean {
  const [, kind, rest] = /^\/(projects|groups)\/\d+((?:\/.*)?)$/.exec(numbered) ?? [];
  const [, wantedKind, wantedRest] = /^\/(projects|groups)\/[^/]+((?:\/.*)?)$/.exec(path) ?? [];
  return kind !== undefined && kind === wantedKind && rest === wantedRest;
}

function readNumber(text: string, path: string): number | undefined {
  if (text === '') return undefined;
  if (/^\d{1,7}$/.test(text)) return Number(text) || undefined;
  throw malformed(`GET ${path}: the number of another page cannot be read`);
}

const SECOND = 1_000;

/** gitlab.com counts limits by the minute, self-managed servers may count by the hour. */
function waitOf(answer: HttpAnswer, now: number): number | undefined {
  return untilReset(answer, Number(answer.headers['ratelimit-reset']) * SECOND, now);
}

export function saidOf(answer: HttpAnswer): string {
  return vendorMessage(answer, messageOf);
}

/**
 * Returns the message in either field: a text, a list of texts, or lists of texts by field, as in `{"message": {"title": ["is too
 * long"]}}`.
 */
function messageOf(body: unknown): unknown {
  const { message, error } = body as { message?: unknown; error?: unknown };
  return [message, error]
    .map(textsOf)
    .find((texts) => texts.length > 0)
    ?.join('; ');
}

function textsOf(said: unknown): readonly string[] {
  if (typeof said === 'string') return [said];
  if (Array.isArray(said)) return said.filter((text) => typeof text === 'string');
  if (typeof said !== 'object' || said === null) return [];
  return Object.entries(said).flatMap(([field, texts]) => textsOf(texts).map((text) => `${field} ${text}`));
}
