import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { type DesiredComment, type PostedComment, plainComment } from '../../model/notice.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { ConnectionDeps, Finding, HookState, Hooks } from '../connector.ts';
import { upsertComment } from '../kit/comments.ts';
import { findingsOf, tenantFinding } from '../kit/findings.ts';
import { hooksOf } from '../kit/hooks.ts';
import type { Locator } from '../kit/items.ts';
import { absent, isNamed, omitUndefined, parseAnswer, readable } from '../kit/payload.ts';
import { type Budget, onOneLine, type Refusals, retryAfterWait, undefinedOn, untilReset } from '../kit/refusal.ts';
import { basic, bearer, createCache, createRest, memoize, type Rest, segmentOf } from '../kit/rest.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { countedPagesOf, type ListedPage, type ListRequest, nextPage, pagesOf, storedPage } from '../kit/walk.ts';
import { htmlOfText, textOfHtml } from './html.ts';
import { apiBase, type Options } from './options.ts';
import type { Project } from './schema.ts';
import * as schema from './schema.ts';

const SECOND = 1_000;
const IDS_AT_ONCE = 10_000;
/** Opaque; returned to Azure unchanged. */
const TOKEN = /^[\w+/=.;~-]{1,1000}$/;
const NUMBER = /^\d{1,16}$/;
const PREVIEW = { 'api-version': '7.1-preview.4' };

/** Consumption is counted over five minutes (AZ3). */
const refusals: Refusals = {
  /** 203 is Azure's sign-in page, 412 a work item that changed meanwhile. */
  statuses: new Map([
    [203, 'unauthorized'],
    [412, 'conflict'],
  ]),
  waitOf: resetOf,
  otherwise: 5 * 60 * SECOND,
};

function resetOf(answer: HttpAnswer, now: number): number | undefined {
  return untilReset(answer, Number(answer.headers['x-ratelimit-reset'] ?? Number.NaN) * SECOND, now);
}

/**
 * Azure slows down heavy users, and sends `Retry-After` with successful answers too: the answer is complete, and the next request
 * waits.
 */
function createPause(clock: Clock): Budget {
  let until = 0;
  return {
    require() {
      const left = until - clock.monotonic();
      if (left > 0)
        throw new SyncError('rate_limited', 'Azure DevOps asked for a pause with its last answer', {
          retryAfter: left,
        });
    },
    update(answer) {
      const now = clock.now();
      const wait = retryAfterWait(answer, now) ?? (answer.status === 200 ? undefined : resetOf(answer, now));
      if (wait !== undefined) until = clock.monotonic() + wait;
    },
  };
}

