import type { WebhookEventName } from '@octokit/webhooks/types';
import { z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { HookState, Hooks, InstalledHook } from '../connector.ts';
import { hooksOfPlaces } from '../kit/hooks.ts';
import { parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { onOneLine, undefinedOn } from '../kit/refusal.ts';
import type { Api } from './api.ts';
import type { Options } from './options.ts';
import { HIDDEN, type Hook, hook, type Parts, placesOf } from './places.ts';

const PULL_REQUEST_EVENTS: readonly WebhookEventName[] = [
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
  'issue_comment',
];

/** The events that are followed. */
export function eventsOf({ issues }: Pick<Options, 'issues'>): readonly string[] {
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
    /** Nobody can read the secret back: worksync sends it each time. */
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

/** The status by which GitHub says what is wrong with a webhook. */
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
export async function appHook(api: Api, signal: AbortSignal): Promise<Hook['config'] | undefined> {
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
