import { createCauseTimes } from '../admin/cause-times.ts';
import { describeOpenWorkspace, listOpenWorkspace } from '../admin/describe-open-workspace.ts';
import { createLagWatch } from '../admin/lag.ts';
import type { OpenWorkspace } from '../admin/open-workspace.ts';
import { createPostponed } from '../admin/postponed.ts';
import { createTokens } from '../gateway/token-book.ts';
import type { Upstream } from '../gateway/upstream.ts';
import { asSyncError } from '../model/errors/sync-error.ts';
import { doAll } from '../platform/lib/failures.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Timetable } from '../platform/lib/scheduler.ts';
import { holdsTask } from '../store/cached-tasks.ts';
import type { Store } from '../store/database.ts';
import { readStatus } from '../store/stored-status.ts';
import type { HookWatch } from '../sync/intake/hook-watch.ts';
import type { Polls } from '../sync/intake/polls.ts';
import type { Receiver } from '../sync/intake/webhook-routes.ts';
import type { Outbox } from '../sync/outbox/outbox.ts';
import { createThrottle } from '../sync/quota/throttle.ts';
import type { Reconcile } from '../sync/reconcile/reconcile.ts';
import { noteKey } from './known-key.ts';
import { openIntake } from './partition-intake.ts';
import { createWritten, type PartitionOptions, type PartitionParts } from './partition-parts.ts';
import { openStages, workspaceIdOf } from './partition-stages.ts';
import type { Parts } from './parts.ts';
import { rulesOf, sourcesOf } from './sources.ts';
import { tryConfig } from './tried-config.ts';
import { openWorkspaceApi, type WorkspaceApi } from './workspace-api.ts';
import { versionHeaderOf } from './workspace-send.ts';

/** One workspace: its rows, its throttle, its stages. Partitions share nothing but the process. */
export interface Partition extends OpenWorkspace {
  /** For the gateway. */
  readonly passage: Upstream;
  readonly reconcile: Reconcile;
  readonly outbox: Outbox;
  readonly polls: Polls;
  readonly hooks: HookWatch;
  readonly timetable: Timetable;
  /** Calls when the daemon has written to the workspace. */
  onWrite(call: () => void): void;
  receiver(connection: string): Receiver | undefined;
  start(): void;
  /** As `start`, except that nothing runs on a schedule. */
  startUnscheduled(): void;
  /** Closes in order: accepts nothing new, and waits for the requests in flight. */
  stop(): Promise<void>;
}

/** How long it waits at the end for requests in flight, milliseconds: less than what an orchestrator grants. */
const GRACE = 5_000;

/** Throws what keeps it from being opened; nothing of it is open then. */
export async function openPartition(options: PartitionOptions, parts: Parts): Promise<Partition> {
  const { name } = options.config;
  const store = await options.installation.store(name, options.lease.fence);
  try {
    return await wire(options, parts, store, parts.logger.child({ workspace: name }));
  } catch (error) {
    throw asSyncError(error);
  }
}

async function wire(options: PartitionOptions, parts: Parts, store: Store, logger: Logger): Promise<Partition> {
  const { config, address } = options;
  const { clock, random } = parts;
  const meter = parts.metrics.forWorkspace(config.name);
  const throttle = await createThrottle({
    ...{ store, random, logger, meter, quota: config.quota },
    clock: await options.ledgerClock(),
    ...options.succession,
  });
  const tracer = options.tracer?.child({ 'worksync.workspace': config.name });
  const written = createWritten();
  try {
    await noteKey(store, throttle, { key: address.apiKey(), workspace: config.workspace });
    return await join(options, parts, { store, clock, random, logger, meter, tracer, throttle, written });
  } catch (error) {
    // Otherwise its alarms would fire for a workspace that this process does not own.
    await throttle.abandon();
    throw error;
  }
}

/** Nothing of it runs before it is started. */
async function join(options: PartitionOptions, parts: Parts, shared: PartitionParts): Promise<Partition> {
  const { config, address, wakeSignals, lease, converter } = options;
  const { store, clock, random, throttle } = shared;
  const { http } = parts;
  const onWrite = () => shared.written.tell();
  const api = openWorkspaceApi({ ...shared, ...wakeSignals, config, address, lease, http, converter, onWrite });
  const intake = await openIntake(options, parts, shared);
  const lag = createLagWatch(clock);
  const onLag = (milliseconds: number): void => {
    lag.note(milliseconds);
    options.onLag?.(milliseconds);
  };
  const stages = await openStages({ ...options, onLag }, shared, intake, {
    client: api.outboxClient,
    sources: sourcesOf(config.connections, parts.connectors, intake.books, converter),
    rules: rulesOf(config, address.baseUrl, parts.connectors),
  });
  const described = {
    ...{ config, address: address.baseUrl, store, throttle, clock },
    ...{ hooks: intake.hooks, books: intake.books, times: createCauseTimes(), trouble: stages.trouble },
  };
  const describe: Partition['describe'] = (stored, rejected) => describeOpenWorkspace(described, stored, rejected);

  const list: Partition['list'] = (stored, rejected) => listOpenWorkspace(described, stored, rejected);

  const postponed = createPostponed(clock);
  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    const cancel = clock.after(GRACE, () => api.cut());
    const settleBooks = () => doAll([...intake.books.values()].map((book) => () => book.settled()));
    await doAll([postponed.stop, stages.stop, throttle.stop, settleBooks]).finally(cancel);
  }

  return {
    ...{ name: config.name, config, store, throttle, random, publicUrl: options.publicUrl, describe, list },
    lag: () => lag.report(),
    ...{
      send: api.send,
      client: api.client,
      connections: intake.connections,
      polls: intake.polls,
      hooks: intake.hooks,
    },
    ...{ sources: stages.sources, rules: stages.rules, reconcile: stages.reconcile, outbox: stages.outbox },
    timetable: stages.timetable,
    postponed,
    compile: (text) =>
      tryConfig(text, {
        ...{ inUse: config, connectors: parts.connectors },
        ...{ converter, books: intake.books, baseUrl: address.baseUrl },
      }),
    passage: passageOf(options, shared, api),
    wakeOutbox: () => wakeSignals.outbox.notify(),
    wakeReconcile: () => wakeSignals.inbox.notify(),
    wakeBackfills: () => intake.backfills.notify(),
    onWrite: (call) => shared.written.listen(call),
    status: async (rejected) => describe(await readStatus(store.query, clock.now()), rejected),
    receiver: intake.receiver,
    start() {
      stages.start();
      stages.timetable.start();
      postponed.start();
    },
    startUnscheduled: stages.start,
    startWrites: () => stages.outbox.startWrites(),
    stop: () => (stopped ??= stop()),
  };
}

/** What the gateway gets of it. */
function passageOf(
  { config, wakeSignals, tokenBook }: PartitionOptions,
  { store, clock, random, logger, throttle }: PartitionParts,
  { learn, pass }: WorkspaceApi,
): Upstream {
  const { fresh: freshFor, wait: longestWait, keyPrefix } = config.gateway;
  return {
    ...{ name: config.name, store, logger, learn, pass, outbox: wakeSignals.outbox },
    workspaceId: workspaceIdOf(config, store),
    holdsTask: (taskId) => holdsTask(store.query, taskId),
    tokens: createTokens({ store, book: tokenBook, clock, random }),
    settings: { freshFor, longestWait, keyPrefix, versionHeader: versionHeaderOf(config.workspace.api) },
    nextSlotAt: () => throttle.snapshot().nextForPeopleAt,
  };
}
