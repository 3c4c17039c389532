import { z } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { STATUS_NAME } from '../../model/notice.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { ConnectionDeps, Finding, Known } from '../connector.ts';
import { upsertHiddenComment } from '../kit/comments.ts';
import { messageText, withCommits } from '../kit/commits.ts';
import {
  accessFinding,
  expiryFinding,
  failedFinding,
  findingsOf,
  type GitChecks,
  limitFinding,
} from '../kit/findings.ts';
import type { GitSource } from '../kit/git.ts';
import type { Lookup } from '../kit/items.ts';
import { parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { featureOff, undefinedOn } from '../kit/refusal.ts';
import { createListing } from '../kit/rest.ts';
import { addressOf, namedIn } from '../kit/scope.ts';
import { type Api, createApi, createAppAuth, createAuth, createServerTime } from './api.ts';
import { createFindHook, createHooks, createRedeliver, type Parts } from './hooks.ts';
import { ISSUES, type Locator } from './items.ts';
import { createLists, createRepositories, offIn, one, type Repository, repositoryPath } from './lists.ts';
import { type Options, REPOSITORY, scopeOf, shortestPoll } from './options.ts';
import { type GithubReview, KEPT, KEPT_OF_ISSUE, KEPT_OF_REVIEW, reviewList, slim, slimIssue } from './schema.ts';

export function connect(options: Options, deps: ConnectionDeps): GitSource<Locator> {
  const { clock } = deps;
  const time = createServerTime(clock);
  const api = createApi(options, deps, createAuth(options, deps, time));
  const appApi = options.app && createApi(options, deps, createAppAuth(options.app, time));
  const repositories = createRepositories(api, options, clock);
  const parts = { api, appApi, options, repositories, findHook: createFindHook(api), clock };
  const me = createListing(clock, (signal) => readAccount(api, appApi, signal), Number.POSITIVE_INFINITY);
  const nameOf = createPresentNames(api, clock);
  const get = (path: string, keep: Shape, signal: AbortSignal) => api.read(z.unknown(), path, { signal, keep });

  /** Requests by the repository's name first, as documented, then by its id if another repository has that name now. */
  async function pull({ repository, repoId, number }: Locator, known: Known, signal: AbortSignal) {
    const [byName, byId] = [`/repos/${repository}/pulls/${number}`, `/repositories/${repoId}/pulls/${number}`];
    const named = await get(byName, KEPT, signal);
    const isOther = parseAnswer(withRepository, named, `GET ${byName}`) !== repoId;
    const [path, found] = isOther ? [byId, await get(byId, KEPT, signal)] : [byName, named];
    const reviews = known.wantsReviews ? await reviewsOf(api, path, signal) : undefined;
    return withCommits(
      { ...(slim(found) as object), ...(reviews && { reviews }) },
      readable(withHead, found),
      { ...options, commitsSha: known.commitsSha },
      {
        pages: () => api.pages(z.unknown(), `${path}/commits`, { query: 'per_page=100', signal, keep: COMMITS }),
        messageOf,
        order: 'oldest first',
      },
    );
  }

  /** Compares the issue's own id: if another repository took over the name, the number belongs to another issue there. */
  async function issue({ repository, repoId, number, id }: Locator, signal: AbortSignal) {
    for (const place of [`/repos/${repository}`, `/repositories/${repoId}`]) {
      const found = await get(`${place}/issues/${number}`, ONE_ISSUE, signal);
      if (readable(withId, found) !== id) continue;
      // An issue names its repository only by an address, which contains the present name.
      const name = readable(withAddress, found) ?? repository;
      return { repository: { id: Number(repoId), full_name: name }, issue: slimIssue(found) };
    }
    return undefined;
  }

  /** Does something at the repository's present address: GitHub does not redirect writes. */
  async function atPresent<Result>(wanted: Locator, signal: AbortSignal, work: (path: string) => Promise<Result>) {
    const path = `/repos/${await nameOf.at(wanted, signal)}`;
    try {
      return await work(path);
    } catch (thrown) {
      // The name may be the reason, so the next call reads it again.
      nameOf.forget(wanted);
      throw thrown;
    }
  }

  async function write(method: 'POST' | 'PATCH', path: string, body: object, signal: AbortSignal): Promise<void> {
    await api.write(method, path, { body, signal });
  }

  return {
    ...createLists(api, repositories, options),
    ...createChecks(parts),
    identify: repositories.present,
    /** GitHub answers 410 or 404 for what was deleted. It redirects from a transferred issue, which is another issue there. */
    async item(noun, locator, known, signal): Promise<Lookup> {
      try {
        const found = noun === ISSUES ? await issue(locator, signal) : await pull(locator, known, signal);
        return found === undefined ? { isGone: true } : { found };
      } catch (thrown) {
        const { code, status = 0 } = asSyncError(thrown);
        const isTransferred = noun === ISSUES && status >= 300 && status <= 399;
        if (code !== 'not_found' && !isTransferred) throw thrown;
        // GitHub answers 410 also to each issue of a repository whose issues are switched off.
        if (status === 410 && noun === ISSUES) requireOn(noun, await repositories.present(locator.repoId, signal));
        return { isGone: status === 410 || isTransferred };
      }
    },
    async requireVisible(noun, { repository, repoId, number }, signal) {
      const found = await get(`/repos/${repository}`, FEATURES, signal);
      if (readable(withId, found) !== repoId)
        throw new SyncError('not_found', `${repository} is another repository now, and has no ${number}`);
      const read = readable(one, found);
      if (read) requireOn(noun, read);
    },
    featureOffIn: repositories.switchedOff,
    hooks: createHooks(parts),
    redeliver: createRedeliver(parts),
    comment: (_, locator, given, signal) =>
      atPresent(locator, signal, async (repository) => {
        const path = `${repository}/issues/${locator.number}/comments`;
        const us = await me(signal);
        return upsertHiddenComment(given, {
          pages: () => api.pages(comment, path, { query: 'per_page=100', signal }),
          textOf: ({ body }) => body,
          authorOf: (each) => (appApi ? each.performed_via_github_app : each.user)?.id,
          ownAuthor: async () => us?.id,
          post: (body) => write('POST', path, { body }, signal),
          edit: ({ id }, body) => write('PATCH', `${repository}/issues/comments/${id}`, { body }, signal),
        });
      }),
    status: createStatus(api, atPresent),
    closeIssue: (locator, key, signal) =>
      atPresent(locator, signal, async (repository) => {
        const path = `${repository}/issues/${locator.number}`;
        const { id, state } = await api.read(standing, path, { signal });
        if (String(id) !== locator.id) throw new SyncError('not_found', `${path} is another issue than ${key}`);
        if (state === 'closed') return;
        await write('PATCH', path, { state: 'closed', state_reason: 'completed' }, signal);
      }),
  };
}

/** The account of the credential; undefined for the tokens of workflows, which have no user. */
async function readAccount(api: Api, appApi: Api | undefined, signal: AbortSignal) {
  if (appApi) return appApi.read(account, '/app', { signal });
  return undefinedOn(api.read(account, '/user', { signal }), 'forbidden');
}

const FEATURES: Shape = { id: true, full_name: true, has_issues: true, has_pull_requests: true };

/** Throws `feature_off`: what is switched off is hidden, and not gone. */
function requireOn(noun: string, repository: Repository): void {
  const what = offIn(noun, repository);
  if (what !== undefined) throw featureOff(what);
}

/** GitHub keeps every write, and shows the newest (GH9). */
function createStatus(
  api: Api,
  atPresent: (wanted: Locator, signal: AbortSignal, work: (path: string) => Promise<unknown>) => Promise<unknown>,
): GitSource<Locator>['status'] {
  return {
    right: '"Commit statuses: write" (a classic token: the scope repo:status)',
    write: (locator, { sha, state, text }, signal) =>
      atPresent(locator, signal, (repository) =>
        api.write('POST', `${repository}/statuses/${sha}`, {
          body: { state, context: STATUS_NAME, description: text },
          signal,
        }),
      ),
  };
}

const COMMITS: Shape = { commit: { message: true } };
const messageOf = z.object({ commit: z.object({ message: messageText }) }).transform(({ commit }) => commit.message);

const withHead = z.object({ head: z.object({ sha: z.string() }) }).transform(({ head }) => head.sha);
const withId = z.object({ id: z.int().transform(String) }).transform(({ id }) => id);
const withRepository = z
  .object({ base: z.object({ repo: z.object({ id: z.int() }) }) })
  .transform(({ base }) => String(base.repo.id));

const ONE_ISSUE: Shape = { ...KEPT_OF_ISSUE, repository_url: true };
const withAddress = z
  .object({ repository_url: z.string() })
  .transform(({ repository_url: address }) => address.split('/').slice(-2).join('/'))
  .pipe(z.string().regex(REPOSITORY));

const standing = z.object({ id: z.int().positive(), state: z.string() });
const account = z.object({ id: z.int().transform(String) });
const comment = z.object({
  id: z.int().positive(),
  body: z.string().catch(''),
  user: account.nullish().catch(undefined),
  performed_via_github_app: account.nullish().catch(undefined),
});

/** How long worksync trusts a name, milliseconds. After a rename anybody may take over the old name. */
const BELIEVED = 5 * 60_000;
const repositoryAnswer = z.object({ id: z.int().transform(String), full_name: z.string().regex(REPOSITORY) });

/**
 * The present names of repositories. Requests use the last known name, as documented, which GitHub redirects to the present one, or
 * the id where another repository has that name.
 */
function createPresentNames(api: Api, clock: Clock) {
  const known = new Map<string, { readonly name: string; readonly until: number }>();
  return {
    async at({ repoId, repository }: Locator, signal: AbortSignal): Promise<string> {
      const held = known.get(repoId);
      if (held && held.until > clock.monotonic()) return held.name;
      // Another owner may have taken over the old name for a private repository.
      const named = await undefinedOn(api.read(repositoryAnswer, `/repos/${repository}`, { signal }), 'not_found');
      const found =
        named?.id === repoId ? named : await api.read(repositoryAnswer, `/repositories/${repoId}`, { signal });
      known.set(repoId, { name: found.full_name, until: clock.monotonic() + BELIEVED });
      return found.full_name;
    },
    forget({ repoId }: Locator): void {
      known.delete(repoId);
    },
  };
}

/**
 * Reads the reviews of a pull request. Undefined if the credential may not read them, or if there is a second page: the newest
 * come last (GH14).
 */
async function reviewsOf(api: Api, pull: string, signal: AbortSignal): Promise<readonly GithubReview[] | undefined> {
  const [path, query] = [`${pull}/reviews`, 'per_page=100'];
  const answer = await undefinedOn(api.get(path, { query, signal, keep: KEPT_OF_REVIEW }), 'not_found', 'forbidden');
  if (answer === undefined) return undefined;
  const { found, next } = api.pageOf(answer, { path, query });
  return next === undefined ? parseAnswer(reviewList, found, `GET ${path}`) : undefined;
}

function createChecks({ api, appApi, options, repositories, clock }: Parts): GitChecks {
  const scope = scopeOf(options);
  return {
    async credential(signal) {
      if (options.app && appApi) return asInstallation(api, appApi, options.app.installationId, signal);
      return options.token === undefined ? [anonymous(options)] : asToken(api, clock.now(), signal);
    },
    get: api.get,
    namedRepositories: () =>
      namedIn(scope).map((subject) => ({
        subject,
        path: repositoryPath(addressOf(subject, scope)),
        describe: (told) => describeRepository(subject, told),
      })),
    offIn: (noun, told) => {
      const repository = readable(one, told);
      return repository && offIn(noun, repository);
    },
    lists: { names: options.issues ? ['pulls', 'issues'] : ['pulls'], query: 'state=all&per_page=1' },
    repositories,
    limit: (headers) =>
      limitFinding(headers, 'x-ratelimit', ' in this hour', 'Poll less often, or give worksync its own App.'),
  };
}

function anonymous(options: Options): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `none: GitHub allows 60 requests an hour from this address, so polls are at least ${shortestPoll(options) / 60_000} minutes apart, and worksync does not see private repositories`,
    hint: 'Set app (one GitHub App per workspace), or a token.',
  };
}

