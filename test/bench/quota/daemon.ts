import { type PullRequest, pullRequestKey } from '../../../src/model/item.ts';
import { type Clock, createWakeSignal, type Random } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import type { Scope, Store } from '../../../src/store/workspace-scope.ts';
import { createOutbox } from '../../../src/sync/outbox/outbox.ts';
import type { QuotaOptions } from '../../../src/sync/quota/limits.ts';
import { createThrottle, type Throttle } from '../../../src/sync/quota/throttle.ts';
import { PLAIN_RULES, type ReconcileConnection, type Rules } from '../../../src/sync/reconcile/context.ts';
import { evaluate } from '../../../src/sync/reconcile/evaluate.ts';
import { createReconcile } from '../../../src/sync/reconcile/reconcile.ts';
import {
  type ApiRequest,
  type ApiResponse,
  createWorkspaceClient,
  type Send,
  type SendContext,
} from '../../../src/workspace-api/typed-client.ts';
import { workspaceContext } from '../../support/harness/workspace-context.ts';
import { createChance } from './references/chance.ts';
import type { Line } from './references/trace.ts';
import type { Server } from './server.ts';

/** The workspace's quota at full share: nobody else spends from it. */
export const FULL_SHARE: QuotaOptions = {
  requests: 200,
  window: 900_000,
  burst: 40,
  burstWindow: 60_000,
  share: 1,
  concurrency: 8,
};

/**
 * The daemon between its inbox and the wire, for virtual time: the real store, reconcile, outbox, throttle and client.
 * Intake is left out (deliveries are appended to the inbox as it appends them), and the wire is a call to the server.
 */
export interface QuotaDaemon {
  readonly throttle: Throttle;
  /** Appends deliveries that came in together; those of a backfill say that nothing happened just now. */
  deliver(lines: readonly Line[], isBackfill?: boolean): Promise<void>;
  /** The process is gone between two moments: its timers never fire, and answers to it are lost. */
  kill(): void;
  stop(): Promise<void>;
}

export interface QuotaDaemonOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly server: Server;
  readonly quota?: Partial<QuotaOptions>;
  readonly visibility?: number;
  readonly seed?: number;
  /** Another process worked on the workspace before, until it died; see `SUCCESSION`. Milliseconds. */
  readonly succession?: { readonly careful: number; readonly untouched: number };
  /** Rules for the statuses of tasks, and the workspace that holds these tasks. Absent: the workspace has none. */
  readonly moving?: Moving;
  /** Leaves inbox and items out: each line, the newest of its item, goes to reconcile's `evaluate` at once. */
  readonly straight?: boolean;
}

export interface Moving {
  readonly rules: Rules;
  /** Returns the facts of a pull request that records do not show. */
  factsOf(line: Line): Partial<PullRequest>;
  answer(request: ApiRequest): object | undefined;
}

export async function startDaemon(options: QuotaDaemonOptions): Promise<QuotaDaemon> {
  const { store, server, visibility, seed = 1, succession, moving } = options;
  const life = { isOver: false };
  const clock = mortal(options.clock, life);
  const random = seededRandom(seed);
  const quota = { ...FULL_SHARE, ...options.quota };
  const common = { store, clock, random, logger: silentLogger, meter: silentMeter };
  const throttle = await createThrottle(common, quota, { careful: succession?.careful });
  const wakeSignals = { inbox: createWakeSignal(), outbox: createWakeSignal() };
  const send = sendTo(server, life, moving);
  const outboxClient = createWorkspaceClient<SendContext>({ send, workspaceId: 'current' });
  const context = workspaceContext(
    {
      ...{ ...common, ...wakeSignals, throttle, outboxClient, version: 'bench', untouched: succession?.untouched },
      sources: moving ? sourcesOf(moving) : SOURCES,
      rules: moving?.rules ?? PLAIN_RULES,
    },
    { quota: { visibility }, workspace: { url: ADDRESS, webhook: {} as never }, recordsPullRequests: true },
  );
  const reconcile = createReconcile(context);
  const outbox = createOutbox(context);
  if (!options.straight) reconcile.start();
  outbox.start();
  const straight = (query: Scope, line: Line, isBackfill: boolean) => {
    const now = clock.now();
    const cause = { since: now, waiting: [], isBackfill };
    const context = { now, usedShare: throttle.usedShare(), visibility, rules: PLAIN_RULES, sources: SOURCES };
    return evaluate({ ...context, query, item: pullRequest(line), connection: SOURCE, cause });
  };
  return {
    throttle,
    async deliver(lines, isBackfill = false) {
      if (options.straight) {
        await store.commit(async (query) => {
          for (const line of lines) await straight(query, line, isBackfill);
        });
        wakeSignals.outbox.notify();
        return;
      }
      await appendDeliveries(
        store.query,
        lines.map((line) => deliveryOf(line, isBackfill)),
        clock.now(),
      );
      wakeSignals.inbox.notify();
    },
    kill() {
      life.isOver = true;
    },
    async stop() {
      await outbox.stop();
      await reconcile.stop();
      await throttle.stop();
    },
  };
}

