import { hash } from 'node:crypto';
import { createPostponed } from '../admin/changes/postponed.ts';
import type { OpenWorkspace } from '../admin/open-workspace.ts';
import { type CauseTimes, createLagWatch, describeOpenWorkspace } from '../admin/status/describe-open-workspace.ts';
import { createTokens } from '../gateway/token-book.ts';
import type { Upstream } from '../gateway/upstream.ts';
import { asSyncError } from '../model/errors.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { readMeta, writeMeta } from '../store/meta.ts';
import { readStatus } from '../store/status/stored-status.ts';
import { isTaskCached } from '../store/tasks/stored-tasks.ts';
import type { WorkspaceContext } from '../store/workspace-context.ts';
import type { Store } from '../store/workspace-scope.ts';
import { createThrottle, type Throttle } from '../sync/quota/throttle.ts';
import { type DaemonContext, observersOf, type PartitionContext } from './daemon-context.ts';
import { openStages, type PartitionStages, workspaceIdOf } from './partition-stages.ts';
import { compileConfig } from './sources.ts';
import { openWorkspaceApi, versionHeaderOf, type WorkspaceApi } from './workspace-send.ts';

/** An open workspace: its store, its throttle, its stages. Partitions share nothing but the process. */
export type Partition = Awaited<ReturnType<typeof assemble>>;

/** The part of the context that the caller of `openPartition` provides. */
export type PartitionInput = Pick<PartitionContext, 'config' | 'address' | 'lease' | 'inbox' | 'outbox'>;

/** Time that a stop waits for requests in flight, milliseconds: less than an orchestrator grants. */
const GRACE = 5_000;

/** Opens a workspace. Throws the reason if it cannot be opened; nothing stays open then. */
export async function openPartition(daemon: DaemonContext, input: PartitionInput): Promise<Partition> {
  const { config, lease } = input;
  const store = await daemon.installation.store(config.name, lease.fence);
  try {
    const { clock, random } = daemon;
    return await openWithThrottle(daemon, input, { ...observersOf(daemon, config.name), store, clock, random });
  } catch (error) {
    throw asSyncError(error);
  }
}

async function openWithThrottle(
  daemon: DaemonContext,
  input: PartitionInput,
  workspace: WorkspaceContext,
): Promise<Partition> {
  const { config, address } = input;
  const clock = await daemon.ledgerClock();
  const throttle = await createThrottle({ ...workspace, clock }, config.quota, daemon.succession);
  try {
    await resumeAfterKeyChange(workspace.store, throttle, address.apiKey(), config.workspace);
    return await assemble(daemon, { ...workspace, ...input, throttle });
  } catch (error) {
    // Without this, its timers would fire for a workspace that this process does not own.
    await throttle.abandon();
    throw error;
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

/** Creates the parts of a partition and connects them. Nothing runs before it is started. */
async function assemble(daemon: DaemonContext, base: Omit<PartitionContext, 'notifyWrite'>) {
  let onWrite = (): void => undefined;
  const partition: PartitionContext = { ...base, notifyWrite: () => onWrite() };
  const { config, store, throttle, clock, random } = partition;
  const api = openWorkspaceApi(daemon, partition);
  const lag = createLagWatch(clock);
  const onLag = (milliseconds: number): void => {
    lag.note(milliseconds);
    daemon.onLag?.(milliseconds);
  };
  const stages = await openStages(daemon, partition, api.outboxClient, onLag);
  const { namesByConnection } = stages;
  const postponed = createPostponed(clock);
  const views = viewsOf(partition, stages, daemon.causeTimes(config.name));
  let stopped: Promise<void> | undefined;

  return {
    ...stages,
    name: config.name,
    config,
    store,
    throttle,
    random,
    publicUrl: daemon.options.publicUrl,
    ...views,
    lag: () => lag.report(),
    send: api.send,
    client: api.client,
    postponed,
    compile: (text: string) => compileConfig(text, daemon, partition, namesByConnection),
    /** For the gateway. */
    upstream: upstreamOf(daemon, partition, api),
    /** Wakes the outbox after changes became due without reconcile. */
    wakeOutbox: () => partition.outbox.notify(),
    /** Wakes reconcile after a delivery was added to the inbox. */
    wakeReconcile: () => partition.inbox.notify(),
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

/** Runs the steps in order. Requests that are still in flight after `GRACE` are cut off. */
function stopWithin(
  steps: readonly (() => Promise<unknown>)[],
  clock: PartitionContext['clock'],
  cut: () => void,
): Promise<void> {
  const cancel = clock.after(GRACE, cut);
  return doAll(steps).finally(cancel);
}

/** The views of a partition for status, pages and lists. */
function viewsOf(
  { config, address, store, throttle, clock }: PartitionContext,
  { hooks, fetches, namesByConnection, trouble }: PartitionStages,
  times: CauseTimes,
): Pick<OpenWorkspace, 'describe' | 'status'> {
  const described = {
    config,
    address: address.baseUrl,
    store,
    throttle,
    clock,
    hooks,
    fetches,
    namesByConnection,
    times,
    trouble,
  };
  const describe: OpenWorkspace['describe'] = (...read) => describeOpenWorkspace(described, ...read);
  return {
    describe,
    status: async (rejected) => describe(await readStatus(store.query, clock.now()), rejected, 'whole'),
  };
}

/** The part of a partition that the gateway uses. */
function upstreamOf(
  { tokenBook }: DaemonContext,
  { config, store, clock, random, logger, throttle, outbox }: PartitionContext,
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
    workspaceId: workspaceIdOf(config, store),
    hasTask: (taskId) => isTaskCached(store.query, taskId),
    tokens: createTokens(store, tokenBook, clock, random),
    settings: { freshFor, longestWait, keyPrefix, versionHeader: versionHeaderOf(config.workspace.api) },
    nextSlotAt: () => throttle.snapshot().nextForPeopleAt,
  };
}
