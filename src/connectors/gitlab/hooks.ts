import { z } from 'zod';
import type { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection, HookState, Hooks, InstalledHook } from '../connector.ts';
import { refusalOfPlace, refused } from '../kit/hooks.ts';
import { absent, parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { createRedelivery, type HookDeliveries, type ListedAttempt, type RedeliveryRules } from '../kit/redelivery.ts';
import { addressOf } from '../kit/scope.ts';
import { type Api, saidOf } from './api.ts';
import { groupsOf, type Options, type Place, pathOf, projectsOutside, scopeOf } from './options.ts';
import type { Projects } from './projects.ts';

const flag = absent(z.boolean());
const hook = z.looseObject({
  id: z.int().positive(),
  url: z.string(),
  alert_status: absent(z.string()),
  disabled_until: absent(z.string().nullable()),
  token_present: flag,
  signing_token_present: flag,
  custom_webhook_template: absent(z.string().nullable()),
  /** No field of GitLab: its message when a test failed. */
  said: absent(z.string()),
});
export type Hook = z.infer<typeof hook>;

/** A group or project whose hooks can be read, with those that send to our address. */
export interface Hooked {
  readonly holder: Place;
  readonly path: string;
  readonly hooks: readonly Hook[];
}

/** Webhooks of the connection's groups and projects (GL2). */
export function createHooks(api: Api, projects: Projects, options: Options): Hooks {
  const wanted = eventsOf(options);
  return {
    async states(url, signal) {
      const all = await hookedAt(api, projects, options, url, signal);
      return all.map((each) => ('error' in each ? unknown(each) : stateOf(each, wanted)));
    },
    async install(url, secret, signal) {
      const lines: InstalledHook[] = [];
      for (const each of await hookedAt(api, projects, options, url, signal)) {
        if ('error' in each) lines.push({ ...unknown(each), outcome: 'unknown' });
        else
          lines.push(
            await installAt(api, each, { url, secret, wanted }, signal).catch((thrown: unknown) => ({
              ...refused(refusalOfPlace(thrown)),
              subject: subjectOf(each.holder),
            })),
          );
      }
      return lines;
    },
  };
}

/** The events to switch on; `false` for those that are not followed, some of which GitLab switches on by default. */
function eventsOf({ issues, confidential }: Options): Readonly<Record<string, boolean>> {
  return {
    merge_requests_events: true,
    note_events: true,
    issues_events: issues,
    confidential_issues_events: issues && confidential,
    confidential_note_events: issues && confidential,
    push_events: false,
  };
}

type Refused = { readonly holder: Place; readonly error: SyncError };

/**
 * Reads the hooks of groups and projects. Where a group has none, as on the Free plan, or this credential may not read them, reads
 * those of its projects instead.
 */
async function hookedAt(
  api: Api,
  projects: Projects,
  options: Options,
  url: string,
  signal: AbortSignal,
): Promise<readonly (Hooked | Refused)[]> {
  const found: (Hooked | Refused)[] = [];
  for (const name of projectsOutside(options)) {
    const address = addressOf(name, scopeOf(options));
    found.push(await look(api, { kind: 'project', name }, url, signal, address));
  }
  for (const name of groupsOf(options)) {
    const ofGroup = await look(api, { kind: 'group', name }, url, signal);
    if (!('error' in ofGroup)) found.push(ofGroup);
    else
      for (const each of await projects.followed(name, signal))
        found.push(await look(api, { kind: 'project', name: each.name }, url, signal));
  }
  return found;
}

async function look(
  api: Api,
  holder: Place,
  url: string,
  signal: AbortSignal,
  address = holder.name,
): Promise<Hooked | Refused> {
  const path = `${pathOf({ ...holder, name: address })}/hooks`;
  try {
    const all = await api.all(z.unknown(), path, { signal });
    const hooks = all.flatMap((each) => readable(hook, each) ?? []).filter((each) => each.url === url);
    return { holder, path, hooks };
  } catch (thrown) {
    return { holder, error: refusalOfPlace(thrown) };
  }
}

function subjectOf({ kind, name }: Place): string {
  return `${kind} ${name}`;
}

function unknown({ holder, error }: Refused): HookState {
  const role = holder.kind === 'group' ? 'Owner of the group' : 'Maintainer of the project';
  return {
    subject: subjectOf(holder),
    state: 'unknown',
    message: `this credential may not read its webhooks: ${error.message}`,
    hint: `Use a token with the scope api whose role is ${role}, or check its settings by hand.`,
  };
}

type Events = Readonly<Record<string, boolean>>;

function stateOf({ holder, hooks }: Hooked, wanted: Events): HookState {
  const subject = subjectOf(holder);
  const first = hooks.find(isOn) ?? hooks[0];
  if (first === undefined)
    return {
      subject,
      state: 'absent',
      message: 'no webhook sends to this address',
      hint: 'Register it with "worksync hooks install".',
    };
  if (!isOn(first)) return { subject, state: 'disabled', ...switchedOff(first) };
  return { subject, state: 'active', ...faultOf(first, wanted) };
}

function isOn({ alert_status }: Hook): boolean {
  return alert_status === undefined || alert_status === 'executable';
}

function switchedOff({ disabled_until, said }: Hook): Pick<HookState, 'message' | 'hint'> {
  const until = disabled_until
    ? `until ${disabled_until}, if deliveries succeed then`
    : 'until somebody switches it on';
  return {
    message: `GitLab switched it off after failures, ${until}; until then only polls bring changes${said ? `. A test failed: ${said}` : ''}`,
    hint: 'Find out why deliveries fail, then run "worksync hooks install".',
  };
}

const REPAIR = 'Repair it with "worksync hooks install".';

/** The first fault of a hook that is on. */
function faultOf(present: Hook, wanted: Events): Pick<HookState, 'message' | 'hint'> {
  const missing = missingEvents(present, wanted);
  if (present.custom_webhook_template)
    return {
      message: 'it sends a custom template, which worksync cannot read',
      hint: 'Remove the custom webhook template in its settings.',
    };
  if (missing.length > 0) return { message: `it does not send ${missing.join(', ')}`, hint: REPAIR };
  if (present.token_present === false && present.signing_token_present !== true)
    return { message: 'it has no secret, so worksync refuses its deliveries', hint: REPAIR };
  return { message: 'it is on' };
}

function missingEvents(present: Hook, wanted: Events): readonly string[] {
  return Object.keys(wanted).filter((event) => wanted[event] && present[event] !== true);
}

interface Wish {
  readonly url: string;
  readonly secret: string;
  readonly wanted: Events;
}

async function installAt(api: Api, at: Hooked, wish: Wish, signal: AbortSignal): Promise<InstalledHook> {
  const present = at.hooks.find(isOn) ?? at.hooks[0];
  const fields = { url: wish.url, ...wish.wanted, enable_ssl_verification: true, ...secretFields(wish.secret) };
  if (present === undefined) {
    const made = readHook(await api.write('POST', at.path, { body: { name: 'worksync', ...fields }, signal }));
    return { ...described(at, made, wish), outcome: 'created' };
  }
  // The secret cannot be read back, so it is always sent; the same secret changes nothing.
  const path = `${at.path}/${present.id}`;
  const isRight = missingEvents(present, wish.wanted).length === 0 && hasSecret(present, wish.secret) && isOn(present);
  const mended = readHook(await api.write('PUT', path, { body: fields, signal }));
  const after = isOn(mended) ? mended : await switchOn(api, path, signal);
  return { ...described(at, after, wish), outcome: isRight ? 'unchanged' : 'updated' };
}

/** GitLab takes a signing token in the form of Standard Webhooks, and any other word as the secret token. */
function secretFields(secret: string): Readonly<Record<string, string>> {
  return isSigningToken(secret) ? { signing_token: secret } : { token: secret };
}

function isSigningToken(secret: string): boolean {
  return secret.startsWith('whsec_');
}

function hasSecret(present: Hook, secret: string): boolean {
  return isSigningToken(secret) ? present.signing_token_present === true : present.token_present !== false;
}

function readHook(answer: HttpAnswer): Hook {
  return parseAnswer(hook, readAnswer(answer, 'a webhook'), 'a webhook');
}

/** Older servers silently ignore a signing token, and would send deliveries without any proof. */
function described(at: Hooked, after: Hook, { secret, wanted }: Wish): HookState {
  const state = stateOf({ ...at, hooks: [after] }, wanted);
  if (hasSecret(after, secret)) return state;
  return {
    ...state,
    message: 'this GitLab did not accept a signing token, so worksync refuses its deliveries',
    hint: 'Put a secret that does not begin with whsec_ into webhookSecrets, then run "worksync hooks install" again.',
  };
}

/** A test delivery that succeeds switches a hook on again. A project without merge requests cannot send a test about one. */
async function switchOn(api: Api, path: string, signal: AbortSignal): Promise<Hook> {
  let said = '';
  for (const event of ['merge_requests_events', 'push_events']) {
    const answer = await api.write('POST', `${path}/test/${event}`, { body: {}, explained: [400, 422], signal });
    if (answer.status < 300) break;
    said = saidOf(answer);
  }
  const after = readHook(await api.get(path, { signal }));
  return isOn(after) || said === '' ? after : { ...after, said };
}

const DAY = 86_400_000;
const FIRST_PAGE = 'per_page=20&page=1';

const RULES: RedeliveryRules = {
  keptFor: 3 * DAY,
  mostAttempts: 4,
  // GitLab accepts 5 requests a minute for each hook (GL3); the next round requests the rest.
  mostOfHook: 5,
  mostAtOnce: Number.POSITIVE_INFINITY,
  queries: {
    newest: FIRST_PAGE,
    failed: [`status=client_failure&${FIRST_PAGE}`, `status=server_failure&${FIRST_PAGE}`],
  },
  // GitLab lists at most 20 events on a page, each with the whole request that it sent.
  pageSize: 20,
  mostPages: { failed: 10, all: 50 },
  floorOf: (last) => last + 1,
};

/** As far as known, GitLab does not repeat a failed delivery by itself, so worksync requests it. */
export function createRedeliver(
  api: Api,
  projects: Projects,
  options: Options,
  clock: Clock,
): NonNullable<Connection['redeliver']> {
  return createRedelivery(clock, RULES, async (url, signal) => {
    const all = await hookedAt(api, projects, options, url, signal);
    const refusal = all.find((each) => 'error' in each);
    const paths = all.flatMap((each) =>
      'error' in each ? [] : each.hooks.map(({ id }) => `${each.path}/${id}/events`),
    );
    if (paths.length === 0 && refusal) throw refusal.error;
    return paths.map((path) => deliveriesAt(api, path));
  });
}

function deliveriesAt(api: Api, path: string): HookDeliveries {
  return {
    name: path,
    async list(query, signal) {
      const answer = await api.get(path, { query, use: 'background', signal });
      const { found, next } = api.pageOf(answer, { path, query });
      return { attempts: parseAnswer(z.array(event), found, `GET ${path}`).map(attemptOf), next };
    },
    async resend(id, signal) {
      const { status } = await api.write('POST', `${path}/${id}/resend`, { body: {}, explained: [422, 429], signal });
      if (status === 429) return 'later';
      return status < 300 ? 'requested' : 'gone';
    },
  };
}

/** The fields to keep of an event; worksync drops the rest, such as the request, page by page. */
const event = z.object({
  id: z.int().positive(),
  request_headers: absent(z.record(z.string(), z.unknown())),
  response_status: z.union([z.string(), z.int()]).transform(String).catch(''),
});

/** Servers before 17.4 give deliveries no name: each event counts as one, and those servers cannot send it again anyway. */
function attemptOf({ id, request_headers: headers, response_status: status }: z.infer<typeof event>): ListedAttempt {
  const key = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'idempotency-key')?.[1];
  const delivery = typeof key === 'string' ? key : `event ${id}`;
  // A request that timed out or reached no server is listed as `internal error`.
  const result = /^[23]\d\d$/.test(status) ? 'arrived' : /^\d{3}$/.test(status) ? 'refused' : 'unanswered';
  return { delivery, attempt: String(id), order: id, result };
}
