import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { type PostedComment, plainComment } from '../../model/notice.ts';
import type { ConnectionDeps, Finding, HookState, Hooks } from '../connector.ts';
import { upsertComment } from '../kit/comments.ts';
import { findingsOf, renamedFinding, tenantFinding } from '../kit/findings.ts';
import { hooksOf } from '../kit/hooks.ts';
import type { Locator } from '../kit/items.ts';
import { absent, readable } from '../kit/payload.ts';
import { bestEffort, malformed, onOneLine, type Refusals, untilReset } from '../kit/refusal.ts';
import { basic, bearer, createRest, type Rest } from '../kit/rest.ts';
import { addressOf, patternsOf } from '../kit/scope.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { countedPagesOf, type ListedPage, nextPage, type Selection, storedPage } from '../kit/walk.ts';
import { adfOfText, textOfAdf } from './adf.ts';
import { apiBase, type Options, projectIs, scopeOf, tenantBase } from './options.ts';
import * as schema from './schema.ts';

const API = '/rest/api/3';
const PAGE = '100';
/** The page size that Jira accepts if the query requests only ids. */
const IDS_AT_ONCE = '5000';
/** Opaque, and sent back as it came. */
const TOKEN = /^[\w+/=.~-]{1,4000}$/;

/** Only 429 is a limit (JI4). */
const refusals: Refusals = {
  /** Jira lists messages, or names fields with a message each; its gateway has one message. */
  messageOf(body) {
    const { errorMessages, errors, message } = body as Readonly<Record<string, unknown>>;
    const ofFields = Object.entries(errors ?? {}).map(
      ([field, text]) => typeof text === 'string' && `${field}: ${text}`,
    );
    const listed = [errorMessages, ofFields].flat().filter((text) => typeof text === 'string');
    return listed.length > 0 ? listed.join('; ') : message;
  },
  waitOf: (answer, now) => untilReset(answer, Date.parse(answer.headers['x-ratelimit-reset'] ?? ''), now),
  limitOf: ({ headers }) => headers['ratelimit-reason'] && onOneLine(headers['ratelimit-reason'], 60),
};

