import type { WebhookEventName } from '@octokit/webhooks/types';
import { z } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { type HttpAnswer, isSuccess } from '../../platform/http/http-client.ts';
import { longNumbersAsTexts } from '../../platform/http/parse-json.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection, HookState, Hooks, InstalledHook } from '../connector.ts';
import { type HookPlace, hookPlaces, hooksOfPlaces } from '../kit/hooks.ts';
import { parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { type AttemptPage, createRedelivery, type ListedAttempt, type RedeliveryRules } from '../kit/redelivery.ts';
import { onOneLine, undefinedOn } from '../kit/refusal.ts';
import { createMemory, type Memory, type Page } from '../kit/rest.ts';
import type { Api } from './api.ts';
import { type Repositories, repositoryPath } from './lists.ts';
import { type Options, scopeOf } from './options.ts';

/** The parts of a connection that its checks, hooks and redelivery use. */
export interface Parts {
  readonly api: Api;
  readonly appApi: Api | undefined;
  readonly options: Options;
  readonly repositories: Repositories;
  readonly findHook: FindHook;
  readonly clock: Clock;
}

/** Resolves with the places in which webhooks of this connection can be registered. */
function placesOf({ options, repositories }: Parts, signal: AbortSignal): Promise<readonly HookPlace[]> {
  const owners = options.organizations.map((owner) => ({ subject: owner, path: `/orgs/${owner}/hooks` }));
  const { listed } = repositories;
  const followed = { scope: scopeOf(options), listed, unitOf: ({ id }: { id: string }) => id, pathOf: repositoryPath };
  return hookPlaces(owners, followed, signal);
}

/** Without the right GitHub answers 403 or 404. */
const HIDDEN = ['not_found', 'forbidden'] as const;

const hook = z.object({
  id: z.int().positive(),
  active: z.boolean().catch(false),
  events: z.array(z.string()).catch([]),
  config: z
    .object({
      url: z.string().catch(''),
      content_type: z.string().catch('form'),
      insecure_ssl: z.union([z.string(), z.number()]).transform(String).catch('0'),
      secret: z.string().optional().catch(undefined),
    })
    .catch({ url: '', content_type: 'form', insecure_ssl: '0' }),
  last_response: z
    .object({ code: z.int().nullable().catch(null), message: z.string().nullable().catch(null) })
    .optional()
    .catch(undefined),
});

type Hook = z.infer<typeof hook>;

/** The hook of a place that delivers to this address; undefined where there is none. */
type FindHook = (path: string, url: string, signal: AbortSignal) => Promise<Hook | undefined>;

/** worksync looks for hooks again and again; an unchanged list uses up nothing of the limit. */
export function createFindHook(api: Api): FindHook {
  const memory = createMemory<Page>();
  return async (path, url, signal) => {
    for await (const page of api.pages(hook, path, { query: 'per_page=100', signal }, memory)) {
      const found = page.find(({ config }) => config.url === url);
      if (found) return found;
    }
    return undefined;
  };
}

const PULL_REQUEST_EVENTS: readonly WebhookEventName[] = [
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
  'issue_comment',
];

function eventsOf({ issues }: Pick<Options, 'issues'>): readonly string[] {
  return issues ? [...PULL_REQUEST_EVENTS, 'issues'] : PULL_REQUEST_EVENTS;
}

/** An App has one webhook for all of its installations; a token's webhooks are those of organisations and repositories. */
export function createHooks(parts: Parts): Hooks {
  const { api, appApi, options, findHook } = parts;
  if (appApi)
    return {
      states: async (url, signal) => [await appState(appApi, options, url, signal)],
      install: async (url, secret, signal) => [await installApp(appApi, options, url, secret, signal)],
    };
  return hooksOfPlaces<Hook>({
    placesOf: (signal) => placesOf(parts, signal),
    find: ({ path }, url, signal) => findHook(path, url, signal),
    hidden: HIDDEN,
    hints: {
      hidden:
        'Give the token the right to manage webhooks (Webhooks: read and write, or admin:org_hook), or check by hand.',
      repair: 'Run "worksync hooks install", or repair it at GitHub.',
    },
    nameOf: ({ id }) => `webhook ${id}`,
    isOn: ({ active }) => active,
    flawsOf: (found) => flawsOf(found, options),
    saidOf: lastAnswer,
    /** The secret cannot be read back, so it is always sent. */
    async save({ path }, found, wanted, signal) {
      const events = [...new Set([...(found?.events ?? []), ...eventsOf(options)])].sort();
      const body = { active: true, events, config: configOf(wanted) };
      const answer = found
        ? await api.write('PATCH', `${path}/${found.id}`, { body, explained, signal })
        : await api.write('POST', path, { body: { name: 'web', ...body }, explained, signal });
      return readHook(answer, path);
    },
  });
}

function flawsOf({ events, config }: Hook, options: Options): string[] {
  const missing = events.includes('*') ? [] : eventsOf(options).filter((event) => !events.includes(event));
  return [
    ...(missing.length > 0 ? [`does not send ${missing.join(', ')}`] : []),
    ...(config.content_type === 'json' ? [] : ['does not send application/json']),
    ...(config.secret === undefined ? ['has no secret'] : []),
    ...(config.insecure_ssl === '0' ? [] : ['does not verify the certificate']),
  ];
}

function lastAnswer({ last_response: last }: Hook): string {
  if (!last || last.code === null || (last.code >= 200 && last.code <= 399)) return '';
  return `; its last delivery was answered with ${last.code} ${onOneLine(last.message ?? '', 80)}`.trimEnd();
}

interface Target {
  readonly url: string;
  readonly secret: string;
}

/** The status with which GitHub explains what is wrong with a webhook. */
const explained = [422];

function configOf({ url, secret }: Target) {
  return { url, content_type: 'json', insecure_ssl: '0', secret };
}

const refusalBody = z.object({ message: z.string().catch(''), errors: z.unknown() });

function readHook(answer: HttpAnswer, path: string): Hook {
  const content = readAnswer(answer, path);
  if (answer.status === 422) {
    const { message = '', errors } = readable(refusalBody, content) ?? {};
    const said = onOneLine(`${message} ${JSON.stringify(errors ?? '')}`);
    throw new SyncError('refused', `${path}: GitHub refused the webhook: ${said}`, { status: 422 });
  }
  return parseAnswer(hook, content, path);
}

const CONFIG = '/app/hook/config';
const appConfig = hook.shape.config;

/** The configuration of the App's webhook; undefined where the App has none. */
async function appHook(api: Api, signal: AbortSignal): Promise<Hook['config'] | undefined> {
  const asked = await undefinedOn(api.get(CONFIG, { signal }), ...HIDDEN);
  return asked && parseAnswer(appConfig, readAnswer(asked, `GET ${CONFIG}`), `GET ${CONFIG}`);
}

async function appState(api: Api, options: Options, url: string, signal: AbortSignal): Promise<HookState> {
  const config = await appHook(api, signal);
  const { subject, events } = await appOf(api, signal);
  if (config?.url !== url) {
    const message = config?.url ? 'the webhook of the App delivers to another address' : 'the App has no webhook';
    return {
      subject,
      state: 'absent',
      message,
      hint: 'Run "worksync hooks install": it sets the address of the webhook. Use one App per workspace.',
    };
  }
  const flaws = flawsOf({ id: 1, active: true, events, config }, options);
  if (flaws.length === 0) return { subject, state: 'active', message: 'the webhook of the App' };
  return { subject, state: 'active', message: `the webhook of the App ${flaws.join(', ')}`, hint: APP_EVENTS };
}

const APP_EVENTS =
  'Run "worksync hooks install", which repairs all but the events. Tick those in the settings of the App, "Permissions & events".';

async function installApp(api: Api, options: Options, url: string, secret: string, signal: AbortSignal) {
  const before = await appHook(api, signal);
  const answer = await api.write('PATCH', CONFIG, { body: configOf({ url, secret }), explained, signal });
  if (answer.status === 422)
    throw new SyncError('refused', `PATCH ${CONFIG}: GitHub refused the address ${url}`, { status: 422 });
  const state = await appState(api, options, url, signal);
  const isSame =
    before?.url === url && before.content_type === 'json' && before.insecure_ssl === '0' && before.secret !== undefined;
  return { ...state, outcome: before?.url ? (isSame ? 'unchanged' : 'updated') : 'created' } satisfies InstalledHook;
}

const appAnswer = z.object({ slug: z.string().catch(''), events: z.array(z.string()).catch([]) });

async function appOf(api: Api, signal: AbortSignal) {
  const { slug, events } = parseAnswer(
    appAnswer,
    readAnswer(await api.get('/app', { signal }), 'GET /app'),
    'GET /app',
  );
  return { subject: slug === '' ? 'GitHub App' : `GitHub App ${slug}`, events };
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** How long GitHub keeps deliveries (GH1). */
const KEPT = { public: 3 * DAY, own: 7 * DAY };
/** GitHub may list a delivery some minutes after it sent it, behind newer ones that are already listed. */
const LATE = 10 * MINUTE;
const NEWEST = 'per_page=100';
const FAILED = 'status=failure&per_page=100';

/** GitHub does not repeat a failed delivery itself, so worksync requests it. */
export function createRedeliver(parts: Parts): NonNullable<Connection['redeliver']> {
  const { options, clock } = parts;
  const isPublic = options.host === 'github.com' || options.host.endsWith('.ghe.com');
  const keptFor = isPublic ? KEPT.public : KEPT.own;
  const rules: RedeliveryRules = {
    keptFor,
    mostAttempts: 3,
    mostOfHook: 60,
    mostAtOnce: 60,
    queries: { newest: NEWEST, failed: [FAILED] },
    pageSize: 100,
    mostPages: { failed: 10, all: 10 },
    floorOf: (last) => Math.max(clock.now() - keptFor, last - LATE),
  };
  const first = createMemory<AttemptPage>();
  return createRedelivery(clock, rules, async (url, signal) =>
    (await hooksAt(parts, url, signal)).map(({ api, path }) => ({
      name: path,
      list: (query, given) => listAttempts(api, path, options, query, first, given),
      resend: (id, given) => requestAgain(api, `${path}/${id}/attempts`, given),
    })),
  );
}

/** Returns the paths of the deliveries of the hooks that send to this address, with the credential that may read them. */
async function hooksAt(parts: Parts, url: string, signal: AbortSignal) {
  const { api, appApi, findHook } = parts;
  if (appApi) {
    const config = await appHook(appApi, signal);
    return config?.url === url ? [{ api: appApi, path: '/app/hook/deliveries' }] : [];
  }
  const found: { readonly api: Api; readonly path: string }[] = [];
  for (const { path } of await placesOf(parts, signal)) {
    const own = await undefinedOn(findHook(path, url, signal), ...HIDDEN);
    if (own) found.push({ api, path: `${path}/${own.id}/deliveries` });
  }
  return found;
}

const attempt = z.object({
  /** An id of 64 bits: one that no number can represent exactly is a text. */
  id: z.union([z.int().positive(), z.string().regex(/^\d{16,20}$/)]).transform(String),
  guid: z.string().min(1),
  delivered_at: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
  status: z.string(),
  status_code: z.int().nullish().catch(undefined),
  event: z.string(),
  installation_id: z.int().nullish().catch(undefined),
});
type Attempt = z.infer<typeof attempt>;

const attempts = z.array(attempt);

async function listAttempts(
  api: Api,
  path: string,
  options: Options,
  query: string,
  first: Memory<AttemptPage>,
  signal: AbortSignal,
) {
  const events = eventsOf(options);
  /** The webhook of an App has the deliveries of all its installations. */
  const isForeign = ({ event, installation_id: id }: Attempt) =>
    !events.includes(event) || (options.app !== undefined && id != null && String(id) !== options.app.installationId);
  const get = (etag?: string) => api.get(path, { query, etag, signal, use: 'poll' });
  const parse = (answer: HttpAnswer): AttemptPage => {
    const what = `GET ${path}`;
    const content = readAnswer({ ...answer, body: longNumbersAsTexts(answer.body) }, what);
    const found = parseAnswer(attempts, content, what).map((one) => {
      const { guid: delivery, id, delivered_at: order } = one;
      return { delivery, attempt: id, order, result: resultOf(one), isForeign: isForeign(one) };
    });
    return { attempts: found, next: api.nextQuery(answer, path) };
  };
  // The cursors of other pages are new each time. An unchanged first page costs nothing.
  return query === NEWEST || query === FAILED ? first.read(`${path}?${query}`, get, parse) : parse(await get());
}

function resultOf({ status, status_code: code }: Pick<Attempt, 'status' | 'status_code'>): ListedAttempt['result'] {
  if (status === 'OK' || (typeof code === 'number' && isSuccess(code))) return 'arrived';
  return typeof code === 'number' && code >= 400 && code <= 599 ? 'refused' : 'unanswered';
}

/** `gone`: the delivery is too old now, or its hook is switched off. */
async function requestAgain(api: Api, path: string, signal: AbortSignal): Promise<'requested' | 'gone'> {
  try {
    return (await api.write('POST', path, { explained: [422], signal })).status === 422 ? 'gone' : 'requested';
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' || error.status === 400) return 'gone';
    throw error;
  }
}
