import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { type ApiDialect, createGitApi, linkedUrl, linkTo } from '../kit/git-api.ts';
import { readAnswer } from '../kit/payload.ts';
import { createBudget, malformed, type Rate, rateFrom } from '../kit/refusal.ts';
import { type Auth, HEADERS, refusal } from './auth.ts';
import { type Access, apiBase, derivedBase } from './options.ts';

export type Api = ReturnType<typeof createApi>;

export function createApi(access: Access, deps: ConnectionDeps, auth: Auth) {
  const links = { bases: [apiBase(access), derivedBase(access.host)], isSame: isSameList } as const;
  /** Throws `answer_malformed` for a link that leaves the requested list. */
  const urlOf = (answer: HttpAnswer, rel: string, path: string) => {
    const link = linkTo(answer.headers['link'], rel);
    return link === undefined ? undefined : linkedUrl(links, link, path);
  };
  /** The query of the link to the next page, unchanged, since large lists use cursors. */
  const nextQuery = (answer: HttpAnswer, path: string) => urlOf(answer, 'next', path)?.search.slice(1);
  const dialect: ApiDialect = {
    ...links,
    target: 'github',
    headers: HEADERS,
    authorization: auth.headers,
    budget: createBudget(deps.clock, rateOf),
    refusal,
    needsNewAuthorization: auth.answered,
    isMoved: (target, path) =>
      /^\/repositories\/\d+/.test(target) && withoutRepository(target) === withoutRepository(path),
    pageOf: (answer, { path }) => ({ found: listIn(answer, path), next: nextQuery(answer, path) }),
  };
  return {
    ...createGitApi(dialect, deps),
    nextQuery,
    /** Returns undefined if the answer has no such link. */
    linkedPage(answer: HttpAnswer, rel: string, path: string) {
      const url = urlOf(answer, rel, path);
      const page = url?.searchParams.get('page') ?? '';
      if (url === undefined || /^[1-9]\d{0,6}$/.test(page)) return url && Number(page);
      throw malformed(`GET ${path}: the link to another page leads elsewhere`);
    },
  };
}

/** A list, or the object in which GitHub sends the repositories of an installation. */
function listIn(answer: HttpAnswer, path: string): readonly unknown[] {
  const content = readAnswer(answer, `GET ${path}`) as { readonly repositories?: unknown } | null;
  const list = Array.isArray(content) ? content : content?.repositories;
  if (Array.isArray(list)) return list;
  throw malformed(`GET ${path}: the answer is not a list`);
}

/** Other resources, such as search and GraphQL, report limits of their own in the same headers. */
function rateOf(headers: HttpAnswer['headers']): Rate | undefined {
  return (headers['x-ratelimit-resource'] ?? 'core') === 'core' ? rateFrom(headers, 'x-ratelimit') : undefined;
}

/** `/repos/owner/name/pulls` → `/pulls`, `/repositories/12/pulls` → `/pulls`. */
function withoutRepository(path: string): string {
  return path.replace(/^\/(repos\/[^/]+\/[^/]+|repositories\/\d+)/, '');
}

/** GitHub's links name a repository, or an organisation, by its id, whatever name the request used. */
function isSameList(linked: string, path: string): boolean {
  if (/^\/repositories\/\d+\//.test(linked)) return withoutRepository(linked) === withoutRepository(path);
  const [owned, asked] = [linked, path].map((each) => /^\/(?:organizations|orgs|users?)\/[^/]+(\/.*)$/.exec(each)?.[1]);
  return owned !== undefined && owned === asked;
}