export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Project> {
  const api = createRest({ target: 'jira', base: apiBase(options), headers: credentialOf(options), refusals }, deps);
  const { accessTokens: _, ...open } = deps;
  const site = createRest({ target: 'jira', base: tenantBase(options), headers: {}, refusals }, open);

  /** One page of what a query finds (JI5); the same query must go with each page's token. */
  async function search(jql: string, fields: string, size: string, page: string | undefined, signal: AbortSignal) {
    const path = `${API}/search/jql`;
    const token = storedPage(page, TOKEN);
    const query = { jql, fields, maxResults: size, ...(token !== undefined && { nextPageToken: token }) };
    const { content, answer } = await api.read(schema.page, path, query, signal, schema.KEPT_PAGE);
    const { isLast, nextPageToken, issues } = content;
    const isEnd = isLast === true || (isLast === undefined && (nextPageToken ?? undefined) === undefined);
    const next = isEnd ? undefined : nextPage(nextPageToken, TOKEN, token, `GET ${path}`);
    return { found: issues.map(schema.slim), next, answer } satisfies ListedPage;
  }

  const pathOf = ({ id }: Locator) => `${API}/issue/${id}`;

  /** Makes a comment internal where customers would see it (JI6). */
  async function visibility({ container }: Locator, signal: AbortSignal): Promise<object> {
    if (options.publicComments || container === undefined) return {};
    const { content } = await api.read(schema.typedProject, `${API}/project/${container}`, {}, signal);
    const { projectTypeKey = SERVICE_PROJECT } = content;
    return projectTypeKey === SERVICE_PROJECT ? INTERNAL : {};
  }

  return {
    async containers(signal) {
      const path = `${API}/project/search`;
      const pages = countedPagesOf(`GET ${path}`, async (seen) => {
        const query = { startAt: String(seen), maxResults: '50', orderBy: 'key' };
        const { values, isLast } = (await api.read(schema.projects, path, query, signal)).content;
        if (values.length === 0 && !isLast) throw malformed(`GET ${path}: an empty page before the last one`);
        return { found: values, isLast };
      });
      return (await Array.fromAsync(pages)).flat();
    },
    /** Reads by key or number; an old key finds the project too. */
    container: async (unit, signal) =>
      (await api.read(schema.project, `${API}/project/${encodeURIComponent(unit)}`, {}, signal)).content,
    async list({ unit, selection, page }, signal) {
      const jql = jqlOf(unit, selection);
      if (selection.items === 'ids') return search(jql, 'id', IDS_AT_ONCE, page, signal);
      const listed = await search(jql, schema.FIELDS, PAGE, page, signal);
      const isBeginning = selection.items === 'changed' && selection.way === 'history' && page === undefined;
      return isBeginning ? { ...listed, total: await count(api, jql, signal) } : listed;
    },
    async item(locator, signal) {
      const { content } = await api.get(pathOf(locator), { fields: schema.FIELDS }, signal, schema.KEPT);
      return { found: schema.slim(content) };
    },
    about: async (signal) => ({
      first: [
        ...(await siteFindings(site, options, signal)),
        ...(options.token === undefined ? [ANONYMOUS] : await credential(api, signal)),
      ],
    }),
    /** A project may be seen by an account that may not search it. */
    async describe(unit, { id, key, archived }, signal) {
      const address = addressOf(unit, scopeOf(options));
      await search(`${projectIs(address)} ORDER BY created ASC`, 'id', '1', undefined, signal);
      if (archived) return { level: 'warning', subject: unit, message: 'is archived: nothing changes there any more' };
      if (unit === id || unit === key) return { level: 'ok', subject: unit, message: `${key} can be read` };
      return renamedFinding(unit, key, `${key}, or the project's number ${id},`);
    },
    /** Jira's documents have no hidden text, so the words of the marker are the comment's last line. */
    comment(locator, given, signal) {
      const path = `${pathOf(locator)}/comment`;
      const bodyOf = async (text: string) => ({ body: adfOfText(text), ...(await visibility(locator, signal)) });
      const plain = (text: string) => textOfAdf(adfOfText(text));
      return upsertComment(given, {
        plain,
        pages: () =>
          countedPagesOf(`GET ${path}`, async (seen) => {
            const query = { startAt: String(seen), maxResults: '100', orderBy: '-created' };
            const { comments, total } = (await api.read(schema.comments, path, query, signal)).content;
            return { found: comments, isLast: comments.length === 0 || seen + comments.length >= total };
          }),
        textOf: ({ body }) => textOfAdf(body),
        authorOf: ({ author }) => author?.accountId,
        ownAuthor: async () => (await api.read(schema.me, `${API}/myself`, {}, signal)).content.accountId,
        post: async (text) => api.send('POST', path, await bodyOf(text), signal),
        edit: async ({ id }, text) => api.send('PUT', `${path}/${id}`, await bodyOf(text), signal, SILENTLY),
        toComment: standing,
      });
    },
    /** Moves the issue to a status that counts as done, as its workflow allows; one that is done is left as it is. */
    async close(locator, key, signal, fields = {}) {
      const path = pathOf(locator);
      const { content: issue } = await api.read(schema.currentStatus, path, { fields: 'status' }, signal);
      if (issue.fields.status.statusCategory.key === 'done') return;
      const query = { expand: 'transitions.fields' };
      const { transitions } = (await api.read(schema.transitions, `${path}/transitions`, query, signal)).content;
      const chosen = leadingToDone(transitions, options.completedStatus, fields);
      if (!chosen) throw cannotClose(key, options.completedStatus);
      const missing = missingFields(chosen, fields);
      if (missing.length > 0) throw lacksFields(key, chosen.to.name, missing);
      // Jira refuses fields that the screen does not have.
      const given = Object.entries(fields).filter(([id]) => Object.hasOwn(chosen.fields ?? {}, id));
      const filledIn = given.length > 0 && { fields: Object.fromEntries(given) };
      await api.send('POST', `${path}/transitions`, { transition: { id: chosen.id }, ...filledIn }, signal);
    },
    hooks: () => hooksOfSite(api, options),
  };
}

