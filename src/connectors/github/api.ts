import githubAppJwt from 'universal-github-app-jwt';
import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { ConnectionDeps } from '../connector.ts';
import { parseAnswer, readAnswer } from '../kit/payload.ts';
import {
  boundedWait,
  createBudget,
  errorOfStatus,
  malformed,
  providerTime,
  type Rate,
  rateFrom,
  retryAfter,
  vendorMessage,
} from '../kit/refusal.ts';
import { type ApiDialect, bearer, createGitApi, linkedUrl, linkTo } from '../kit/rest.ts';
import { type Access, apiBase, derivedBase } from './options.ts';

export const HEADERS = {
  accept: 'application/vnd.github+json',
  'x-github-api-version': '2022-11-28',
  'user-agent': 'worksync',
};

type Headers = Readonly<Record<string, string>>;

type App = NonNullable<Access['app']>;

interface Auth {
  /** Headers that authenticate a request; of an App, with an installation token that is created when needed. */
  headers(signal: AbortSignal): Promise<Headers>;
  /**
   * Looks at the answer to such a request. After a 401 the next request gets a new installation token.
   *
   * @returns whether to send the request once more, because it was refused for the time in its token
   */
  answered(answer: HttpAnswer): boolean;
}

type Deps = Pick<ConnectionDeps, 'http' | 'clock'>;

/** @param time of the server, where `access` is an App */
export function createAuth(access: Access, deps: Deps, time = createServerTime(deps.clock)): Auth {
  if (access.app) return installationAuth(access, access.app, deps, time);
  return { headers: async () => bearer(access.token), answered: () => false };
}

/** Authenticates as the App itself, to read about the App and its webhook. */
export function createAppAuth(app: App, time: ServerTime): Auth {
  return {
    headers: async () => bearer(await sign(app, time)),
    answered: (answer) => time.learn(answer) && answer.status === 401,
  };
}

type ServerTime = ReturnType<typeof createServerTime>;

/** A smaller difference cannot be the reason for a refusal, milliseconds. */
const TOLERATED = 30_000;

/**
 * The present time by GitHub's clock, because the tokens of an App contain it, and GitHub refuses those that are wrong by a minute.
 * It is our own time until an answer corrects it.
 */
