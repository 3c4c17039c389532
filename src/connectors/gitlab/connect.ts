import { z } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { STATUS_NAME } from '../../model/notice.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { ConnectionDeps, Finding } from '../connector.ts';
import { upsertHiddenComment } from '../kit/comments.ts';
import { messageText, withCommits } from '../kit/commits.ts';
import { accessFinding, expiryFinding, failedFinding, type GitChecks, limitFinding } from '../kit/findings.ts';
import type { GitListRequest, GitSource } from '../kit/git.ts';
import { parseAnswer, readAnswer, readable, readList } from '../kit/payload.ts';
import { undefinedOn } from '../kit/refusal.ts';
import { addressOf } from '../kit/scope.ts';
import { nextPageCursor, readPageCursor, type Selection } from '../kit/walk.ts';
import { type Api, createApi } from './api.ts';
import { createHooks, createRedeliver } from './hooks.ts';
import { ISSUES, isHidden, issueIdentity, type Locator, MERGE_REQUESTS, mergeRequestIdentity } from './items.ts';
import { type Options, type Place, pathOf, placeOf, placesOf, scopeOf, unitOf } from './options.ts';
import { createProjects, offIn } from './projects.ts';
import { approvals, identities, KEPT, slim } from './schema.ts';

export function connect(options: Options, deps: ConnectionDeps): GitSource<Locator> {
  const { host, archived } = options;
  const api = createApi(options, deps);
  const projects = createProjects(api, options, deps.clock);
  const stateOf = async (path: string, signal: AbortSignal) => (await api.read(standing, path, { signal })).state;

  /**
   * A page of merge requests or issues, of a project or of a group with all that is below it (GL6). GitLab cuts pages by
   * offset, newest change first: what changes during the walk moves to the front, and pushes others towards pages still to
   * come. (Oldest first, it would leave its place, and the next one would slip onto a page that was read already.)
   *
   * The first walk goes backwards through a list that begins with the oldest: it reads the first page to learn the number of
   * the last, and then goes from the last page down to the first. What somebody closes during the walk leaves the list, and
   * everything behind it moves to a page still to come.
   */
  async function list({ noun, unit, selection, page, use, etag }: GitListRequest, signal: AbortSignal) {
    const place = placeOf(unit);
    const path = `${pathOf(place)}/${noun}`;
    const cursor = readPageCursor(page);
    const ofGroup = place.kind === 'group' ? `&non_archived=${!archived}` : '';
    const query = `${queryOf(selection)}${ofGroup}${cursor ? `&page=${cursor.page}` : ''}`;
    const answer = await api.get(path, { query, etag, use, keep: KEPT, signal });
    if (answer.status === 304) return { found: [], next: undefined, answer, isUnchanged: true };
    const what = `GET ${path}`;
    const found = readList(answer, what);
    const pageOf = (rel: 'next' | 'prev' | 'last') => api.pageNumber(answer, rel, path);
    const next = nextPageCursor(cursor, selection.items === 'open', pageOf, what);
    return { found, next, answer, total: totalOf(answer) };
  }

  return {
    list,
    async pageContent(found, { noun, unit }, signal) {
      const { kind, name } = placeOf(unit);
      const followed = kind === 'group' ? await projects.keepFollowed(name, found, signal) : projects.keepNamed(found);
      const page = followed.map(slim);
      return noun === ISSUES ? page : projects.withFacts(unit, page, signal);
    },
    async sweptPage(found, { noun, unit }, signal) {
      const { kind, name } = placeOf(unit);
      const all = parseAnswer(identities, found, `the list of ${unit}`);
      const shown = all.filter((each) => noun === MERGE_REQUESTS || !isHidden(each, options));
      const keys = shown.map(
        ({ id, project_id, iid }) =>
          (noun === ISSUES ? issueIdentity(host, id, project_id, iid) : mergeRequestIdentity(host, project_id, iid))
            .key,
      );
      const ofGroup = async () => (await projects.followed(name, signal)).map(({ id }) => id);
      return { keys, containers: kind === 'group' ? await ofGroup() : [await projects.numberOf(name, signal)] };
    },
    ...createChecks(api, options, deps.clock),
    identify: projects.present,
    async item(noun, locator, { commitsSha, wantsReviews }, signal) {
      const path = itemPath(noun, locator);
      try {
        const found = await api.read(z.unknown(), path, { keep: KEPT, signal });
        if (noun === ISSUES) return { found: slim(found) };
        const pull = wantsReviews ? await withApprovals(api, path, slim(found), signal) : slim(found);
        const pages = () => api.pages(z.unknown(), `${path}/commits`, { signal, keep: { message: true } });
        const commits = { pages, messageOf, order: 'newest first' } as const;
        return { found: await withCommits(pull, readable(withHead, found), { ...options, commitsSha }, commits) };
      } catch (thrown) {
        if (asSyncError(thrown).code !== 'not_found') throw thrown;
        return { isGone: false };
      }
    },
    /** The list of the project must be readable, and must not contain the item. */
    async requireVisible(noun, { projectId, iid }, signal) {
      const path = `/projects/${projectId}/${noun}`;
      const query = `state=all&scope=all&iids[]=${iid}`;
      const found = await api.read(z.unknown(), path, { query, signal });
      if (Array.isArray(found) && found.length === 0) return;
      throw new SyncError('not_found', `GET ${path}/${iid}: not found, although the list contains it`);
    },
    featureOffIn: projects.switchedOff,
    hooks: createHooks(api, projects, options),
    redeliver: createRedeliver(api, projects, options, deps.clock),
    comment(noun, locator, given, signal) {
      const path = `${itemPath(noun, locator)}/notes`;
      return upsertHiddenComment(given, {
        async *pages() {
          for await (const page of api.pages(z.unknown(), path, { query: 'order_by=created_at&sort=asc', signal }))
            yield page.flatMap((each) => readable(note, each) ?? []).filter(({ system }) => !system);
        },
        textOf: ({ body }) => body,
        authorOf: ({ author }) => author?.id,
        ownAuthor: async () => (await api.read(user, '/user', { signal })).id,
        post: (body) => api.write('POST', path, { body: { body }, signal }),
        edit: ({ id }, body) => api.write('PUT', `${path}/${id}`, { body: { body }, signal }),
      });
    },
    // GL13
    status: {
      right: 'the scope api, and the role Developer in the project',
      write: ({ projectId }, { sha, state, text }, signal) =>
        api.write('POST', `/projects/${projectId}/statuses/${sha}`, {
          body: { state: state === 'failure' ? 'failed' : state, name: STATUS_NAME, description: text },
          signal,
        }),
    },
    async closeIssue(locator, _, signal) {
      const path = itemPath(ISSUES, locator);
      if ((await stateOf(path, signal)) === 'closed') return;
      try {
        await api.write('PUT', path, { body: { state_event: 'close' }, signal });
      } catch (thrown) {
        const { code } = asSyncError(thrown);
        if (code !== 'outcome_unknown' || (await stateOf(path, signal)) !== 'closed') throw thrown;
      }
    },
  };
}

