import { z } from 'zod';
import { asSyncError } from '../../model/errors.ts';
import { STATUS_NAME } from '../../model/notice.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, Finding, Hooks } from '../connector.ts';
import { upsertHiddenComment } from '../kit/comments.ts';
import { messageText, withCommits } from '../kit/commits.ts';
import { accessFinding, type GitChecks } from '../kit/findings.ts';
import type { GitListRequest, GitSource } from '../kit/git.ts';
import { hookPlaces, hooksOfPlaces } from '../kit/hooks.ts';
import { absent, parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { malformed, undefinedOn } from '../kit/refusal.ts';
import { type Api, createListing } from '../kit/rest.ts';
import { addressOf, namedIn } from '../kit/scope.ts';
import { invalidPage, type Selection } from '../kit/walk.ts';
import { createApi, createRepositories, type Repositories, readPage, repositoryPath, unitOf } from './api.ts';
import { identityOf, type Locator } from './items.ts';
import { isAnonymous, type Options, REPOSITORY, scopeOf, shortestPoll } from './options.ts';
import { FIELDS_OF_LIST, FIELDS_OF_ONE, uuid } from './schema.ts';

export function connect(options: Options, deps: ConnectionDeps): GitSource<Locator> {
  const api = createApi(options, deps);
  const repositories = createRepositories(api, options, deps.clock);
  // Bitbucket reports the owner of a token only if the token has a further right.
  const readMe = (signal: AbortSignal) => {
    const asked = api.read(z.unknown(), '/user', { query: 'fields=uuid', signal });
    return undefinedOn(asked, 'forbidden', 'unauthorized', 'not_found');
  };
  const me = createListing(deps.clock, readMe, Number.POSITIVE_INFINITY);

  async function pull(workspace: string, wanted: Locator, commitsSha: string | undefined, signal: AbortSignal) {
    const path = pullPath(workspace, wanted);
    const found = await api.read(z.unknown(), path, { query: `fields=${FIELDS_OF_ONE}`, keep: true, signal });
    // The answer must contain the id of the repository that the request named.
    if (readable(withRepository, found) !== wanted.repoId)
      throw malformed(`GET ${path}: the pull request belongs to another repository, or to none`);
    return withCommits(
      found,
      readable(withHead, found),
      { ...options, commitsSha },
      {
        pages: () => api.pages(z.unknown(), `${path}/commits`, { query: COMMITS, signal, keep: true }),
        messageOf,
        order: 'newest first',
      },
    );
  }

  /** The present name of the repository. The empty braces stand in place of the workspace: the id of a repository is enough. */
  async function presentName({ repoId }: Locator, signal: AbortSignal): Promise<string | undefined> {
    const answer = await api.read(z.unknown(), repositoryPath(`{}/${repoId}`), {
      query: 'fields=uuid,full_name',
      signal,
    });
    const told = readable(withName, answer);
    return told?.uuid === repoId ? told.full_name : undefined;
  }

  return {
    ...createLists(api),
    ...createChecks(api, options, repositories),
    identify: repositories.present,
    /**
     * Requests by the repository's id, so a new name does not hide it, and another repository under the old name does not replace
     * it. If the item is not found, checks whether the repository moved to another workspace.
     */
    async item(_, locator, { commitsSha }, signal) {
      const workspace = workspaceOf(locator.repository);
      try {
        return { found: await pull(workspace, locator, commitsSha, signal) };
      } catch (thrown) {
        const name = asSyncError(thrown).code === 'not_found' ? await presentName(locator, signal) : undefined;
        if (name === undefined) throw thrown;
        // This credential sees the repository, which has no such pull request.
        if (workspaceOf(name) === workspace) return { isGone: true };
        return { found: await pull(workspaceOf(name), locator, commitsSha, signal) };
      }
    },
    /** `item` itself throws where this credential cannot see the repository. */
    async requireVisible() {},
    hooks: createHooks(api, options, repositories),
    // BB8
    status: {
      right: 'the scope repository; only who made a status may write it again',
      write({ repository, repoId, number }, { sha, state, text, url }, signal) {
        const path = `${repositoryPath(`${workspaceOf(repository)}/${repoId}`)}/commit/${sha}/statuses/build`;
        const body = {
          key: STATUS_NAME,
          name: STATUS_NAME,
          state: state === 'failure' ? 'FAILED' : 'SUCCESSFUL',
          description: text,
          // Bitbucket insists on an address.
          url: url ?? `https://bitbucket.org/${repository}/pull-requests/${number}`,
        };
        return api.write('POST', path, { body, signal });
      },
    },
    async comment(_, locator, given, signal) {
      const path = `${pullPath(workspaceOf(locator.repository), locator)}/comments`;
      const us = readable(account, await me(signal));
      return upsertHiddenComment(given, {
        async *pages() {
          for await (const page of api.pages(comment, path, { query: `pagelen=100&fields=${FIELDS}`, signal }))
            yield page.filter(({ deleted }) => deleted !== true);
        },
        textOf: ({ content }) => content?.raw ?? '',
        authorOf: ({ user }) => user?.uuid,
        ownAuthor: async () => us?.uuid,
        post: (raw) => api.write('POST', path, { body: { content: { raw } }, signal }),
        edit: ({ id }, raw) => api.write('PUT', `${path}/${id}`, { body: { content: { raw } }, signal }),
      });
    },
  };
}

function pullPath(workspace: string, { repoId, number }: Locator): string {
  return `${repositoryPath(`${workspace}/${repoId}`)}/pullrequests/${number}`;
}

function workspaceOf(name: string): string {
  return (name.split('/', 1)[0] as string).toLowerCase();
}

const COMMITS = 'pagelen=100&fields=next,values.message';
const messageOf = z.object({ message: messageText }).transform(({ message }) => message);

const withHead = z
  .object({ source: z.object({ commit: z.object({ hash: z.string() }) }) })
  .transform(({ source }) => source.commit.hash);
const withRepository = z
  .object({ destination: z.object({ repository: z.object({ uuid: z.string() }) }) })
  .transform(({ destination }) => destination.repository.uuid);
const withName = z.object({ uuid: z.string(), full_name: z.string().regex(REPOSITORY) });

const FIELDS = 'next,values.id,values.deleted,values.content.raw,values.user.uuid';
const account = z.object({ uuid });
const comment = z.object({
  id: z.int().positive(),
  deleted: absent(z.boolean()),
  content: absent(z.object({ raw: z.string() })),
  user: absent(account.nullable()),
});

/** Does not ask whose token it is: that would need a right which nothing else needs. */
function createChecks(api: Api, options: Options, repositories: Repositories): GitChecks {
  const scope = scopeOf(options);
  return {
    credential: async () => [credential(options)],
    get: api.get,
    namedRepositories: () =>
      namedIn(scope).map((subject) => ({
        subject,
        path: repositoryPath(addressOf(subject, scope)),
        query: 'fields=uuid,full_name',
        describe: (told) => accessFinding(subject, readable(metadata, told)?.full_name ?? subject),
      })),
    lists: { names: ['pullrequests'], query: 'pagelen=1&fields=values.id' },
    repositories,
    limit: (headers) => limit(headers, options),
  };
}

function credential(options: Options): Finding {
  if (isAnonymous(options))
    return {
      level: 'warning',
      subject: 'credential',
      message: `none: Bitbucket allows 60 requests an hour from this address, so polls are ${Math.ceil(shortestPoll(options) / 60_000)} minutes apart or more, and worksync does not see private repositories`,
      hint: 'Set token (an access token of the repository, project or workspace).',
    };
  if (options.token !== undefined)
    return { level: 'ok', subject: 'credential', message: 'an access token: it has a limit of its own' };
  return {
    level: 'warning',
    subject: 'credential',
    message: 'an API token of a person: it shares its limit with everything else that person uses',
    hint: 'An access token of the repository, project or workspace has a limit of its own: set token instead.',
  };
}

const metadata = z.object({ full_name: z.string() });

/** Bitbucket reports to access tokens only that little is left, and never how much. */
function limit(headers: HttpAnswer['headers'], options: Options): Finding {
  const subject = 'rate limit';
  const total = headers['x-ratelimit-limit'] ?? (isAnonymous(options) ? '60' : '1,000');
  if (headers['x-ratelimit-nearlimit']?.toLowerCase() !== 'true')
    return { level: 'ok', subject, message: `${total} requests in any hour` };
  return {
    level: 'warning',
    subject,
    message: `little is left of ${total} requests in any hour`,
    hint: 'Poll less often, or give worksync an access token of its own.',
  };
}

const EVERY_STATE = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];

