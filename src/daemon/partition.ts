import type { ConnectionConfig, WorkspaceConfig } from '../config/schema.ts';
import type { Converter } from '../convert/converter.ts';
import { readLargeBy } from '../convert/reading-aside.ts';
import { CODES } from '../errors/codes.ts';
import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import type { Passage } from '../gateway/passage.ts';
import { createTokens, type TokenBook } from '../gateway/token-book.ts';
import type { ActiveConnection } from '../intake/active-connection.ts';
import { createBackfills } from '../intake/backfill-stage.ts';
import { createCollector } from '../intake/collector.ts';
import { createFetches } from '../intake/fetches.ts';
import type { Grants } from '../intake/grants.ts';
import type { GroupCommit } from '../intake/group-commit.ts';
import { createHookWatch, type HookWatch } from '../intake/hook-watch.ts';
import { createPauses } from '../intake/pauses.ts';
import { createPolls, type Polls } from '../intake/polls.ts';
import { sweepJobs } from '../intake/sweeps.ts';
import type { Receiver } from '../intake/webhook-routes.ts';
import { createLearn } from '../learn/learn.ts';
import { createRouteOf } from '../learn/route-of.ts';
import type { Lease } from '../lease/holder.ts';
import type { Bell } from '../lib/bell.ts';
import type { DatabaseFault } from '../lib/database-fault.ts';
import type { Logger } from '../lib/logger.ts';
import type { Random } from '../lib/random.ts';
import type { Job, Scheduler, Timetable } from '../lib/scheduler.ts';
import type { Stage } from '../lib/stage.ts';
import { phaseOf } from '../lib/stagger.ts';
import type { Binding } from '../model/names.ts';
import {
  type ConfiguredConnection,
  describeWorkspace,
  type WorkspaceParts,
  type WorkspaceStatus,
} from '../operator/status.ts';
import { createOutbox, type Outbox } from '../outbox/outbox.ts';
import { sweepJobs as sweepWorkspaceJobs } from '../outbox/sweep-jobs.ts';
import type { Sources } from '../reconcile/context.ts';
import type { Rules } from '../reconcile/item-rules.ts';
import { createReconcile, type Reconcile } from '../reconcile/reconcile.ts';
import { holdsTask } from '../store/cached-tasks.ts';
import type { Store } from '../store/database.ts';
import type { Installation } from '../store/installation.ts';
import { jobRuns } from '../store/job-runs.ts';
import { readMeta, switchTriage, WORKSPACE_ID } from '../store/meta.ts';
import { keepRedeliveryCursors } from '../store/redeliveries.ts';
import { readStatus, type StoredStatus } from '../store/stored-status.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import { createThrottle, type KeyRefusal, type Throttle } from '../throttle/throttle.ts';
import { apiOverrides } from '../workspace/contract.ts';
import type { Send, WorkspaceClient } from '../workspace/typed-client.ts';
import { createWriteBack } from '../write-back/write-back.ts';
import { noteKey } from './known-key.ts';
import type { Parts } from './parts.ts';
import { activeConnections, openNameBooks, rulesOf, sourcesOf, webhookUrlOf, writableOf } from './sources.ts';
import {
  clientOver,
  type DirectContext,
  directSend,
  outboxClient,
  passOn,
  throughThrottle,
  trusting,
} from './workspace-send.ts';
import { workspaceReceiver } from './workspace-webhooks.ts';

/** Where the workspace's API is, and with which key it is asked. */
export interface WorkspaceAddress {
  readonly baseUrl: string;
  readonly apiKey: () => string;
}

