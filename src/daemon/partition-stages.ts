import type { SyncError } from '../model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { doAll } from '../platform/lib/failures.ts';
import type { Job, Timetable } from '../platform/lib/scheduler.ts';
import type { Stage } from '../platform/lib/stage.ts';
import { phaseOf } from '../platform/lib/startup-jitter.ts';
import type { Store } from '../store/database.ts';
import { jobRuns } from '../store/job-runs.ts';
import { readMeta, setTriagedConnections, WORKSPACE_ID } from '../store/meta.ts';
import { rememberRecording } from '../store/records-route.ts';
import { keepRedeliveryCursors } from '../store/redeliveries.ts';
import { createOutbox, type Outbox } from '../sync/outbox/outbox.ts';
import type { Client } from '../sync/outbox/send-context.ts';
import { sweepJobs as sweepWorkspaceJobs } from '../sync/outbox/sweep-jobs.ts';
import type { Sources } from '../sync/reconcile/context.ts';
import type { Rules } from '../sync/reconcile/item-rules.ts';
import { createReconcile, type Reconcile } from '../sync/reconcile/reconcile.ts';
import { createWriteBack, type WriteBack } from '../sync/write-back/write-back.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { PartitionIntake } from './partition-intake.ts';
import type { PartitionOptions, PartitionParts } from './partition-parts.ts';
import { writableOf } from './sources.ts';

/** How often the tasks are read to see which of them are finished, milliseconds: one request of some hundreds. */
const TASKS_EVERY = 15 * 60_000;

export interface StagesInput {
  readonly client: Client;
  readonly sources: Sources;
  readonly rules: Rules;
}

/** The stages of a partition, and what runs on a schedule. */
export interface PartitionStages {
  readonly sources: Sources;
  readonly rules: Rules;
  readonly reconcile: Reconcile;
  readonly outbox: Outbox;
  readonly timetable: Timetable;
  /** Why the workspace cannot be written to at present. */
  trouble(): SyncError | undefined;
  /** All but what runs on a schedule. */
  start(): void;
  /** Closes in order: accepts nothing new, and waits for the requests in flight. */
  stop(): Promise<void>;
}

export async function openStages(
  options: PartitionOptions,
  shared: PartitionParts,
  intake: PartitionIntake,
  { client, sources, rules }: StagesInput,
): Promise<PartitionStages> {
  const { config, wakeSignals } = options;
  const { store, throttle, written } = shared;
  const { visibility } = config.quota;
  let trouble: SyncError | undefined;
  await rememberConnections(config, rules, shared);
  const recordsPullRequests = config.connections.some(recordsItsPullRequests);
  const writeBack = createWriteBack(writeBackDeps(options, shared, intake));
  const reconcile = createReconcile({
    ...{ ...shared, ...wakeSignals, sources, rules, visibility, version: options.version },
    usedShare: () => throttle.usedShare(),
    isCrowded: intake.isCrowded,
    guard: config.guard,
    fetches: intake.fetches.wakeSignal,
    writeBack: writeBack.wakeSignal,
  });
  const outbox = createOutbox({
    ...{ ...shared, ...wakeSignals, client, visibility, onLag: options.onLag },
    ...{ recordsPullRequests, baseUrl: serverAddressOf(options) },
    linksAreIdempotent: apiOverrides.parse(config.workspace.api ?? {}).links === 'idempotent',
    untouched: options.succession?.untouched,
    onWrite: () => written.tell(),
    onTrouble(next) {
      trouble = next;
    },
  });
  const jobs = [...intake.jobs, ...jobsOf(options, shared, writeBack)];
  const timetable = options.scheduler.open(jobs, jobRuns(store), shared.logger, phaseOf(store.query.workspace));
  const stages: readonly Stage[] = [
    ...[outbox, reconcile, intake.fetches, writeBack, intake.backfills],
    intake.verification,
  ];
  return {
    ...{ sources, rules, reconcile, outbox, timetable },
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

/** Whether a connection records its pull requests in the workspace, if the workspace has a route for that. */
function recordsItsPullRequests({ mirror }: WorkspaceConfig['connections'][number]): boolean {
  return mirror !== 'off';
}

/** The embedded service is the same one at another port after each start. */
function serverAddressOf({ config, address }: PartitionOptions): string {
  return config.workspace.url === undefined ? 'embedded' : address.baseUrl;
}

/** What rows say of connections follows the configuration. */
async function rememberConnections({ connections }: WorkspaceConfig, rules: Rules, { store, clock }: PartitionParts) {
  const names = connections.map(({ name }) => name);
  await store.commit(async (transaction) => {
    await setTriagedConnections(transaction, rules.triage.isOn ? names : [], clock.now());
    await keepRedeliveryCursors(transaction, names);
    const [recording, others] = [true, false].map((wanted) =>
      connections.filter((each) => recordsItsPullRequests(each) === wanted).map(({ name }) => name),
    ) as [string[], string[]];
    await rememberRecording(transaction, { recording, others });
  });
}

function writeBackDeps(
  { config, wakeSignals }: PartitionOptions,
  { store, clock, random, logger }: PartitionParts,
  { connections, pauses }: PartitionIntake,
): Parameters<typeof createWriteBack>[0] {
  const closesItems = config.connections.some(({ writeBack: { close } }) => close);
  return {
    ...{ store, clock, random, logger, pauses, outbox: wakeSignals.outbox },
    connections: writableOf(config.connections, connections),
    workspaceId: workspaceIdOf(config, store),
    readTasksEvery: config.workspace.webhook || !closesItems ? undefined : TASKS_EVERY,
  };
}

function jobsOf(
  { config, wakeSignals }: PartitionOptions,
  { store, clock, logger }: PartitionParts,
  writeBack: WriteBack,
): readonly Job[] {
  const { sweep: when } = config.workspace;
  const recordsPullRequests = config.connections.some(recordsItsPullRequests);
  const { outbox } = wakeSignals;
  const sweeps = sweepWorkspaceJobs({ store, clock, logger, outbox, when, quota: config.quota, recordsPullRequests });
  return [...writeBack.jobs, ...sweeps];
}

/** The configured id, else the one that the workspace told. */
export function workspaceIdOf({ workspace: { id } }: WorkspaceConfig, store: Store): () => Promise<string | undefined> {
  let known = id === 'current' ? undefined : id;
  return async () => (known ??= await readMeta(store.query, WORKSPACE_ID));
}
