import type { SyncError } from '../model/errors.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { phaseOf, type Stage } from '../platform/lib/scheduler.ts';
import { jobRuns } from '../store/installation/job-runs.ts';
import { withdrawNotices } from '../store/items/notices.ts';
import { forgetOtherRedeliveryCursors, readMeta, setTriagedConnections, WORKSPACE_ID } from '../store/meta.ts';
import { correctOwnMoves } from '../store/tasks/correct-own-moves.ts';
import { configureRecording } from '../store/workspace/server-capabilities.ts';
import type { Store } from '../store/workspace-scope.ts';
import type { IntakeContext } from '../sync/intake/active-connection.ts';
import { createCollector } from '../sync/intake/append.ts';
import { createBackfills } from '../sync/intake/backfill-stage.ts';
import { createFetches } from '../sync/intake/fetches.ts';
import { createHookWatch } from '../sync/intake/hook-watch.ts';
import { createVerification, reviewJobs } from '../sync/intake/item-reads.ts';
import { createPauses } from '../sync/intake/pauses.ts';
import { createPolls } from '../sync/intake/polls.ts';
import { sweepJobs as vendorSweepJobs } from '../sync/intake/sweeps.ts';
import { createBreaker } from '../sync/outbox/breaker.ts';
import { createOutbox } from '../sync/outbox/outbox.ts';
import type { OutboxClient, OutboxContext } from '../sync/outbox/outbox-context.ts';
import { workspaceSweepJobs } from '../sync/outbox/sweep-jobs.ts';
import { updateFormOf } from '../sync/outbox/task-update-body.ts';
import type { Rules } from '../sync/reconcile/context.ts';
import { createReconcile } from '../sync/reconcile/reconcile.ts';
import { createWriteBack } from '../sync/write-back/write-back.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { DaemonContext, PartitionContext } from './daemon-context.ts';
import { activeConnections, openNamesByConnection, rulesOf, sourcesOf } from './sources.ts';
import { createReceivers } from './webhook-receivers.ts';

/** Time between two reads of the task list that find finished tasks, milliseconds: one request for some hundreds of tasks. */
const TASKS_EVERY = 15 * 60_000;

export type PartitionStages = Awaited<ReturnType<typeof openStages>>;

/** Creates all stages of a workspace, in the order of the flow. Nothing runs before it is started. */
export async function openStages(
  daemon: DaemonContext,
  partition: PartitionContext,
  client: OutboxClient,
  onLag: (milliseconds: number) => void,
) {
  const { config, address, store, clock, logger, meter, tracer, throttle, inbox } = partition;
  const { connectors, converter, groupCommit } = daemon;
  const namesByConnection = await openNamesByConnection(partition, connectors);
  const sources = sourcesOf(config.connections, connectors, namesByConnection, converter);
  const rules = rulesOf(config, address.baseUrl, connectors);
  await storeConnectionSettings(partition, rules);

  // Receive → append.
  const pauses = createPauses(clock);
  const connections = activeConnections(daemon, partition, { namesByConnection, pauses });
  const collector = createCollector(partition, groupCommit, inbox);
  const received = { collector, meter, logger, tracer, onEvent: partition.notifyWrite };
  const intake: IntakeContext = { ...partition, connections, pauses };
  const polls = createPolls(intake);
  const fetches = createFetches(intake);
  const hooks = createHookWatch(intake);
  const backfills = createBackfills(intake);
  const verification = createVerification(intake);

  // Process → evaluate → enqueue. Write-back writes the notices of reconcile to vendors.
  const { visibility } = config.quota;
  const closesItems = config.connections.some(({ writeBack: { close } }) => close);
  const readTasksEvery = config.workspace.webhook || !closesItems ? undefined : TASKS_EVERY;
  const writeBack = createWriteBack(intake, workspaceIdOf(config, store), readTasksEvery);
  const reconcile = createReconcile({
    ...partition,
    sources,
    rules,
    visibility,
    guard: config.guard,
    version: daemon.version,
    usedShare: () => throttle.usedShare(),
    isCrowded: () => collector.isCrowded(),
    fetches: fetches.wakeSignal,
    writeBack: writeBack.wakeSignal,
  });

  // Claim → send → settle.
  let trouble: SyncError | undefined;
  const sending: OutboxContext = {
    ...partition,
    ...outboxSettings(partition),
    client,
    breaker: createBreaker(),
    visibility,
    untouched: daemon.succession?.untouched,
    areChangesCurrent: reconcile.areChangesCurrent,
    onLag,
    onWrite: partition.notifyWrite,
    onTrouble(next) {
      trouble = next;
    },
  };
  const outbox = createOutbox(sending);

  const jobs = [
    ...[...polls.jobs, ...vendorSweepJobs(intake, fetches.wakeSignal), ...reviewJobs(intake), ...hooks.jobs],
    ...[...writeBack.jobs, ...workspaceSweepJobs(sending, config.workspace.sweep, config.quota)],
  ];
  const timetable = daemon.scheduler.open(jobs, jobRuns(store), logger, phaseOf(store.query.workspace));
  const stages: readonly Stage[] = [outbox, reconcile, fetches, writeBack, backfills, verification];
  return {
    namesByConnection,
    connections,
    sources,
    rules,
    polls,
    fetches,
    backfills,
    hooks,
    reconcile,
    outbox,
    timetable,
    receivers: createReceivers(daemon, config, received),
    /** Returns the reason why the workspace cannot be written to at present. */
    trouble: () => trouble,
    /** Starts all stages; the timetable starts separately. */
    start() {
      for (const stage of stages) stage.start();
    },
    /** Stops in order: accepts no new work, and waits for the requests in flight. */
    async stop() {
      await doAll([
        () => Promise.all([timetable.stop(), polls.stop()]),
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

function outboxSettings({ config, address }: PartitionContext) {
  const { links } = apiOverrides.parse(config.workspace.api ?? {});
  return {
    recordsPullRequests: recordsPullRequests(config),
    // A constant for the embedded service, because its port changes with each start.
    baseUrl: config.workspace.url === undefined ? 'embedded' : address.baseUrl,
    linksAreIdempotent: links === 'idempotent',
    taskUpdates: {
      form: updateFormOf(config),
      statuses: config.workspace.statuses,
      areEditsReported: config.workspace.webhook !== undefined,
    },
  };
}

/** Returns the configured id, or the id that the workspace itself has reported; the first known id is cached. */
export function workspaceIdOf({ workspace: { id } }: WorkspaceConfig, store: Store): () => Promise<string | undefined> {
  let known = id === 'current' ? undefined : id;
  return async () => (known ??= await readMeta(store.query, WORKSPACE_ID));
}