/** The address of the workspace. What is known about a server holds for one address. */
export const ADDRESS = 'bench';

function mortal(clock: Clock, life: { readonly isOver: boolean }): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    get bootId() {
      return clock.bootId;
    },
    after: (ms, call) => clock.after(ms, () => void (life.isOver || call())),
  };
}

export function seededRandom(seed: number): Random {
  const { float } = createChance(seed);
  let next = 0;
  return { float, uuid: () => `${seed}-${next++}-${float()}`, bytes: (length) => Buffer.alloc(length, next++) };
}

function sendTo(server: Server, life: { readonly isOver: boolean }, moving?: Moving): Send<SendContext> {
  return (request) =>
    new Promise((resolve) => {
      server.request(itemOf(request), ({ retryAfter }) => {
        if (life.isOver) return;
        if (retryAfter !== undefined) return resolve(refusal(retryAfter));
        const body = moving?.answer(request);
        resolve(body === undefined ? success(request) : respond(200, body));
      });
    });
}

function itemOf({ route, body }: ApiRequest): string | undefined {
  if (route !== 'recordPullRequest') return undefined;
  const { repoId, identifier } = body as { repoId: string; identifier: string };
  return `${repoId}/${identifier}`;
}

const TIME = '2026-01-05T09:00:00Z';

/** The answer of the reference service, reduced to the fields that the daemon reads: records are echoed, lists are empty. */
function success({ route, body }: ApiRequest): ApiResponse {
  const record = { taskIds: [], updatedAt: TIME, ...(body as object) };
  const lists = { tasks: [], pullRequests: [], nextCursor: null };
  return respond(route === 'recordPullRequest' ? 201 : 200, route === 'recordPullRequest' ? record : lists);
}

/** W68: the delay stands in the message, in whole seconds. */
function refusal(seconds: number): ApiResponse {
  const message = `Rate limit exceeded, retry in ${seconds} second${seconds === 1 ? '' : 's'}`;
  return respond(429, { code: 429, errorCode: 'rate_limited', message });
}

function respond(status: number, body: object): ApiResponse {
  return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) };
}

let deliveries = 0;

function deliveryOf(line: Line, isBackfill: boolean) {
  const body = Buffer.from(JSON.stringify(line));
  const source = isBackfill ? 'backfill' : line.event === 'poll' ? 'poll' : 'webhook';
  return { connection: 'github', key: `delivery-${deliveries++}`, source, event: line.event, body } as const;
}

const SOURCE: ReconcileConnection = {
  name: 'github',
  connector: {
    id: 'github',
    publicHost: 'github.com',
    capabilities: {
      pullRequests: true,
      supportsLabels: true,
      supportsAssignees: true,
      supportsReviewers: true,
      supportsDraft: true,
      reopensClosed: true,
    },
  },
  records: true,
  translate: ({ body }) => ({
    outcome: 'items',
    items: [pullRequest(JSON.parse(Buffer.from(body).toString()) as Line)],
  }),
  reference: ({ kind, key }) => ({ kind, key, locator: {} }),
};
const SOURCES = new Map([['github', SOURCE]]);

function sourcesOf({ factsOf }: Moving): ReadonlyMap<string, ReconcileConnection> {
  const translate: ReconcileConnection['translate'] = ({ body }) => {
    const line = JSON.parse(Buffer.from(body).toString()) as Line;
    return { outcome: 'items', items: [{ ...pullRequest(line), ...factsOf(line) }] };
  };
  return new Map([['github', { ...SOURCE, translate }]]);
}

/** Fractions of a millisecond stay: the acts of a burst keep their order. */
function pullRequest({ item, fields, updated }: Line): PullRequest {
  const [repoId, identifier] = item.split('/') as [string, string];
  const { head: headSha, ...mirrored } = fields;
  return {
    kind: 'pull_request',
    key: pullRequestKey('github', 'github.com', repoId, identifier),
    connector: 'github',
    host: 'github.com',
    updatedAt: updated * 1_000,
    repoId,
    identifier,
    headBranch: `branch-${identifier}`,
    baseBranch: 'main',
    headSha,
    ...mirrored,
  };
}
