import { z } from 'zod';
import type { HookState, Hooks } from '../connector.ts';
import { memoize } from '../kit/cached-reads.ts';
import { hooksOf } from '../kit/hooks.ts';
import type { Rest } from '../kit/rest.ts';
import type { Project } from './schema.ts';

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
export function hooksOfProjects(api: Rest, followed: (signal: AbortSignal) => Promise<readonly Project[]>): Hooks {
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
