import { z } from 'zod';
import { asSyncError, type SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Connection } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer, readAnswer, readable } from '../kit/json.ts';
import { addressOf } from '../kit/scope.ts';
import { saidOf } from './answers.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import type { Projects } from './projects.ts';
import { groupsOf, type Place, pathOf, projectsOutside } from './units.ts';

type Hooks = NonNullable<Connection['hooks']>;
type State = Awaited<ReturnType<Hooks['states']>>[number];
type Installed = Awaited<ReturnType<Hooks['install']>>[number];

const flag = absent(z.boolean());
const hook = z.looseObject({
  id: z.int().positive(),
  url: z.string(),
  alert_status: absent(z.string()),
  disabled_until: absent(z.string().nullable()),
  token_present: flag,
  signing_token_present: flag,
  custom_webhook_template: absent(z.string().nullable()),
  /** Ours: what GitLab said of a test that failed. */
  said: absent(z.string()),
});
export type Hook = z.infer<typeof hook>;

/** A holder whose hooks can be read, and those that lead to us. */
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
      const lines: Installed[] = [];
      for (const each of await hookedAt(api, projects, options, url, signal)) {
        if ('error' in each) lines.push({ ...unknown(each), outcome: 'unchanged' });
        else lines.push(await installAt(api, each, { url, secret, wanted }, signal));
      }
      return lines;
    },
  };
}

/** The events that are followed; `false` for what GitLab would switch on by itself. */
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

/** Where groups have no hooks, as on the Free plan, or ours may not be seen, those of their projects are looked at. */
export async function hookedAt(
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
    if (!('error' in ofGroup) || !isOutOfReach(ofGroup.error)) {
      found.push(ofGroup);
      continue;
    }
    for (const each of await projects.followed(name, signal))
      found.push(await look(api, { kind: 'project', name: each.name }, url, signal));
  }
  return found;
}

function isOutOfReach({ code }: SyncError): boolean {
  return code === 'not_found' || code === 'forbidden';
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
    const all = await api.list(path, { signal });
    const hooks = all.flatMap((each) => readable(hook, each) ?? []).filter((each) => each.url === url);
    return { holder, path, hooks };
  } catch (thrown) {
    const error = asSyncError(thrown);
    // A limit, a bad credential or the end of the process would meet the next one too.
    if (!isOutOfReach(error)) throw error;
    return { holder, error };
  }
}

function subjectOf({ kind, name }: Place): string {
  return `${kind} ${name}`;
}

function unknown({ holder, error }: Refused): State {
  const role = holder.kind === 'group' ? 'Owner of the group' : 'Maintainer of the project';
  return {
    subject: subjectOf(holder),
    state: 'unknown',
    message: `its webhooks may not be seen: ${error.message}`,
    hint: `Use a token with the scope api whose role is ${role}, or look in its settings.`,
  };
}

type Events = Readonly<Record<string, boolean>>;

function stateOf({ holder, hooks }: Hooked, wanted: Events): State {
  const subject = subjectOf(holder);
  const first = hooks.find(isOn) ?? hooks[0];
  if (first === undefined)
    return {
      subject,
      state: 'absent',
      message: 'no webhook leads here',
      hint: 'Register it with "worksync hooks install".',
    };
  if (!isOn(first)) return { subject, state: 'disabled', ...switchedOff(first) };
  return { subject, state: 'active', ...faultOf(first, wanted) };
}

function isOn({ alert_status }: Hook): boolean {
  return alert_status === undefined || alert_status === 'executable';
}

function switchedOff({ disabled_until, said }: Hook): Pick<State, 'message' | 'hint'> {
  const until = disabled_until ? `until ${disabled_until}, if nothing fails then` : 'until somebody switches it on';
  return {
    message: `GitLab switched it off after failures, ${until}; what happens meanwhile comes by polls${said ? `. A test said: ${said}` : ''}`,
    hint: 'Repair what refuses the deliveries, then run "worksync hooks install".',
  };
}

/** What is wrong with a hook that is on. */
function faultOf(present: Hook, wanted: Events): Pick<State, 'message' | 'hint'> {
  const missing = missingEvents(present, wanted);
  if (present.custom_webhook_template)
    return {
      message: 'it sends a custom template, which cannot be read',
      hint: 'Take the custom webhook template away in its settings.',
    };
  if (missing.length > 0)
    return { message: `it lacks ${missing.join(', ')}`, hint: 'Repair it with "worksync hooks install".' };
  if (present.token_present === false && present.signing_token_present !== true)
    return {
      message: 'it has no secret, so what it sends is refused',
      hint: 'Repair it with "worksync hooks install".',
    };
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

async function installAt(api: Api, at: Hooked, wish: Wish, signal: AbortSignal): Promise<Installed> {
  const present = at.hooks.find(isOn) ?? at.hooks[0];
  const fields = { url: wish.url, ...wish.wanted, enable_ssl_verification: true, ...secretFields(wish.secret) };
  if (present === undefined) {
    const made = readHook(await api.write('POST', at.path, { body: { name: 'worksync', ...fields }, signal }));
    return { ...described(at, made, wish), outcome: 'created' };
  }
  // The secret cannot be read back: it is sent again, and where it is the same that changes nothing.
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

/** Older servers pass over a signing token without a word, and would then send without any proof. */
function described(at: Hooked, after: Hook, { secret, wanted }: Wish): State {
  const state = stateOf({ ...at, hooks: [after] }, wanted);
  if (hasSecret(after, secret)) return state;
  return {
    ...state,
    message: 'this GitLab took no signing token, so what it sends is refused',
    hint: 'Put a secret into webhookSecrets that does not begin with whsec_, and run this again.',
  };
}

/** A test delivery that is taken switches a hook on again. A project without merge requests can send no such test. */
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
