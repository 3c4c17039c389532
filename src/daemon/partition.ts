import { hash } from 'node:crypto';
import { createPostponed } from '../admin/changes/postponed.ts';
import type { OpenWorkspace } from '../admin/open-workspace.ts';
import { createLagWatch, describeOpenWorkspace } from '../admin/status/describe-open-workspace.ts';
import { fencedHttpClient, type Lease } from '../cluster/lease-holder.ts';
import { createTokens } from '../gateway/token-book.ts';
import type { Upstream } from '../gateway/upstream.ts';
import { asSyncError, type SyncError } from '../model/errors.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { phaseOf, type Stage } from '../platform/lib/scheduler.ts';
import { jobRuns } from '../store/installation/job-runs.ts';
import { withdrawNotices } from '../store/items/notices.ts';
import {
  forgetOtherRedeliveryCursors,
  readMeta,
  setTriagedConnections,
  WORKSPACE_ID,
  writeMeta,
} from '../store/meta.ts';
import { readStatus } from '../store/status/stored-status.ts';
import type { StoreContext, WakeSignals } from '../store/store-context.ts';
import { correctOwnMoves } from '../store/tasks/correct-own-moves.ts';
import { isTaskCached } from '../store/tasks/stored-tasks.ts';
import { configureRecording } from '../store/workspace/server-capabilities.ts';
import type { Store } from '../store/workspace-scope.ts';
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
import { openWorkspaceApi, versionHeaderOf, type WorkspaceApi } from '../sync/outbox/sender.ts';
import { workspaceSweepJobs } from '../sync/outbox/sweep-jobs.ts';
import { createThrottle, type Throttle } from '../sync/quota/throttle.ts';
import { createReconcile } from '../sync/reconcile/reconcile.ts';
import { readLargeBy } from '../sync/worker/converter.ts';
import { isRecorded, type WorkspaceContext } from '../sync/workspace-context.ts';
import { createWriteBack } from '../sync/write-back/write-back.ts';
import { type DaemonContext, observersOf, type WorkspaceAddress } from './daemon-context.ts';
import { activeConnections, compileConfig, openNamesByConnection, rulesOf, sourcesOf } from './sources.ts';
import { createReceivers } from './webhook-receivers.ts';

/** An open workspace: its store, its throttle, its stages. Partitions share nothing but the process. */
export type Partition = Awaited<ReturnType<typeof assemble>>;

/** Time that a stop waits for requests in flight, milliseconds: less than an orchestrator grants. */
const GRACE = 5_000;

/** Opens a workspace. Throws the reason if it cannot be opened; nothing stays open then. */
export async function openPartition(
  daemon: DaemonContext,
  config: WorkspaceConfig,
  address: WorkspaceAddress,
  lease: Lease,
  wakeSignals: WakeSignals,
): Promise<Partition> {
  const { clock, random } = daemon;
  const store = await daemon.installation.store(config.name, lease.fence);
  try {
    const opened = { ...observersOf(daemon, config.name), ...wakeSignals, store, clock, random };
    const ledgerClock = await daemon.ledgerClock();
    const throttle = await createThrottle({ ...opened, clock: ledgerClock }, config.quota, daemon.succession);
    try {
      await resumeAfterKeyChange(store, throttle, address.apiKey(), config.workspace);
      return await assemble(daemon, { ...opened, config, throttle }, address, lease);
    } catch (error) {
      // Without this, its timers would fire for a workspace that this process does not own.
      await throttle.abandon();
      throw error;
    }
  } catch (error) {
    throw asSyncError(error);
  }
}

/** The name of the stored digest of the key. A digest, so that the key cannot be read back. */
const KEY_DIGEST = 'workspace.key';

/**
 * Lifts the halt after a rejected key if another key, address or workspace is configured now, because the rejection concerned the
 * previous one.
 */
export async function resumeAfterKeyChange(
  store: Store,
  throttle: Pick<Throttle, 'resume'>,
  key: string,
  { url, id }: Pick<WorkspaceConfig['workspace'], 'url' | 'id'>,
): Promise<void> {
  const digest = hash('sha256', JSON.stringify([url, id, key]), 'base64url').slice(0, 16);
  if ((await readMeta(store.query, KEY_DIGEST)) === digest) return;
  await throttle.resume();
  await store.commit((transaction) => writeMeta(transaction, KEY_DIGEST, digest));
}