/** One workspace: its rows, its throttle, its stages. Partitions share nothing but the process. */
export interface Partition {
  readonly name: string;
  readonly config: WorkspaceConfig;
  readonly store: Store;
  readonly throttle: Throttle;
  /** For the gateway. */
  readonly passage: Passage;
  /** Sends what no change of the outbox stands for; the client is the same with typed methods. */
  readonly send: Send<DirectContext>;
  readonly client: WorkspaceClient<DirectContext>;
  readonly connections: readonly ActiveConnection[];
  /** The rules and connections of reconcile, to explain its decisions. */
  readonly sources: Sources;
  readonly rules: Rules;
  readonly random: Random;
  readonly reconcile: Reconcile;
  readonly outbox: Outbox;
  readonly polls: Polls;
  readonly hooks: HookWatch;
  /** What runs on a schedule. */
  readonly timetable: Timetable;
  /** The public address of the daemon, if configured. */
  readonly publicUrl?: string;
  /** Tells the outbox that changes became due without reconcile's doing. */
  wakeOutbox(): void;
  /** Tells reconcile that something came into the inbox. */
  wakeReconcile(): void;
  /** Tells that a backfill was asked for. */
  wakeBackfills(): void;
  /** Calls when the daemon has written to the workspace. */
  onWrite(call: () => void): void;
  /** @param rejected what is wrong with its present configuration, if it runs with an earlier one */
  status(rejected?: SyncError): Promise<WorkspaceStatus>;
  /** The same from what was read of its rows. */
  describe(stored: StoredStatus, rejected?: SyncError): WorkspaceStatus;
  receiver(connection: string): Receiver | undefined;
  start(): void;
  /** As `start`, except that nothing runs on a schedule. */
  startUnscheduled(): void;
  /** Sends the writes that wait, and does nothing else. */
  startWrites(): void;
  /** Closes in order: accepts nothing new, and waits for the requests in flight. */
  stop(): Promise<void>;
}

/** How often the tasks are read to see which of them are finished, milliseconds: one request of some hundreds. */
const TASKS_EVERY = 15 * 60_000;

/** How long it waits at the end for requests in flight, milliseconds: less than what an orchestrator grants. */
const GRACE = 5_000;

/** They outlive one opening of the workspace: see `workspaces.ts`. */
export interface PartitionBells {
  readonly inbox: Bell;
  readonly outbox: Bell;
}

