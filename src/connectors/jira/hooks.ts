import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';
import { absent } from '../kit/fields.ts';
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
export function hooksOf(api: Rest, options: Options): Hooks {
  const subject = options.site;
  const filter = filterOf(options);

  async function find(url: string, signal: AbortSignal): Promise<Registered | undefined> {
    return (await api.read(z.array(hook), PATH, {}, signal)).content.find((each) => each.url === url);
  }

  return {
    async states(url, signal) {
      try {
        return [stateOf(subject, await find(url, signal))];
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (error.code !== 'forbidden' && error.code !== 'unauthorized' && error.code !== 'not_found') throw error;
        return [unknown(subject)];
      }
    },
    async install(url, secret, signal) {
      const standing = await find(url, signal);
      const body = { ...describe(url, filter), secret };
      if (!standing) {
        await api.send('POST', PATH, body, signal);
        return [{ ...ACTIVE, subject, outcome: 'created' }];
      }
      // Jira does not show the secret, and keeps it unless it gets a new one: so it always gets one.
      await api.send('PUT', `${PATH}/${idOf(standing)}`, body, signal);
      return [{ ...ACTIVE, subject, outcome: isWanted(standing, filter) ? 'unchanged' : 'updated' }];
    },
  };
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

function stateOf(subject: string, found: Registered | undefined): HookState {
  if (!found)
    return {
      subject,
      state: 'absent',
      message: 'no webhook sends to this address',
      hint: 'Run "worksync hooks install" with a token of a Jira administrator, or add it at Settings, System, WebHooks.',
    };
  if (found.enabled !== false) return { ...ACTIVE, subject };
  return {
    subject,
    state: 'disabled',
    message: 'the webhook is switched off',
    hint: 'Run "worksync hooks install", or switch it on at Settings, System, WebHooks.',
  };
}

function unknown(subject: string): HookState {
  return {
    subject,
    state: 'unknown',
    message: 'only an administrator of Jira may read webhooks',
    hint: 'Look at Settings, System, WebHooks.',
  };
}

function describe(url: string, filter: string) {
  return { name: 'worksync', url, events: EVENTS, filters: { [FILTER]: filter }, excludeBody: false, enabled: true };
}

function isWanted(found: Registered, filter: string): boolean {
  const isSame = found.filters[FILTER] === filter && EVENTS.every((event) => found.events.includes(event));
  return isSame && found.enabled !== false;
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