const SILENTLY = { notifyUsers: 'false' };
const SERVICE_PROJECT = 'service_desk';
const INTERNAL = { properties: [{ key: 'sd.public.comment', value: { internal: true } }] };

function credentialOf({ email, token }: Options): Readonly<Record<string, string>> {
  return email === undefined || token === undefined ? bearer(token) : basic(email, token);
}

function jqlOf(unit: string, selection: Selection): string {
  const project = projectIs(unit);
  if (selection.items === 'ids') return `${project} ORDER BY created ASC`;
  if (selection.items === 'open')
    return `${project} AND (statusCategory != Done OR updated >= ${instant(selection.began)}) ORDER BY created ASC`;
  const { since } = selection;
  return `${project}${since === undefined ? '' : ` AND updated >= ${instant(since)}`} ORDER BY updated DESC`;
}

/** Milliseconds since 1970, without quotes: a written date would mean the zone of the profile that the token belongs to. */
function instant(time: number): string {
  return String(Math.floor(time));
}

const counted = z.object({ count: z.int().min(0) });

function count(api: Rest, jql: string, signal: AbortSignal): Promise<number | undefined> {
  const ask = () => api.send('POST', `${API}/search/approximate-count`, { jql }, signal);
  return bestEffort(async () => readable(counted, await ask())?.count, signal);
}

function siteFindings(site: Rest, { cloudId: configured }: Options, signal: AbortSignal) {
  return findingsOf('site', async () => {
    const id = readable(schema.tenant, (await site.get('/_edge/tenant_info', {}, signal)).content)?.cloudId;
    return [tenantFinding('site', id, configured, 'cloud id', 'issues')];
  });
}

const ANONYMOUS: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: worksync reads only what is public',
  hint: 'Set email and token.',
};

function credential(api: Rest, signal: AbortSignal) {
  return findingsOf('credential', async () => {
    const data = readable(schema.account, (await api.get(`${API}/myself`, {}, signal)).content);
    const { displayName, timeZone = 'unknown' } = data ?? { displayName: 'somebody' };
    // Queries contain times as milliseconds, so the zone changes nothing; people look for it when times seem wrong.
    return [{ level: 'ok', subject: 'credential', message: `${displayName}, time zone ${timeZone}` }];
  });
}