/**
 * Pages of a repository's pull requests (BB1), newest change first. worksync follows the links to the next page unchanged. What
 * changes during the walk moves to the front and pushes others towards pages still to come, so the walk misses none. (Oldest
 * first would lose the neighbour of each one that moves to the end.)
 *
 * The first walk does not count pages: what somebody closes during the walk leaves the list, and everything behind it moves
 * forward, past a counted page. So it goes by the oldest change, and each page begins at the time at which the previous ended.
 */
function createLists(api: Api): Pick<GitSource<Locator>, 'list' | 'pageContent' | 'sweptPage'> {
  return {
    async list({ unit, selection, page, use }: GitListRequest, signal) {
      const path = `${repositoryPath(unit)}/pullrequests`;
      const query = page === undefined ? firstQuery(selection) : queryOf(page);
      const answer = await api.get(path, { query, signal, use, keep: true });
      const { found, next } = api.pageOf(answer, { path, query });
      const { size } = readPage(answer, path);
      const link = next && `link:${next}`;
      return {
        found,
        next: selection.items === 'open' ? link && (continued(found) ?? link) : link,
        answer,
        total: typeof size === 'number' ? size : undefined,
      };
    },
    pageContent: async (values) => ({ values }),
    async sweptPage(found, { unit }) {
      const all = parseAnswer(elements, found, `the list of ${unit}`);
      const keys = all.map(({ id, destination }) => identityOf(destination.repository, id).key);
      return { keys, containers: [...new Set(all.map(({ destination }) => destination.repository.uuid))] };
    },
  };
}