const appAnswer = z.object({ installations_count: z.int().optional().catch(undefined) });

/** An App has one webhook: an App that is installed elsewhere too cannot serve this workspace alone. */
function asInstallation(api: Api, appApi: Api, installationId: string, signal: AbortSignal) {
  const subject = 'credential';
  return findingsOf(subject, async () => {
    await api.get('/installation/repositories', { query: 'per_page=1', signal });
    const ok: Finding = { level: 'ok', subject, message: `GitHub App, installation ${installationId}` };
    const told = readable(appAnswer, readAnswer(await appApi.get('/app', { signal }), 'GET /app'));
    const count = told?.installations_count ?? 1;
    if (count <= 1) return [ok];
    const message = `the App is installed ${count} times, and all of its installations share one webhook`;
    return [ok, { level: 'warning', subject, message, hint: 'One GitHub App per workspace is the supported form.' }];
  });
}

const named = z.object({ login: z.string() });

async function asToken(api: Api, now: number, signal: AbortSignal): Promise<Finding[]> {
  try {
    const answer = await api.get('/user', { signal });
    const user = readable(named, readAnswer(answer, 'GET /user'));
    return [tokenWorks(user ? `token of ${user.login}` : 'token'), ...expiry(answer, now)];
  } catch (thrown) {
    // Tokens of workflows and of Apps are valid, but have no user.
    const isValid = asSyncError(thrown).code === 'forbidden';
    return [isValid ? tokenWorks('token without a user') : failedFinding('credential', thrown)];
  }
}

/** GitHub names the end of a token, where it has one, as `2026-12-01 10:00:00 UTC`, or with `+0100`. */
const EXPIRY = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) (?:UTC|([+-]\d\d):?(\d\d))$/;

function expiry({ headers }: Pick<HttpAnswer, 'headers'>, now: number): Finding[] {
  const [, day, time, hours, minutes] = EXPIRY.exec(headers['github-authentication-token-expiration'] ?? '') ?? [];
  if (day === undefined) return [];
  const at = Date.parse(`${day}T${time}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`);
  const soon = expiryFinding('the token', { at, shown: day }, now);
  return [soon ?? { level: 'ok', subject: 'credential', message: `the token is valid until ${day}` }];
}

function tokenWorks(whose: string): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `${whose}; it works, but shares its limit with everything else that uses it`,
    hint: 'One GitHub App per workspace is the supported form: set app instead of token.',
  };
}

const metadata = z.object({ full_name: z.string(), archived: z.boolean().optional().catch(undefined) });

function describeRepository(name: string, told: unknown): Finding {
  const { full_name, archived } = readable(metadata, told) ?? { full_name: name, archived: undefined };
  return accessFinding(name, full_name, { archived, write: `${full_name}, or the repository's id,` });
}
