import type { SyncError } from '../model/errors/sync-error.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import { doAll } from '../platform/lib/failures.ts';
import type { Job, Timetable } from '../platform/lib/scheduler.ts';
import type { Stage } from '../platform/lib/stage.ts';
import { phaseOf } from '../platform/lib/startup-jitter.ts';
import { correctOwnMoves } from '../store/correct-own-moves.ts';
import type { Store } from '../store/database.ts';
import { jobRuns } from '../store/job-runs.ts';
import { readMeta, setTriagedConnections, WORKSPACE_ID } from '../store/meta.ts';
import { withdrawNotices } from '../store/notices.ts';
import { forgetOtherRedeliveryCursors } from '../store/redeliveries.ts';
import { configureRecording } from '../store/server-capabilities.ts';
import type { ActiveConnection } from '../sync/intake/active-connection.ts';
import { createCollector } from '../sync/intake/append.ts';
import { type Backfills, createBackfills } from '../sync/intake/backfill-stage.ts';
import { createFetches, type Fetches } from '../sync/intake/fetches.ts';
import { createHookWatch, type HookWatch } from '../sync/intake/hook-watch.ts';
import { createPauses, type Pauses } from '../sync/intake/pauses.ts';
import { createPolls, type Polls } from '../sync/intake/polls.ts';
import { reviewJobs } from '../sync/intake/review-reads.ts';
import { sweepJobs as vendorSweepJobs } from '../sync/intake/sweeps.ts';
import { createVerification } from '../sync/intake/verify-items.ts';
import { createBreaker } from '../sync/outbox/breaker.ts';
import { createOutbox, type Outbox } from '../sync/outbox/outbox.ts';
import type { OutboxClient } from '../sync/outbox/outbox-context.ts';
import { workspaceSweepJobs } from '../sync/outbox/sweep-jobs.ts';
import { updateFormOf } from '../sync/outbox/task-update-body.ts';
import type { ReconcileConnections, Rules } from '../sync/reconcile/context.ts';
import { createReconcile, type Reconcile } from '../sync/reconcile/reconcile.ts';
import { createWriteBack, type WriteBack } from '../sync/write-back/write-back.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { DaemonContext, PartitionContext } from './daemon-context.ts';
import { activeConnections, type NamesByConnection, openNamesByConnection, writableOf } from './sources.ts';
import { createReceivers, type Receivers } from './webhook-receivers.ts';

/** Time between two reads of the task list that find finished tasks, milliseconds: one request for some hundreds of tasks. */
const TASKS_EVERY = 15 * 60_000;

/** The intake of a partition: connections, webhook receivers, polls, fetches, backfills. */
export interface PartitionIntake {
  readonly namesByConnection: NamesByConnection;
  readonly connections: readonly ActiveConnection[];
  readonly polls: Polls;
  readonly fetches: Fetches;
  readonly backfills: Backfills;
  /** Confirms the items of a restored database. */
  readonly verification: Stage;
  readonly hooks: HookWatch;
  /** Shared by all stages that send requests to a vendor. */
  readonly pauses: Pauses;
  readonly jobs: readonly Job[];
  /** Whether deliveries arrive faster than they can be stored one by one. */
  isCrowded(): boolean;
  readonly receivers: Receivers;
}

export async function openIntake(daemon: DaemonContext, partition: PartitionContext): Promise<PartitionIntake> {
  const { config, store, clock, random, logger, meter, tracer, wakeSignals } = partition;
  const namesByConnection = await openNamesByConnection(partition, daemon.connectors);
  const pauses = createPauses(clock);
  const connections = activeConnections(daemon, partition, { namesByConnection, pauses });
  const collector = createCollector({
    store,
    clock,
    wakeSignal: wakeSignals.inbox,
    groupCommit: daemon.groupCommit,
  });
  const deps = { store, clock, random, logger, meter, tracer, connections, pauses, inbox: wakeSignals.inbox };
  const polls = createPolls(deps);
  const fetches = createFetches(deps);
  const hooks = createHookWatch(deps);
  return {
    namesByConnection,
    connections,
    polls,
    fetches,
    hooks,
    pauses,
    backfills: createBackfills(deps),
    verification: createVerification(deps),
    jobs: [
      ...polls.jobs,
      ...vendorSweepJobs({ ...deps, fetches: fetches.wakeSignal }),
      ...reviewJobs(deps),
      ...hooks.jobs,
    ],
    isCrowded: () => collector.isCrowded(),
    receivers: createReceivers(daemon, config, { collector, meter, logger, tracer, onEvent: partition.notifyWrite }),
  };
}

/** The stages of a partition, and its jobs. */
export interface PartitionStages {
  readonly reconcile: Reconcile;
  readonly outbox: Outbox;
  readonly timetable: Timetable;
  /** The reason why the workspace cannot be written to at present. */
  trouble(): SyncError | undefined;
  /** Starts all stages; the timetable starts separately. */
  start(): void;
  /** Stops in order: accepts no new work, and waits for the requests in flight. */
  stop(): Promise<void>;
}

interface StagesInput {
  readonly intake: PartitionIntake;
  readonly client: OutboxClient;
  readonly sources: ReconcileConnections;
  readonly rules: Rules;
  readonly onLag: (milliseconds: number) => void;
}