/** Creates the context and the stages of a partition. Nothing runs before it is started. */
async function assemble(
  daemon: DaemonContext,
  opened: StoreContext & WakeSignals & Pick<WorkspaceContext, 'config' | 'throttle'>,
  address: WorkspaceAddress,
  lease: Lease,
) {
  const { connectors, converter, options } = daemon;
  const { config, store, throttle, clock, random, inbox } = opened;
  let onWrite = (): void => undefined;
  let trouble: SyncError | undefined;
  const lag = createLagWatch(clock);
  const http = fencedHttpClient(daemon.http, lease);
  const pauses = createPauses(clock);
  const namesByConnection = await openNamesByConnection(opened, config, connectors);
  const parts: Omit<WorkspaceContext, 'outboxClient'> = {
    ...opened,
    baseUrl: address.baseUrl,
    version: daemon.version,
    breaker: createBreaker(),
    collector: createCollector(opened, daemon.groupCommit, inbox),
    connections: activeConnections(daemon, opened, config, http, namesByConnection, pauses),
    pauses,
    sources: sourcesOf(config.connections, connectors, namesByConnection, converter),
    rules: rulesOf(config, address.baseUrl, connectors),
    untouched: daemon.succession?.untouched,
    workspaceId: workspaceIdOf(config, store),
    onTrouble(next) {
      trouble = next;
    },
    onWrite: () => onWrite(),
    onLag(milliseconds) {
      lag.note(milliseconds);
      daemon.onLag?.(milliseconds);
    },
  };
  const api = openWorkspaceApi(parts, address.apiKey, http, lease.lost, readLargeBy(converter));
  const context: WorkspaceContext = { ...parts, outboxClient: api.outboxClient };
  const stages = await openStages(daemon, context);
  const postponed = createPostponed(clock);
  const described = {
    ...context,
    ...stages,
    address: address.baseUrl,
    namesByConnection,
    times: daemon.causeTimes(config.name),
    /** Returns the reason why the workspace cannot be written to at present. */
    trouble: () => trouble,
  };
  const describe: OpenWorkspace['describe'] = (...read) => describeOpenWorkspace(described, ...read);
  let stopped: Promise<void> | undefined;

  return {
    ...stages,
    name: config.name,
    config,
    store,
    throttle,
    random,
    connections: context.connections,
    sources: context.sources,
    rules: context.rules,
    publicUrl: options.publicUrl,
    describe,
    status: async (rejected?: SyncError) => describe(await readStatus(store.query, clock.now()), rejected, 'whole'),
    lag: () => lag.report(),
    send: api.send,
    client: api.client,
    postponed,
    compile: (text: string) => compileConfig(text, daemon, context, namesByConnection),
    /** For the gateway. */
    upstream: upstreamOf(daemon, context, api),
    /** Wakes the outbox after changes became due without reconcile. */
    wakeOutbox: () => context.outbox.notify(),
    /** Wakes reconcile after a delivery was added to the inbox. */
    wakeReconcile: () => inbox.notify(),
    /** Wakes the backfills after one was requested. */
    wakeBackfills: () => stages.backfills.notify(),
    /** Registers the listener that is called when the daemon has written to the workspace. */
    onWrite(call: () => void) {
      onWrite = call;
    },
    start() {
      stages.start();
      stages.timetable.start();
      postponed.start();
    },
    /** Starts everything but the timetable. */
    startUnscheduled: stages.start,
    startWrites: () => stages.outbox.startWrites(),
    /** Stops in order: accepts no new work, and waits for the requests in flight. */
    stop() {
      const settleNames = () => doAll([...namesByConnection.values()].map((names) => () => names.settled()));
      const steps = [postponed.stop, stages.stop, throttle.stop, settleNames];
      stopped ??= stopWithin(steps, clock, api.cut);
      return stopped;
    },
  };
}

/** Returns the configured id, or the id that the workspace itself has reported; the first known id is cached. */
export function workspaceIdOf({ workspace: { id } }: WorkspaceConfig, store: Store): () => Promise<string | undefined> {
  let known = id === 'current' ? undefined : id;
  return async () => (known ??= await readMeta(store.query, WORKSPACE_ID));
}

/** Runs the steps in order. Requests that are still in flight after `GRACE` are cut off. */
function stopWithin(steps: readonly (() => Promise<unknown>)[], clock: Clock, cut: () => void): Promise<void> {
  const cancel = clock.after(GRACE, cut);
  return doAll(steps).finally(cancel);
}

/** The part of a partition that the gateway uses. */
function upstreamOf(
  { tokenBook }: DaemonContext,
  { config, store, clock, random, logger, throttle, outbox, workspaceId }: WorkspaceContext,
  { capture, pass }: WorkspaceApi,
): Upstream {
  const { fresh: freshFor, wait: longestWait, keyPrefix } = config.gateway;
  return {
    name: config.name,
    store,
    logger,
    capture,
    pass,
    outbox,
    workspaceId,
    hasTask: (taskId) => isTaskCached(store.query, taskId),
    tokens: createTokens(store, tokenBook, clock, random),
    settings: { freshFor, longestWait, keyPrefix, versionHeader: versionHeaderOf(config.workspace.api) },
    nextSlotAt: () => throttle.snapshot().nextForPeopleAt,
  };
}

/** Creates all stages of a workspace, in the order of the flow. Nothing runs before it is started. */
async function openStages(daemon: DaemonContext, context: WorkspaceContext) {
  const { config, store, logger } = context;
  await storeConnectionSettings(context);

  // Receive → append.
  const polls = createPolls(context);
  const fetches = createFetches(context);
  const hooks = createHookWatch(context);
  const backfills = createBackfills(context);
  const verification = createVerification(context);

  // Process → evaluate → enqueue. Write-back writes the notices of reconcile to vendors.
  const writeBack = createWriteBack(context);
  const reconcile = createReconcile(context);

  // Claim → send → settle.
  const outbox = createOutbox(context, reconcile.reevaluation);

  const jobs = [
    ...[...polls.jobs, ...vendorSweepJobs(context), ...reviewJobs(context), ...hooks.jobs],
    ...[...writeBack.jobs, ...workspaceSweepJobs(context)],
  ];
  const timetable = daemon.scheduler.open(jobs, jobRuns(store), logger, phaseOf(store.query.workspace));
  const stages: readonly Stage[] = [outbox, reconcile, fetches, writeBack, backfills, verification];
  return {
    polls,
    fetches,
    backfills,
    hooks,
    reconcile,
    outbox,
    timetable,
    receivers: createReceivers(daemon, config, context),
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
async function storeConnectionSettings({ config, store, clock, random, rules }: WorkspaceContext): Promise<void> {
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
