import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { hooksOfPlaces } from '../kit/hooks.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { isPattern } from '../kit/patterns.ts';
import { addressOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { type Repositories, repositoryPath, unitOf } from './repositories.ts';
import { uuid } from './schema.ts';

/** What changes a pull request. Approvals and comments change none; where they are switched on they are left so. */
const EVENTS = ['pullrequest:created', 'pullrequest:updated', 'pullrequest:fulfilled', 'pullrequest:rejected'];

/** What may carry a hook: a whole workspace, or one repository. */
interface Subject {
  readonly name: string;
  readonly path: string;
}

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
export function createHooks(api: Api, options: Options, repositories: Repositories): Hooks {
  const ofWorkspaces = options.workspaces.map((name) => ({ name, path: `/workspaces/${name}/hooks` }));

  async function subjects(signal: AbortSignal): Promise<readonly Subject[]> {
    const followed = new Set(options.workspaces.map((name) => name.toLowerCase()));
    const isLeft = (name: string) => !followed.has((name.split('/', 1)[0] as string).toLowerCase());
    const named = options.repositories.filter((name) => !isPattern(name));
    const units = [
      ...named.map((name) => ({ name, unit: addressOf(name, scopeOf(options)) })),
      ...(await repositories.listed(signal)).map((each) => ({ name: each.name, unit: unitOf(each) })),
    ];
    const alone = units.filter(({ name }) => isLeft(name));
    return [...ofWorkspaces, ...alone.map(({ name, unit }) => ({ name, path: `${repositoryPath(unit)}/hooks` }))];
  }

  async function install({ name, path }: Subject, { url, secret }: Target, signal: AbortSignal) {
    const present = await find(api, path, url, signal);
    const wanted = { description: 'worksync', url, active: true, events: EVENTS, secret };
    if (present === undefined) {
      await send(api, 'POST', path, wanted, signal);
      return { subject: name, state: 'active', message: 'was registered', outcome: 'created' } as const;
    }
    if (problemOf(present) === undefined)
      return { subject: name, state: 'active', message: 'is in order', outcome: 'unchanged' } as const;
    const { description, skip_cert_verification } = present;
    const events = [...new Set([...present.events, ...EVENTS])];
    // Sent back as they are: what is left out might be taken for its default.
    const mended = { ...wanted, description, events, skip_cert_verification };
    await send(api, 'PUT', `${path}/${encodeURIComponent(present.uuid)}`, mended, signal);
    return { subject: name, state: 'active', message: 'was repaired', outcome: 'updated' } as const;
  }

  return hooksOfPlaces(subjects, ({ name, path }, url, signal) => stateOf(api, name, path, url, signal), install);
}

interface Target {
  readonly url: string;
  readonly secret: string;
}

const INSTALL = 'Run `worksync hooks install`, or repair it at Bitbucket.';

async function stateOf(api: Api, subject: string, path: string, url: string, signal: AbortSignal): Promise<HookState> {
  try {
    const present = await find(api, path, url, signal);
    if (present === undefined)
      return { subject, state: 'absent', message: 'no webhook leads to this address', hint: INSTALL };
    const problem = problemOf(present);
    const state = present.active ? 'active' : 'disabled';
    return problem === undefined
      ? { subject, state, message: 'is active' }
      : { subject, state, message: problem, hint: INSTALL };
  } catch (thrown) {
    const { code, message } = asSyncError(thrown);
    if (code !== 'forbidden' && code !== 'not_found' && code !== 'unauthorized') throw thrown;
    return {
      subject,
      state: 'unknown',
      message,
      hint: 'Give the token the scope `webhook` so that worksync can check webhooks.',
    };
  }
}

/** Undefined where nothing is to be mended. Whether the secret is the right one cannot be seen. */
function problemOf({ active, events, secret_set }: Hook): string | undefined {
  const missing = EVENTS.filter((event) => !events.includes(event));
  if (!active) return 'is switched off';
  if (missing.length > 0) return `is not told of ${missing.join(', ')}`;
  return secret_set === false ? 'has no secret, so every delivery is refused' : undefined;
}

async function find(api: Api, path: string, url: string, signal: AbortSignal): Promise<Hook | undefined> {
  for await (const page of api.pages(path, { query: 'pagelen=100', signal })) {
    const found = parseAnswer(z.array(hook), page, `GET ${path}`).find((each) => each.url === url);
    if (found) return found;
  }
  return undefined;
}

async function send(api: Api, method: 'POST' | 'PUT', path: string, body: object, signal: AbortSignal): Promise<void> {
  readAnswer(await api.write(method, path, { body, signal }), `${method} ${path}`);
}