function standing(answer: unknown, text: string): PostedComment | undefined {
  const found = readable(schema.commented, answer);
  const author = found?.updateAuthor ?? found?.author;
  return found && author ? { id: found.id, author: author.accountId, text: plainComment(text) } : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** Prefers a transition that requires only the given fields, and then one without a screen. */
function leadingToDone(all: readonly schema.Transition[], completedStatus: string | undefined, fields: Fields) {
  const done = all.filter(({ to }) => to.statusCategory.key === 'done');
  const wanted = done.filter(
    ({ to }) => completedStatus === undefined || to.name.toLowerCase() === completedStatus.toLowerCase(),
  );
  const possible = wanted.filter((each) => missingFields(each, fields).length === 0);
  return possible.find(({ hasScreen }) => hasScreen !== true) ?? possible[0] ?? wanted[0];
}

/** The fields that the screen of a transition requires and that are not given. */
function missingFields({ fields = {} }: schema.Transition, given: Fields): readonly string[] {
  return Object.entries(fields)
    .filter(([id, { required, hasDefaultValue }]) => required && !hasDefaultValue && !Object.hasOwn(given, id))
    .map(([id, { name }]) => (name === undefined || name === id ? id : `${id} (${name})`));
}

function lacksFields(key: string, status: string, missing: readonly string[]): SyncError {
  const names = onOneLine(missing.join(', '), 400);
  return new SyncError('conflict', `${key} cannot be closed: the transition to ${onOneLine(status)} needs ${names}`, {
    hint: 'Give them in writeBack.close.fields, by their ids, or let the workflow close issues without them.',
  });
}

function cannotClose(key: string, completedStatus: string | undefined): SyncError {
  const aim = completedStatus === undefined ? 'to a status that counts as done' : `to the status ${completedStatus}`;
  return new SyncError('conflict', `${key} cannot be closed: no transition leads ${aim}`, {
    hint: 'Let the workflow lead from its present status to one that counts as done, or set completedStatus to one that it leads to.',
  });
}

const PATH = '/rest/webhooks/1.0/webhook';
const FILTER = 'issue-related-events-section';
const EVENTS = [
  'comment_created',
  'comment_deleted',
  'comment_updated',
  'jira:issue_created',
  'jira:issue_deleted',
  'jira:issue_updated',
];

const hook = z.object({
  self: z.string(),
  url: z.string(),
  enabled: absent(z.boolean()),
  events: z.array(z.string()).catch([]),
  filters: z.object({ [FILTER]: z.string().optional().catch(undefined) }).catch({}),
});

type Registered = z.infer<typeof hook>;

/** The admin webhook of one connection: one for the whole site, with the projects as its filter. */
function hooksOfSite(api: Rest, options: Options): Hooks {
  const filter = filterOf(options);
  return hooksOf<string, Registered>({
    placesOf: async () => [options.site],
    subjectOf: (site) => site,
    finder: (url, signal) => async () =>
      (await api.read(z.array(hook), PATH, {}, signal)).content.find((each) => each.url === url),
    hidden: ['forbidden', 'unauthorized', 'not_found'],
    unknown: {
      state: 'unknown',
      message: 'only an administrator of Jira may read webhooks',
      hint: 'Look at Settings, System, WebHooks.',
    },
    stateOf,
    isRight: ({ filters, events, enabled }) =>
      filters[FILTER] === filter && EVENTS.every((event) => events.includes(event)) && enabled !== false,
    async save(_, standing, { url, secret }, signal) {
      const body = { ...describe(url, filter), secret };
      // Jira does not show the secret, and keeps it unless it gets a new one: so it always gets one.
      if (standing) await api.send('PUT', `${PATH}/${idOf(standing)}`, body, signal);
      else await api.send('POST', PATH, body, signal);
      return ACTIVE;
    },
  });
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

function stateOf(found: Registered | undefined): Omit<HookState, 'subject'> {
  if (!found)
    return {
      state: 'absent',
      message: 'no webhook sends to this address',
      hint: 'Run "worksync hooks install" with a token of a Jira administrator, or add it at Settings, System, WebHooks.',
    };
  if (found.enabled !== false) return ACTIVE;
  return {
    state: 'disabled',
    message: 'the webhook is switched off',
    hint: 'Run "worksync hooks install", or switch it on at Settings, System, WebHooks.',
  };
}

function describe(url: string, filter: string) {
  return { name: 'worksync', url, events: EVENTS, filters: { [FILTER]: filter }, excludeBody: false, enabled: true };
}

/** Jira's language has no such patterns: then Jira sends everything, and worksync ignores what is out of scope. */
function filterOf(options: Options): string {
  const scope = scopeOf(options);
  return patternsOf(scope).length > 0
    ? ''
    : scope.include.map((entry) => projectIs(addressOf(entry, scope))).join(' OR ');
}

function idOf({ self }: Registered): string {
  const id = /\/webhook\/(\d{1,16})$/.exec(self)?.[1];
  if (id === undefined) throw malformed(`GET ${PATH}: a webhook has no id`);
  return id;
}