export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Project> {
  const api = createRest(
    {
      ...{ target: 'azure-boards', base: apiBase(options), headers: headersOf(options), refusals },
      ...{ query: { 'api-version': '7.1' }, budget: createPause(deps.clock) },
    },
    deps,
  );
  const directory = createDirectory(api, deps.clock);
  const pathOf = ({ id }: Locator) => `/_apis/wit/workitems/${id}`;

  /**
   * Lists work items by the reporting API: the latest revision of each that was changed since a time, including deleted ones, in
   * an order that only grows at its end. So concurrent changes hide nothing, a page costs one request regardless of the number of
   * changes, and a deletion needs no event. (A WIQL query returns ids alone, rounds times to days by default, and omits deleted
   * items.) The first walk reads everything.
   */
  async function revisions({ unit, selection, page }: ListRequest, signal: AbortSignal): Promise<ListedPage> {
    const token = storedPage(page, TOKEN);
    const since = selection.items === 'changed' ? selection.since : undefined;
    const begin: Record<string, string> = since === undefined ? {} : { startDateTime: new Date(since).toISOString() };
    const path = `/${segmentOf(unit)}/_apis/wit/reporting/workitemrevisions`;
    const query = {
      includeDeleted: 'true',
      includeLatestOnly: 'true',
      includeIdentityRef: 'true',
      $expand: 'fields',
      ...(token === undefined ? begin : { continuationToken: token }),
    };
    const { content, answer } = await api.read(schema.batch, path, query, signal, schema.KEPT_PAGE);
    const { values, isLastBatch, continuationToken } = content;
    const next = isLastBatch ? undefined : nextPage(continuationToken, TOKEN, token, `GET ${path}`);
    return { found: await enriched(values, unit, signal), next, answer };
  }

  /** One after the other, so that later ones use the cached results of the first. */
  async function enriched(values: readonly unknown[], unit: string, signal: AbortSignal) {
    const items: unknown[] = [];
    if (values.length === 0) return items;
    const project = await directory.project(unit, signal);
    for (const value of values) items.push(await directory.enrich(value, project, signal));
    return items;
  }

  /** Ascending: each page follows the previous one. */
  async function idsOf(projectId: string, given: string | undefined, signal: AbortSignal): Promise<ListedPage> {
    const page = storedPage(given, NUMBER) ?? '0';
    const query = `SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] > ${page} ORDER BY [System.Id]`;
    const path = `/${projectId}/_apis/wit/wiql`;
    const answer = await api.send('POST', path, { query }, signal, { $top: String(IDS_AT_ONCE) });
    const { workItems } = parseAnswer(schema.ids, answer, `POST ${path}`);
    const last = workItems.length < IDS_AT_ONCE ? undefined : workItems.at(-1);
    return { found: workItems, next: last && String(last.id), answer: { headers: {} } };
  }

  return {
    containers: (signal) => allProjects(api, signal),
    container: (unit, signal) => directory.project(unit, signal),
    currentContainer: (unit, signal) => readProject(api, unit, signal),
    list: (wanted, signal) =>
      wanted.selection.items === 'ids'
        ? idsOf(wanted.selection.containerId, wanted.page, signal)
        : revisions(wanted, signal),
    /** 404 is also the answer for a work item in the recycle bin, which returns when it is restored. */
    async item(locator, signal) {
      const path = pathOf(locator);
      const { content } = await api.get(path, { fields: schema.FIELDS }, signal, schema.KEPT);
      const project = await directory.project(projectIn(content, path), signal);
      return { found: await directory.enrich(content, project, signal) };
    },
    about: async (signal) => ({
      first: await findingsOf('credential', async () => {
        const found = await whoAmI(api, signal);
        const tenant = tenantFinding('organisation', found?.instanceId, options.organizationId, 'id', 'work items');
        return [credential(found), tenant];
      }),
    }),
    /** A credential may see a project without the right to read its work items. */
    async describe(unit, { id, name }, signal) {
      await api.get(`/${id}/_apis/wit/workitemtypes`, {}, signal);
      return { level: 'ok', subject: unit, message: `${onOneLine(name, 100)} can be read` };
    },
    comment: (locator, given, signal) => writeComment(api, locator, given, signal),
    /**
     * Sets a state that counts as completed; a completed work item stays unchanged. If somebody else was faster, the change is
     * refused, and then tried again on the new revision.
     */
    async close(locator, key, signal) {
      const path = pathOf(locator);
      const { content } = await api.get(path, { fields: schema.FIELDS }, signal);
      const { rev, fields } = parseAnswer(schema.current, content, `GET ${path}`);
      const project = await directory.project(fields['System.TeamProject'], signal);
      if (schema.isDone({ category: await directory.categoryOf(content, project, signal) })) return;
      const states = await directory.statesOf(project.id, fields['System.WorkItemType'], signal);
      const completed = states.filter(({ category }) => category === 'Completed');
      const chosen = completed.find(({ name }) => isNamed(name, options.completedStatus));
      if (!chosen)
        throw new SyncError('conflict', `${key} cannot be closed: its type has no such completed state`, {
          hint: 'Set completedStatus to a state of the category Completed that each type has, or leave it out.',
        });
      const unchanged = { op: 'test', path: '/rev', value: rev };
      await api.send(
        'PATCH',
        path,
        [unchanged, { op: 'add', path: '/fields/System.State', value: chosen.name }],
        signal,
      );
    },
    hooks: (followed) => hooksOfProjects(api, followed),
  };
}

