import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';
import { parseAnswer } from '../kit/json.ts';
import { addressOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import type { Directory, Project } from './projects.ts';

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
export function hooksOf(api: Api, options: Options, directory: Directory): Hooks {
  const scope = scopeOf(options);

  async function projects(signal: AbortSignal): Promise<readonly Project[]> {
    const found: Project[] = [];
    for (const unit of await directory.units(signal))
      found.push(await directory.project(addressOf(unit, scope), signal));
    return found;
  }

  async function leadingTo(url: string, signal: AbortSignal): Promise<readonly Subscription[]> {
    const query = { publisherId: 'tfs', consumerId: 'webHooks', consumerActionId: 'httpRequest' };
    const data = parseAnswer(list, (await api.get(PATH, query, signal)).content, `GET ${PATH}`);
    return data.value.filter(({ consumerInputs }) => consumerInputs.url === url);
  }

  return {
    async states(url, signal) {
      const wanted = await projects(signal);
      try {
        const standing = await leadingTo(url, signal);
        return wanted.map((project) => stateOf(project, of(standing, project)));
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (error.code !== 'forbidden' && error.code !== 'unauthorized') throw error;
        return wanted.map(({ name }) => ({ ...UNKNOWN, subject: name }));
      }
    },
    async install(url, secret, signal) {
      const wanted = await projects(signal);
      const standing = await leadingTo(url, signal);
      const done: Awaited<ReturnType<Hooks['install']>>[number][] = [];
      for (const project of wanted) {
        const mine = of(standing, project);
        for (const eventType of EVENTS) {
          const found = mine.find((each) => each.eventType === eventType);
          const body = describe(project, eventType, url, secret);
          // The password cannot be read back: it is told each time, which also switches a subscription on again.
          if (found)
            await api.send({ method: 'PUT', path: `${PATH}/${found.id}`, body: { ...body, id: found.id } }, signal);
          else await api.send({ method: 'POST', path: PATH, body }, signal);
        }
        const { state } = stateOf(project, mine);
        const outcome = mine.length === 0 ? 'created' : state === 'active' ? 'unchanged' : 'updated';
        done.push({ ...ACTIVE, subject: project.name, outcome });
      }
      return done;
    },
  };
}

const ACTIVE = { state: 'active', message: 'its events are subscribed to' } as const;

const UNKNOWN = {
  state: 'unknown',
  message: 'only an administrator of the project may look at service hooks',
  hint: 'Look at Project settings, Service hooks.',
} as const;

const REMEDY =
  'Run "worksync hooks install" with a token of a project administrator, or see Project settings, Service hooks.';

function of(standing: readonly Subscription[], { id }: Project): readonly Subscription[] {
  return standing.filter(({ publisherInputs }) => publisherInputs.projectId === id);
}

/** Without comments news come a little later, so they are not missed. */
function stateOf({ name: subject }: Project, mine: readonly Subscription[]): HookState {
  const missing = EVENTS.filter((event) => event !== 'workitem.commented').filter(
    (event) => !mine.some(({ eventType }) => eventType === event),
  );
  if (missing.length > 0)
    return { subject, state: 'absent', message: `no subscription to ${missing.join(', ')} leads here`, hint: REMEDY };
  const off = mine.filter(({ status }) => status !== 'enabled' && status !== 'onProbation');
  if (off.length === 0) return { ...ACTIVE, subject };
  const events = off.map(({ eventType }) => eventType).join(', ');
  return { subject, state: 'disabled', message: `the subscription to ${events} is switched off`, hint: REMEDY };
}

/** No more is sent than says which work item it is: the rest is fetched. */
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