export function createServerTime(clock: Clock) {
  let ahead = 0;
  return {
    now: () => clock.now() + ahead,
    /** Takes the time from the `Date` of an answer. @returns whether the time before was wrong by so much that GitHub may refuse it */
    learn(answer: Pick<HttpAnswer, 'headers'>) {
      const time = providerTime(answer);
      if (time === undefined) return false;
      const before = ahead;
      ahead = time - clock.now();
      return Math.abs(ahead - before) > TOLERATED;
    },
  };
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const installationToken = z.object({ token: z.string().min(1), expires_at: z.iso.datetime({ offset: true }) });

/**
 * Authenticates as an installation of a GitHub App. A token is valid for an hour; worksync replaces it five minutes before
 * it expires, by the clock that does not jump.
 */
function installationAuth(access: Access, app: App, deps: Deps, time: ServerTime): Auth {
  const { clock } = deps;
  let cached: { headers: Headers; until: number } | undefined;
  return {
    async headers(signal) {
      if (cached && clock.monotonic() < cached.until) return cached.headers;
      const { token, lifetime } = await mint(access, app, deps, time, signal);
      cached = { headers: bearer(token), until: clock.monotonic() + lifetime - 5 * MINUTE };
      return cached.headers;
    },
    answered({ status }) {
      if (status === 401) cached = undefined;
      return false;
    },
  };
}

async function mint(access: Access, app: App, { http, clock }: Deps, time: ServerTime, signal: AbortSignal) {
  const what = 'create an installation token';
  const url = `${apiBase(access)}/app/installations/${app.installationId}/access_tokens`;
  const auth = createAppAuth(app, time);
  const ask = async () => {
    const headers = { ...HEADERS, ...(await auth.headers(signal)) };
    return http.request({ method: 'POST', url, headers, target: 'github', signal });
  };
  const first = await ask();
  const answer = auth.answered(first) ? await ask() : first;
  if (answer.status !== 201) throw explained(refusal(answer, what, clock.now()));
  const { token, expires_at } = parseAnswer(installationToken, readAnswer(answer, what), what);
  return { token, lifetime: Math.min(HOUR, Date.parse(expires_at) - (providerTime(answer) ?? clock.now())) };
}

/** The package dates tokens 30 s back, and GitHub advises 60 s. A token is valid until ten minutes after its date. */
const FURTHER_BACK = 30;

async function sign(app: App, time: ServerTime): Promise<string> {
  try {
    const now = Math.floor(time.now() / 1_000) - FURTHER_BACK;
    return (await githubAppJwt({ id: app.id, privateKey: app.privateKey, now })).token;
  } catch {
    // The cause is left out: it may quote the key.
    throw new SyncError('unauthorized', 'the private key of the GitHub App cannot be used', {
      hint: 'Download a new private key from the settings of the App, and give worksync the whole file, unchanged.',
    });
  }
}

function explained(error: SyncError): SyncError {
  if (error.status !== 401 && error.status !== 404) return error;
  return new SyncError('unauthorized', error.message, {
    status: error.status,
    hint: "Compare app.id, app.installationId and the private key with the App's settings, and this machine's clock with the time.",
  });
}

const SECOND = 1_000;

/** Returns the error for an answer outside 2xx, with GitHub's message. 403 and 429 may both be a limit (GH5). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const detail = vendorMessage(answer, (body) => (body as { message?: unknown }).message);
  const plain = errorOfStatus(answer, what, now);
  const message = detail === '' ? plain.message : `${plain.message} (${detail})`;
  const wait = limitWait(answer, detail, now);
  if (wait === undefined)
    return new SyncError(plain.code, message, { status: answer.status, hint: remedyOf(answer, detail) ?? plain.hint });
  return new SyncError('rate_limited', message, { status: answer.status, retryAfter: boundedWait(wait) });
}

/** Returns the remedy for a refusal of one organisation or repository; undefined if GitHub gives no reason. */
function remedyOf({ status, headers }: HttpAnswer, message: string): string | undefined {
  if (status === 451 || /access blocked/i.test(message))
    return 'GitHub has blocked this repository: only its owner can solve that.';
  if (status !== 403) return undefined;
  if (headers['x-github-sso'] !== undefined || /\bSAML\b/.test(message))
    return 'The organisation requires single sign-on: authorise the token for it in the settings of the token ("Configure SSO"), or use a GitHub App.';
  if (/installation has been suspended/i.test(message))
    return 'The installation of the App is suspended: let the owner of the account end that in its settings, under "GitHub Apps".';
  if (/archived/i.test(message))
    return 'The repository is archived, so nothing in it can be changed: unarchive it, or leave it out of the connection.';
  if (/IP allow list/i.test(message))
    return 'The organisation allows only listed addresses: let its owner add the public address of this machine to its IP allow list.';
  return undefined;
}

/** Returns the milliseconds to wait, or undefined if it is no limit. A secondary limit requires a minute at least. */
function limitWait(answer: HttpAnswer, message: string, now: number): number | undefined {
  const { status, headers } = answer;
  if (status !== 403 && status !== 429) return undefined;
  const requestedWait = retryAfter(headers, now);
  const exhausted = headers['x-ratelimit-remaining'] === '0';
  if (status === 403 && requestedWait === undefined && !exhausted && !/rate limit|abuse detection/i.test(message))
    return undefined;
  const untilReset = Number(headers['x-ratelimit-reset']) * SECOND - (providerTime(answer) ?? now);
  if (exhausted && untilReset > 0) return Math.max(untilReset + SECOND, requestedWait ?? 0);
  return Math.max(requestedWait ?? 0, MINUTE);
}

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