/** Azure removes HTML comments, so the words of the marker are the last line of the comment. */
async function writeComment(api: Rest, { id, container }: Locator, given: DesiredComment, signal: AbortSignal) {
  if (container === undefined) throw new SyncError('internal', `work item ${id} has no project to comment in`);
  const path = `/${container}/_apis/wit/workItems/${id}/comments`;
  return upsertComment(given, {
    write: (text, words) => htmlOfText(`${text}\n\n${words}`),
    plain: textOfHtml,
    pages: () =>
      pagesOf(`GET ${path}`, async (token) => {
        const query = { ...PREVIEW, $top: '200', ...(token !== undefined && { continuationToken: token }) };
        const { comments, continuationToken: next } = (await api.read(schema.comments, path, query, signal)).content;
        return { found: comments, next: next === undefined ? undefined : nextPage(next, TOKEN, token, `GET ${path}`) };
      }),
    textOf: ({ text }) => text,
    authorOf: ({ createdBy }) => createdBy?.id,
    ownAuthor: async () => (await whoAmI(api, signal))?.authenticatedUser.id,
    post: (text) => api.send('POST', path, { text }, signal, PREVIEW),
    edit: (found, text) => api.send('PATCH', `${path}/${found.id}`, { text }, signal, PREVIEW),
    toComment: standing,
  });
}

function projectIn(content: unknown, path: string): string {
  return parseAnswer(schema.placed, content, `GET ${path}`).fields['System.TeamProject'];
}

/** A token is the password of an empty user name; without a redirect to the sign-in page. */
function headersOf({ token, accessToken }: Options): Readonly<Record<string, string>> {
  const credential = token === undefined ? bearer(accessToken) : basic('', token);
  return { 'x-tfs-fedauthredirect': 'Suppress', ...credential };
}

/** Returns the user of the credential, by whose id worksync recognizes its own comments. */
async function whoAmI(api: Rest, signal: AbortSignal): Promise<schema.Who | undefined> {
  const { content } = await api.get('/_apis/connectionData', { 'api-version': '7.1-preview' }, signal);
  return readable(schema.who, content);
}

/** Returns a comment without its id, which webhooks do not contain. */
function standing(answer: unknown, html: string): PostedComment | undefined {
  const author = readable(schema.written, answer)?.createdBy?.id;
  return author === undefined ? undefined : { author, text: plainComment(textOfHtml(html)) };
}

/** The anonymous identity of an unknown credential. */
const ANONYMOUS = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa';

function credential(found: schema.Who | undefined): Finding {
  const subject = 'credential';
  if (found && found.authenticatedUser.id !== ANONYMOUS)
    return { level: 'ok', subject, message: `of ${onOneLine(found.authenticatedUser.providerDisplayName, 100)}` };
  return {
    level: 'warning',
    subject,
    message: 'none that Azure DevOps accepts: worksync reads only public projects',
    hint: 'Set token: a personal access token with the scope Work Items (Read).',
  };
}

const page = z.object({ value: z.array(schema.project) });
const PAGE = 100;

const states = z.object({ value: z.array(z.object({ name: z.string(), category: z.string() })) });

const about = z.object({
  fields: z.object({ 'System.State': absent(z.string().min(1)), 'System.WorkItemType': absent(z.string().min(1)) }),
});

/** Reads what work items do not contain: their project by its id, and the category of their states. Both change rarely. */
function createDirectory(api: Rest, clock: Clock) {
  const cached = createCache(clock, async (path, signal) => (await api.read(states, path, {}, signal)).content.value);

  const statesOf = (project: string, type: string, signal: AbortSignal) =>
    cached(`/${segmentOf(project)}/_apis/wit/workitemtypes/${segmentOf(type)}/states`, signal);

  /** Returns undefined if the process no longer has the type or the state: the item then keeps its state. */
  async function categoryOf(found: unknown, project: schema.Project, signal: AbortSignal): Promise<string | undefined> {
    const { 'System.State': state, 'System.WorkItemType': type } = readable(about, found)?.fields ?? {};
    if (state === undefined || type === undefined) return undefined;
    const known = await undefinedOn(statesOf(project.id, type, signal), 'not_found');
    return known?.find(({ name }) => name === state)?.category;
  }

  return {
    project: createCache(clock, (unit, signal) => readProject(api, unit, signal)),
    statesOf,
    categoryOf,
    /** Returns a work item as it is stored: the read fields, its project by id and name, the category of its state. */
    async enrich(found: unknown, project: schema.Project, signal: AbortSignal): Promise<unknown> {
      const kept = schema.slim(found);
      if (typeof kept !== 'object' || kept === null) return kept;
      return { ...kept, project, ...omitUndefined({ category: await categoryOf(found, project, signal) }) };
    },
  };
}

async function readProject(api: Rest, unit: string, signal: AbortSignal): Promise<schema.Project> {
  const path = `/_apis/projects/${segmentOf(unit)}`;
  return (await api.read(schema.project, path, {}, signal)).content;
}