/** The length of the whole list; undefined where GitLab does not report it. */
function totalOf({ headers }: HttpAnswer): number | undefined {
  const total = headers['x-total'];
  return total !== undefined && /^\d+$/.test(total) ? Number(total) : undefined;
}

function queryOf(selection: Selection): string {
  if (selection.items === 'open') return 'state=opened&scope=all&order_by=created_at&sort=asc&per_page=100';
  // New items come last. A deletion may pull an item onto a page that was read already: a fetch then shows that it exists.
  if (selection.items === 'ids') return 'state=all&scope=all&order_by=created_at&sort=asc&per_page=100';
  const { since } = selection;
  const after = since === undefined ? '' : `&updated_after=${encodeURIComponent(new Date(since).toISOString())}`;
  return `state=all&scope=all&order_by=updated_at&sort=desc&per_page=100${after}`;
}

function itemPath(noun: string, { projectId, iid }: Locator): string {
  return `/projects/${projectId}/${noun}/${iid}`;
}

const withHead = z.object({ sha: z.string() }).transform(({ sha }) => sha);
const messageOf = z.object({ message: messageText }).transform(({ message }) => message);
const standing = z.object({ state: z.string() });
const user = z.object({ id: z.int().transform(String) });
const note = z.object({
  id: z.int().positive(),
  body: z.string(),
  system: z.boolean().catch(false),
  author: user.nullish().catch(undefined),
});