/** Creates all stages of a partition, in the order of the flow. Nothing runs before it is started. */
export async function openStages(
  daemon: DaemonContext,
  partition: PartitionContext,
  { intake, client, sources, rules, onLag }: StagesInput,
): Promise<PartitionStages> {
  const { config, store, clock, random, logger, meter, tracer, throttle, wakeSignals } = partition;
  const { visibility } = config.quota;
  const api = apiOverrides.parse(config.workspace.api ?? {});
  const shared = { store, clock, random, logger, meter, tracer, ...wakeSignals };
  let trouble: SyncError | undefined;
  await storeConnectionSettings(partition, rules);
  const writeBack = openWriteBack(partition, intake);
  const reconcile = createReconcile({
    ...shared,
    sources,
    rules,
    visibility,
    version: daemon.version,
    usedShare: () => throttle.usedShare(),
    isCrowded: intake.isCrowded,
    guard: config.guard,
    fetches: intake.fetches.wakeSignal,
    writeBack: writeBack.wakeSignal,
  });
  const outbox = createOutbox({
    ...shared,
    throttle,
    client,
    breaker: createBreaker(),
    visibility,
    onLag,
    recordsPullRequests: recordsPullRequests(config),
    baseUrl: serverAddressOf(partition),
    linksAreIdempotent: api.links === 'idempotent',
    taskUpdates: {
      form: updateFormOf(config),
      statuses: config.workspace.statuses,
      areEditsReported: config.workspace.webhook !== undefined,
    },
    areChangesCurrent: reconcile.areChangesCurrent,
    untouched: daemon.succession?.untouched,
    onWrite: partition.notifyWrite,
    onTrouble(next) {
      trouble = next;
    },
  });
  const jobs = [...intake.jobs, ...writeBack.jobs, ...sweepsOf(partition)];
  const timetable = daemon.scheduler.open(jobs, jobRuns(store), logger, phaseOf(store.query.workspace));
  const stages: readonly Stage[] = [
    outbox,
    reconcile,
    intake.fetches,
    writeBack,
    intake.backfills,
    intake.verification,
  ];
  return {
    reconcile,
    outbox,
    timetable,
    trouble: () => trouble,
    start() {
      for (const stage of stages) stage.start();
    },
    async stop() {
      await doAll([
        () => Promise.all([timetable.stop(), intake.polls.stop()]),
        ...stages.toReversed().map((stage) => () => stage.stop()),
      ]);
    },
  };
}

/** Updates the stored facts about connections to the configuration: triage, redelivery cursors, recording. */
async function storeConnectionSettings(
  { config, store, clock, random }: PartitionContext,
  rules: Rules,
): Promise<void> {
  const names = config.connections.map(({ name }) => name);
  const recording = config.connections.filter(isRecorded).map(({ name }) => name);
  const others = config.connections.filter((each) => !isRecorded(each)).map(({ name }) => name);
  await store.commit(async (transaction) => {
    await setTriagedConnections(transaction, rules.triage.isOn ? names : [], clock.now());
    await forgetOtherRedeliveryCursors(transaction, names);
    await configureRecording(transaction, { recording, others });
  });
  await withdrawNotices(store, {
    comment: writing(config, ({ comment }) => comment),
    close: writing(config, ({ close }) => close),
    status: writing(config, ({ status }) => status),
  });
  await correctOwnMoves(store, { statuses: config.workspace.statuses, now: clock.now(), random });
}

/** Returns the connections for which this kind of write-back is switched on. */
function writing(
  { connections }: WorkspaceConfig,
  settingOf: (writeBack: ConnectionConfig['writeBack']) => unknown,
): readonly string[] {
  return connections.filter(({ writeBack }) => settingOf(writeBack)).map(({ name }) => name);
}

/** Whether the pull requests of the connection are recorded in the workspace, if the workspace has a route for records. */
function isRecorded({ mirror }: WorkspaceConfig['connections'][number]): boolean {
  return mirror !== 'off';
}

function recordsPullRequests({ connections }: WorkspaceConfig): boolean {
  return connections.some(isRecorded);
}

/** Returns a constant for the embedded service, because its port changes with each start. */
function serverAddressOf({ config, address }: PartitionContext): string {
  return config.workspace.url === undefined ? 'embedded' : address.baseUrl;
}

function openWriteBack(
  { config, store, clock, random, logger, wakeSignals }: PartitionContext,
  { connections, pauses }: PartitionIntake,
): WriteBack {
  const closesItems = config.connections.some(({ writeBack: { close } }) => close);
  return createWriteBack({
    store,
    clock,
    random,
    logger,
    pauses,
    outbox: wakeSignals.outbox,
    connections: writableOf(config.connections, connections),
    workspaceId: workspaceIdOf(config, store),
    readTasksEvery: config.workspace.webhook || !closesItems ? undefined : TASKS_EVERY,
  });
}

function sweepsOf({ config, store, clock, logger, wakeSignals }: PartitionContext): readonly Job[] {
  return workspaceSweepJobs({
    store,
    clock,
    logger,
    outbox: wakeSignals.outbox,
    when: config.workspace.sweep,
    quota: config.quota,
    recordsPullRequests: recordsPullRequests(config),
  });
}

/** Returns the configured id, or the id that the workspace itself has reported; the first known id is cached. */
export function workspaceIdOf({ workspace: { id } }: WorkspaceConfig, store: Store): () => Promise<string | undefined> {
  let known = id === 'current' ? undefined : id;
  return async () => (known ??= await readMeta(store.query, WORKSPACE_ID));
}
