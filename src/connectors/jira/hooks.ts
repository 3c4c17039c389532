import { z } from 'zod';
import type { HookState, Hooks } from '../connector.ts';
import { hooksOf } from '../kit/hooks.ts';
import { absent } from '../kit/payload.ts';
import { malformed } from '../kit/refusal.ts';
import type { Rest } from '../kit/rest.ts';
import { addressOf, patternsOf } from '../kit/scope.ts';
import { type Options, projectIs, scopeOf } from './options.ts';

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
export function hooksOfSite(api: Rest, options: Options): Hooks {
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