async function allProjects(api: Rest, signal: AbortSignal): Promise<readonly schema.Project[]> {
  const path = '/_apis/projects';
  const pages = countedPagesOf(`GET ${path}`, async (seen) => {
    const query = { $top: String(PAGE), $skip: String(seen) };
    const { value } = (await api.read(page, path, query, signal)).content;
    return { found: value, isLast: value.length < PAGE };
  });
  return (await Array.fromAsync(pages)).flat();
}

const PATH = '/_apis/hooks/subscriptions';
const EVENTS = ['workitem.commented', 'workitem.created', 'workitem.deleted', 'workitem.restored', 'workitem.updated'];

const subscription = z.object({
  id: z.string().regex(/^[0-9a-f-]{36}$/i),
  status: z.string(),
  eventType: z.string(),
  publisherInputs: z.object({ projectId: z.string().catch('') }),
  consumerInputs: z.object({ url: z.string().catch('') }),
});

type Subscription = z.infer<typeof subscription>;

const list = z.object({ value: z.array(subscription) });

/** One subscription for each project and event: Azure DevOps knows none for several. */
function hooksOfProjects(api: Rest, followed: (signal: AbortSignal) => Promise<readonly Project[]>): Hooks {
  return hooksOf<Project, readonly Subscription[]>({
    placesOf: followed,
    subjectOf: ({ name }) => name,
    finder(url, signal) {
      const query = { publisherId: 'tfs', consumerId: 'webHooks', consumerActionId: 'httpRequest' };
      const all = memoize(() => api.read(list, PATH, query, signal));
      return async ({ id }) => {
        const leading = (await all()).content.value.filter(({ consumerInputs }) => consumerInputs.url === url);
        const mine = leading.filter(({ publisherInputs }) => publisherInputs.projectId === id);
        return mine.length === 0 ? undefined : mine;
      };
    },
    hidden: ['forbidden', 'unauthorized'],
    unknown: {
      state: 'unknown',
      message: 'only an administrator of the project may read service hooks',
      hint: 'Look at Project settings, Service hooks.',
    },
    stateOf,
    isRight: (mine) => stateOf(mine).state === 'active',
    async save(project, mine, { url, secret }, signal) {
      for (const eventType of EVENTS) {
        const found = mine?.find((each) => each.eventType === eventType);
        const body = describe(project, eventType, url, secret);
        // The password cannot be read back: worksync sends it each time, which also switches a subscription on again.
        if (found) await api.send('PUT', `${PATH}/${found.id}`, { ...body, id: found.id }, signal);
        else await api.send('POST', PATH, body, signal);
      }
      return ACTIVE;
    },
  });
}

const ACTIVE = { state: 'active', message: 'the subscriptions send its events' } as const;

const REMEDY =
  'Run "worksync hooks install" with a token of a project administrator, or see Project settings, Service hooks.';

/** Without comments news come a little later, so a missing subscription to them is no fault. */
function stateOf(mine: readonly Subscription[] = []): Omit<HookState, 'subject'> {
  const missing = EVENTS.filter((event) => event !== 'workitem.commented').filter(
    (event) => !mine.some(({ eventType }) => eventType === event),
  );
  if (missing.length > 0)
    return { state: 'absent', message: `no subscription to ${missing.join(', ')} sends to this address`, hint: REMEDY };
  const off = mine.filter(({ status }) => status !== 'enabled' && status !== 'onProbation');
  if (off.length === 0) return ACTIVE;
  const events = off.map(({ eventType }) => eventType).join(', ');
  return { state: 'disabled', message: `the subscription to ${events} is switched off`, hint: REMEDY };
}

/** Azure sends only which work item it is: the rest is fetched. */
function describe({ id }: Project, eventType: string, url: string, secret: string) {
  return {
    publisherId: 'tfs',
    eventType,
    resourceVersion: '1.0',
    consumerId: 'webHooks',
    consumerActionId: 'httpRequest',
    publisherInputs: { projectId: id },
    consumerInputs: {
      url,
      basicAuthUsername: 'worksync',
      basicAuthPassword: secret,
      resourceDetailsToSend: 'minimal',
      messagesToSend: 'none',
      detailedMessagesToSend: 'none',
    },
  };
}
