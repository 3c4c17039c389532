import { SyncError } from '../../../src/model/errors.ts';
import type { TaskStatuses } from '../../../src/model/task-status.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { blankEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { addDifference } from '../../../src/store/changes/outbox-rows.ts';
import { PULL_REQUESTS_READ, TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import type { UpdateForm } from '../../../src/store/tasks/stored-tasks.ts';
import { bindServerFacts, writeServerFact } from '../../../src/store/workspace/server-facts.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import { createBreaker } from '../../../src/sync/outbox/breaker.ts';
import { claimChange, createChangeScheduler } from '../../../src/sync/outbox/claim.ts';
import { createSender } from '../../../src/sync/outbox/sender.ts';
import type { Slot } from '../../../src/sync/quota/slot.ts';
import { createThrottle } from '../../../src/sync/quota/throttle.ts';
import {
  type ApiRequest,
  type ApiResponse,
  createWorkspaceClient,
  type SendContext,
} from '../../../src/workspace-api/typed-client.ts';
import { createTravellingClock } from '../fakes/travelling-clock.ts';
import { workspaceContext } from '../harness/workspace-context.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 100, window: 15 * MINUTE, burst: 50, burstWindow: MINUTE, share: 1, concurrency: 4 };

/** The server at this address records pull requests, and so never duplicates a link. */
const BASE_URL = 'https://workspace.example';

/** An answer of the workspace; undefined: no answer. */
export type Answer = Pick<ApiResponse, 'status'> & {
  readonly json?: unknown;
  readonly headers?: ApiResponse['headers'];
};

export const linkOf = (number: number) => `link:jira:cloud:issue:${number}>t${number}`;
const urlOf = (number: number) => `https://tracker.example/${number}`;

export const added = (number: number): Answer => ({
  status: 201,
  json: { workItemId: `w${number}`, taskId: `t${number}`, url: urlOf(number), externalId: null },
});

interface TaskUpdateSettings {
  readonly form: UpdateForm;
  readonly statuses: TaskStatuses;
  /** Whether webhooks of the workspace report edits by people. */
  readonly areEditsReported: boolean;
}

/** The parts that claim a change and send it, with a store that contains pending links. */
export async function outboxBench(
  store: Store,
  links: number,
  answer: (taskId: string, request: ApiRequest) => Answer | undefined | Promise<Answer> = () => added(1),
  { form, statuses, areEditsReported }: TaskUpdateSettings = { form: 'whole', statuses: {}, areEditsReported: true },
) {
  const clock = createTravellingClock();
  const random = systemRandom();
  const throttle = await createThrottle({ store, clock, random, logger: silentLogger, meter: silentMeter }, QUOTA);
  await store.commit(async (query) => {
    await bindServerFacts(query, BASE_URL);
    for (const fact of [TASKS_READ, PULL_REQUESTS_READ]) await writeMeta(query, fact, '1');
    await writeServerFact(query, 'records', { state: 'open', since: 0 });
    for (let number = 1; number <= links; number++) {
      const desired = JSON.stringify({ url: urlOf(number) });
      const ids = { item_key: `jira:cloud:issue:${number}`, task_id: `t${number}`, desired };
      await saveEntity(query, blankEntity(linkOf(number), 'link', ids));
      const wish = { kind: 'link', lane: 'link', since: clock.now(), due: clock.now(), weight: 1 } as const;
      await addDifference(query, { entity: linkOf(number), ...wish, waiting: [] });
    }
  });
  const breaker = createBreaker();
  const outboxClient = createWorkspaceClient<SendContext>({
    workspaceId: 'current',
    async send(request) {
      const said = await answer(request.path.split('/')[2] as string, request);
      if (!said) throw new SyncError('outcome_unknown', 'no answer came');
      return { status: said.status, headers: said.headers ?? {}, body: Buffer.from(JSON.stringify(said.json ?? {})) };
    },
  });
  /** The reported troubles: codes of errors, and undefined for their end. */
  const told: (string | undefined)[] = [];
  const stopping = new AbortController();
  // As at the end of a process: what cannot be stored is left as it is.
  const stopAfterFault = (_fields: object, message: string) => {
    if (message.startsWith('the database cannot store')) stopping.abort();
  };
  const webhook = areEditsReported ? ({} as never) : undefined;
  const context = workspaceContext(
    {
      ...{ store, throttle, outboxClient, clock, random, breaker },
      logger: { ...silentLogger, error: stopAfterFault },
      onTrouble: (trouble) => void told.push(trouble?.code),
    },
    { workspace: { url: BASE_URL, api: { taskUpdate: form }, statuses, webhook }, recordsPullRequests: true },
  );
  const scheduler = createChangeScheduler(context);
  const attempt = createSender(context, scheduler, stopping.signal);
  const slot = () => throttle.acquire({ lane: 'link', due: 1 });
  const take = (own: Slot, entity?: string) =>
    claimChange(context, scheduler, own, { entity: entity ?? '', isCurrent: () => entity !== undefined }, clock.now());
  return {
    ...{ store, clock, throttle, breaker, context, told, attempt, slot, take },
    async send(entity: string) {
      const own = await slot();
      const prepared = await take(own, entity);
      if (!prepared) throw new Error(`nothing of ${entity} is to be sent`);
      await attempt(prepared, own);
    },
  };
}