export interface PartitionOptions {
  readonly config: WorkspaceConfig;
  readonly address: WorkspaceAddress;
  /** The lease by which the process owns it. */
  readonly lease: Lease;
  readonly installation: Installation;
  /** Of the program. */
  readonly version: string;
  /** The process's. */
  readonly converter: Converter;
  /** Of the whole process: workspaces may share a grant. */
  readonly grants: Grants;
  /** The process's. */
  readonly scheduler: Scheduler;
  readonly bells: PartitionBells;
  /** The process's. */
  readonly groupCommit: GroupCommit;
  readonly tokenBook: TokenBook;
  /** The public address of the daemon, if configured. */
  readonly publicUrl?: string;
  /** Told of each delivery's lag, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
}

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
  const { config, address, lease } = options;
  const { clock, random } = parts;
  const meter = parts.metrics.forWorkspace(config.name);
  let trouble: SyncError | undefined;
  let tellWritten: () => void = () => undefined;
  const throttle = await createThrottle({ store, clock, random, logger, meter, quota: config.quota });
  await noteKey(store, throttle, address.apiKey());

  const cut = new AbortController();
  const door = {
    http: trusting(parts.http, lease),
    baseUrl: address.baseUrl,
    workspaceId: config.workspace.id,
    apiKey: address.apiKey,
    api: config.workspace.api,
    cut: lease.lost ? AbortSignal.any([cut.signal, lease.lost]) : cut.signal,
    readLarge: readLargeBy(options.converter),
  };
  const through = throughThrottle(throttle, clock, (record) => store.commit((transaction) => record(transaction)));
  const { bells } = options;
  const routeOf = createRouteOf(apiOverrides.parse(config.workspace.api ?? {}));
  const learn = createLearn({ store, routeOf, readLarge: door.readLarge, ...bells, clock, random, logger });
  const sendThrough = directSend(door, through, clock, learn);
  const send: typeof sendThrough = async (request, context) => {
    try {
      return await sendThrough(request, context);
    } finally {
      if (request.method !== 'GET') tellWritten();
    }
  };
  const books = await openNameBooks(config.connections, parts, { store, logger, meter });
  const given = { logger, books, grants: options.grants, converter: options.converter };
  const connections = activeConnections(config.connections, parts, given, (connection) =>
    options.publicUrl === undefined ? undefined : webhookUrlOf(options.publicUrl, config.name, connection),
  );
  const collector = createCollector({ store, clock, bell: bells.inbox, groupCommit: options.groupCommit });
  const pauses = createPauses(clock);
  const intake = { store, clock, random, logger, meter, connections, pauses, inbox: bells.inbox };
  const polls = createPolls(intake);
  const fetches = createFetches(intake);
  const backfills = createBackfills(intake);
  const hooks = createHookWatch(intake);
  const sources = sourcesOf(config.connections, parts.connectors, books, options.converter);
  const rules = rulesOf(config, address.baseUrl, parts.connectors);
  const triaged = rules.triage.isOn ? config.connections.map(({ name }) => name) : [];
  await store.commit(async (transaction) => {
    await switchTriage(transaction, triaged, clock.now());
    await keepRedeliveryCursors(
      transaction,
      config.connections.map(({ name }) => name),
    );
  });
  const writeBack = createWriteBack({
    ...{ store, clock, random, logger, outbox: bells.outbox },
    connections: writableOf(config.connections, connections),
    workspaceId: workspaceIdOf(config, store),
    readTasksEvery:
      config.workspace.webhook || !config.connections.some(({ writeBack: { close } }) => close)
        ? undefined
        : TASKS_EVERY,
  });
  const reconcile = createReconcile({
    version: options.version,
    store,
    clock,
    random,
    logger,
    meter,
    ...bells,
    sources,
    usedShare: () => throttle.usedShare(),
    visibility: config.quota.visibility,
    isCrowded: () => collector.isCrowded(),
    rules,
    guard: config.guard,
    fetches: fetches.bell,
    writeBack: writeBack.bell,
  });
  const outbox = createOutbox({
    store,
    throttle,
    clock,
    random,
    logger,
    meter,
    ...bells,
    client: outboxClient(door),
    visibility: config.quota.visibility,
    onWrite: () => tellWritten(),
    onTrouble(next) {
      trouble = next;
    },
    onLag: options.onLag,
  });
  const jobs: readonly Job[] = [
    ...polls.jobs,
    ...sweepJobs({ ...intake, fetches: fetches.bell }),
    ...hooks.jobs,
    ...writeBack.jobs,
    ...sweepWorkspaceJobs({
      store,
      clock,
      logger,
      outbox: bells.outbox,
      when: config.workspace.sweep,
      quota: config.quota,
    }),
  ];
  const timetable = options.scheduler.open(jobs, jobRuns(store), logger, phaseOf(store.query.workspace));
  const stages: readonly Stage[] = [outbox, reconcile, fetches, writeBack, backfills];

  function startStages(): void {
    for (const stage of stages) stage.start();
  }

  const { webhook } = config.workspace;
  const received = { collector, meter, logger, onEvent: () => tellWritten() };
  const ofWorkspace = webhook && workspaceReceiver(webhook, received);

  function describe(stored: StoredStatus, rejected?: SyncError): WorkspaceStatus {
    const quota = throttle.snapshot();
    return describeWorkspace({
      name: config.name,
      address: address.baseUrl,
      connections: config.connections.map((connection) => ({
        ...describeConnection(config.name, connection),
        hooks: hooks.report(connection.name) ?? null,
        names: describeNames(books.get(connection.name)?.bindings() ?? []),
      })),
      stored,
      quota,
      rejected: rejected?.message ?? null,
      halt: haltOf(store.fault(), trouble, quota.halt),
      now: clock.now(),
    });
  }

  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    const cancel = clock.after(GRACE, () => cut.abort());
    await Promise.all([timetable.stop(), polls.stop()]);
    for (const stage of stages.toReversed()) await stage.stop();
    await throttle.stop();
    for (const book of books.values()) await book.settled();
    cancel();
  }

  return {
    name: config.name,
    config,
    store,
    throttle,
    passage: {
      name: config.name,
      workspaceId: workspaceIdOf(config, store),
      holdsTask: (taskId) => holdsTask(store.query, taskId),
      tokens: createTokens({ store, book: options.tokenBook, clock, random }),
      learn,
      logger,
      settings: {
        freshFor: config.gateway.fresh,
        longestWait: config.gateway.wait,
        keyPrefix: config.gateway.keyPrefix,
      },
      store,
      outbox: bells.outbox,
      pass: passOn(door, clock, through),
      nextSlotAt: () => throttle.snapshot().nextForPeopleAt,
    },
    send,
    client: clientOver(send, door),
    connections,
    sources,
    rules,
    random,
    reconcile,
    outbox,
    polls,
    hooks,
    timetable,
    publicUrl: options.publicUrl,
    wakeOutbox: () => bells.outbox.ring(),
    wakeReconcile: () => bells.inbox.ring(),
    wakeBackfills: () => backfills.ring(),
    onWrite(call) {
      tellWritten = call;
    },
    status: async (rejected) => describe(await readStatus(store.query, clock.now()), rejected),
    describe,
    receiver(name) {
      if (name === WORKSPACE) return ofWorkspace;
      const active = connections.find((connection) => connection.name === name);
      return active && { active, collector, meter, logger };
    },
    start() {
      startStages();
      timetable.start();
    },
    startUnscheduled: startStages,
    startWrites: () => outbox.startWrites(),
    stop: () => (stopped ??= stop()),
  };
}

/** Names that lead elsewhere than they are written, or than before. */
function describeNames(bindings: readonly Binding[]): ConfiguredConnection['names'] {
  const isRenamed = ({ entry, id, called }: Binding) => called.toLowerCase() !== entry && id.toLowerCase() !== entry;
  return bindings
    .filter((each) => each.elsewhere !== undefined || isRenamed(each))
    .map(({ entry, id, called, elsewhere }) => ({ name: entry, id, called, elsewhere: elsewhere ?? null }));
}

/** Why nothing is stored or sent: what this process found, else what an earlier one stored. */
function haltOf(
  fault: DatabaseFault | undefined,
  trouble: SyncError | undefined,
  kept: KeyRefusal | null,
): WorkspaceParts['halt'] {
  if (fault) return asSyncError(fault);
  if (trouble) return trouble;
  return kept ? { ...kept, message: 'the workspace refused the key', hint: CODES[kept.code].hint } : undefined;
}

/** The configured id, else the one that the workspace told. */
function workspaceIdOf({ workspace: { id } }: WorkspaceConfig, store: Store): Passage['workspaceId'] {
  let known = id === 'current' ? undefined : id;
  return async () => (known ??= await readMeta(store.query, WORKSPACE_ID));
}

function describeConnection(
  workspace: string,
  config: ConnectionConfig,
): Omit<ConfiguredConnection, 'hooks' | 'names'> {
  const { name, connector, webhookSecrets, poll } = config;
  const webhookPath = webhookSecrets.length > 0 ? `/webhooks/${workspace}/${name}` : null;
  return { name, connector, webhookPath, schedule: describeSchedule(poll) };
}

function describeSchedule(poll: ConnectionConfig['poll']): string | null {
  if (poll === 'off') return null;
  if ('cron' in poll) return `cron ${poll.cron}`;
  return poll.everyMs % 60_000 === 0 ? `every ${poll.everyMs / 60_000} min` : `every ${poll.everyMs / 1_000} s`;
}