const elements = z.array(
  z.object({ id: z.int().positive(), destination: z.object({ repository: z.object({ uuid }) }) }),
);

function firstQuery(selection: Selection): string {
  if (selection.items === 'open') return openSince();
  // Oldest first: pull requests cannot be deleted, so none moves towards a page that was read.
  if (selection.items === 'ids')
    return listQuery(EVERY_STATE, { sort: 'id', fields: 'next,values.id,values.destination.repository.uuid' });
  const { since, way } = selection;
  return listQuery(EVERY_STATE, {
    ...(since !== undefined && { q: changedSince(since) }),
    sort: '-updated_on',
    ...(way === 'history' && { fields: `size,${FIELDS_OF_LIST}` }),
  });
}

/** With `q`, Bitbucket ignores `state`: so both contain the state. */
function openSince(time?: string): string {
  const condition = time === undefined ? undefined : { q: `state = "OPEN" AND updated_on >= ${time}` };
  return listQuery(['OPEN'], { ...condition, sort: 'updated_on' });
}

function listQuery(states: readonly string[], rest: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(states.map((state) => ['state', state]));
  for (const [name, value] of Object.entries({ pagelen: '50', fields: FIELDS_OF_LIST, ...rest }))
    query.append(name, value);
  return query.toString();
}

/** Bitbucket's query language refuses `Z` as an offset, and quotes around a time. */
function changedSince(time: number): string {
  return `updated_on >= ${new Date(time).toISOString().replace('Z', '+00:00')}`;
}