/** Adds the approvals to a merge request, if this credential may read them. */
async function withApprovals(api: Api, path: string, pull: unknown, signal: AbortSignal): Promise<unknown> {
  const read = await undefinedOn(api.read(approvals, `${path}/approvals`, { signal }), 'not_found', 'forbidden');
  return read === undefined ? pull : { ...(pull as object), approvals: read };
}

function createChecks(api: Api, options: Options, clock: Clock): GitChecks {
  return {
    credential: async (signal) => [
      options.token === undefined ? anonymous : await credential(api, clock.now(), signal),
    ],
    get: api.get,
    namedRepositories: () =>
      placesOf(options).map((place) => {
        const { kind, name: subject } = place;
        const describe = (told: unknown) => describePlace(place, told);
        if (kind === 'group') return { subject, path: pathOf(place), query: 'with_projects=false', describe };
        return { subject, path: pathOf({ kind, name: addressOf(subject, scopeOf(options)) }), describe };
      }),
    offIn,
    lists: {
      names: options.issues ? ['merge_requests', 'issues'] : ['merge_requests'],
      query: 'state=all&scope=all&per_page=1',
    },
    // A pattern makes a group in `namedRepositories`, which contains all projects below it.
    repositories: {
      units: async () => placesOf(options).map(unitOf),
      ...{ patterns: [], listed: async () => [], refused: () => new Map(), requireReadable() {} },
    },
    limit: (headers) => limitFinding(headers, 'ratelimit', '', 'Poll less often, or give worksync a token of its own.'),
  };
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: worksync reads only public projects',
  hint: 'Set token: a project, group or personal access token with the scope read_api.',
};

const accessToken = z.object({
  name: z.string().catch('without a name'),
  scopes: z.array(z.string()).optional().catch(undefined),
  expires_at: z.iso.date().nullable().catch(null),
});

async function credential(api: Api, now: number, signal: AbortSignal): Promise<Finding> {
  const path = '/personal_access_tokens/self';
  try {
    const token = readable(accessToken, readAnswer(await api.get(path, { signal }), `GET ${path}`));
    return token ? describeToken(token, now) : unknownToken;
  } catch (thrown) {
    // Servers before 15.5 have no such address; there the projects, which `check` reads next, prove the token.
    return asSyncError(thrown).code === 'not_found' ? unknownToken : failedFinding('credential', thrown);
  }
}

const unknownToken: Finding = {
  level: 'ok',
  subject: 'credential',
  message: 'a token, about which GitLab tells nothing',
};

function describeToken({ name, scopes, expires_at }: z.infer<typeof accessToken>, now: number): Finding {
  const subject = 'credential';
  if (scopes && !scopes.includes('read_api') && !scopes.includes('api'))
    return {
      level: 'error',
      subject,
      message: `the token "${name}" has the scopes ${scopes.join(', ') || 'none'}, so it may not read the API`,
      hint: 'Create a token with the scope read_api.',
    };
  const end = expires_at !== null && { at: Date.parse(expires_at), shown: expires_at };
  const soon = end && expiryFinding(`the token "${name}"`, end, now);
  if (soon) return soon;
  return { level: 'ok', subject, message: `token "${name}"${expires_at === null ? '' : `, until ${expires_at}`}` };
}

const metadata = z.object({
  path_with_namespace: z.string().optional().catch(undefined),
  full_path: z.string().optional().catch(undefined),
  archived: z.boolean().optional().catch(undefined),
});

function describePlace({ kind, name }: Place, told: unknown): Finding {
  const said = readable(metadata, told) ?? {};
  const path = said.path_with_namespace ?? said.full_path ?? name;
  const isOther = !/^\d+$/.test(name) && path.toLowerCase() !== name.toLowerCase();
  if (kind === 'group' && isOther) return renamedGroup(name, path);
  return accessFinding(name, path, { archived: said.archived, write: `${path}, or the project's number,` });
}

/** worksync follows a group as a pattern over paths, and binds no id to a pattern. */
function renamedGroup(subject: string, path: string): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${path} now; worksync follows groups by their path, so it follows nothing of this group`,
    hint: `Write ${path} in the configuration.`,
  };
}