/** A stored page is `since:<time>`, of the first walk, or `link:<query>`. */
function queryOf(page: string): string {
  const linked = /^link:([\x21-\x7e]{1,4000})$/.exec(page)?.[1];
  if (linked !== undefined) return linked;
  const time = /^since:(.{1,40})$/.exec(page)?.[1];
  if (isTime(time)) return openSince(time);
  throw invalidPage(page);
}

/**
 * The beginning of the next page of the first walk: the time of the last element, which the walk reads twice. Undefined where
 * that would ask for the same page again, since all its elements have one time, or where a time cannot be read.
 */
function continued(values: readonly unknown[]): string | undefined {
  const [first, last] = [updatedOn(values[0]), updatedOn(values.at(-1))];
  return isTime(first) && isTime(last) && first !== last ? `since:${last}` : undefined;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00$/;

/** Whether a text is a time of Bitbucket and nothing else, so that worksync may send it back unchanged. */
function isTime(text: unknown): text is string {
  return typeof text === 'string' && TIME.test(text) && !Number.isNaN(Date.parse(text));
}

function updatedOn(pull: unknown): unknown {
  return (pull as { updated_on?: unknown } | null | undefined)?.updated_on;
}

/** Events that change a pull request. Approvals and comments do not; a webhook that sends them keeps them. */
const EVENTS = ['pullrequest:created', 'pullrequest:updated', 'pullrequest:fulfilled', 'pullrequest:rejected'];

const hook = z.object({
  uuid,
  url: z.string(),
  active: z.boolean(),
  events: z.array(z.string()),
  description: absent(z.string()),
  secret_set: absent(z.boolean()),
  skip_cert_verification: absent(z.boolean()),
});
type Hook = z.infer<typeof hook>;

/** The webhooks of a connection: one for each workspace that is followed whole, one for each other repository. */
function createHooks(api: Api, options: Options, repositories: Repositories): Hooks {
  const owners = options.workspaces.map((name) => ({ subject: name, path: `/workspaces/${name}/hooks` }));
  const { listed } = repositories;
  return hooksOfPlaces<Hook>({
    placesOf: (signal) =>
      hookPlaces(owners, { scope: scopeOf(options), listed, unitOf, pathOf: repositoryPath }, signal),
    async find({ path }, url, signal) {
      for await (const page of api.pages(hook, path, { query: 'pagelen=100', signal })) {
        const found = page.find((each) => each.url === url);
        if (found) return found;
      }
      return undefined;
    },
    hidden: ['forbidden', 'not_found', 'unauthorized'],
    hints: {
      hidden: 'Give the token the scope `webhook` so that worksync can check webhooks.',
      repair: 'Run "worksync hooks install", or repair it at Bitbucket.',
    },
    nameOf: () => 'the webhook',
    isOn: ({ active }) => active,
    flawsOf,
    async save({ path }, found, { url, secret }, signal) {
      const wanted = { description: 'worksync', url, active: true, events: EVENTS, secret };
      if (!found) return read(await api.write('POST', path, { body: wanted, signal }), `POST ${path}`);
      const { description, skip_cert_verification } = found;
      // The secret cannot be read back, so it is always sent. The others are sent back, as Bitbucket might reset them.
      const body = {
        ...wanted,
        description,
        events: [...new Set([...found.events, ...EVENTS])],
        skip_cert_verification,
      };
      const own = `${path}/${encodeURIComponent(found.uuid)}`;
      return read(await api.write('PUT', own, { body, signal }), `PUT ${own}`);
    },
  });
}

function read(answer: HttpAnswer, what: string): Hook {
  return parseAnswer(hook, readAnswer(answer, what), what);
}

/** Bitbucket does not show whether the secret is correct. */
function flawsOf({ events, secret_set }: Hook): readonly string[] {
  const missing = EVENTS.filter((event) => !events.includes(event));
  return [
    ...(missing.length > 0 ? [`does not send ${missing.join(', ')}`] : []),
    ...(secret_set === false ? ['has no secret, so worksync refuses every delivery'] : []),
  ];
}
