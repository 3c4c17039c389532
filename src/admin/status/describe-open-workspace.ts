import { asSyncError, CODES, type SyncError } from '../../model/errors.ts';
import type { Binding } from '../../model/names.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../../platform/config/schema.ts';
import type { DatabaseFault } from '../../platform/database/database-fault.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import {
  ACTIVITY,
  complete,
  type OutboxStatus,
  type StatusDepth,
  type StoredStatus,
} from '../../store/status/status-shape.ts';
import type { Store } from '../../store/workspace-scope.ts';
import type { Fetches } from '../../sync/intake/fetches.ts';
import type { HookWatch } from '../../sync/intake/hook-watch.ts';
import type { NameBindings } from '../../sync/intake/name-bindings.ts';
import { webhookPathOf } from '../../sync/intake/webhook-routes.ts';
import type { KeyRefusal } from '../../sync/quota/cooldown.ts';
import type { Throttle } from '../../sync/quota/throttle.ts';
import { keyRemedy } from '../../workspace-api/typed-client.ts';
import { type Cause, type ConnectionStatus, type Failure, QUOTA, type WorkspaceStatus } from './status.ts';
import { type HiddenFacts, judge, type UnjudgedStatus } from './verdict.ts';

interface DescribedWorkspace {
  readonly config: WorkspaceConfig;
  readonly address: string;
  readonly store: Store;
  readonly throttle: Throttle;
  readonly clock: Clock;
  readonly hooks: Pick<HookWatch, 'report'>;
  readonly fetches: Pick<Fetches, 'failureOf'>;
  /** The ids that the names in each connection's configuration are bound to, by the name of the connection. */
  readonly namesByConnection: ReadonlyMap<string, NameBindings>;
  readonly times: CauseTimes;
  /** Why the workspace cannot be written to at present. */
  readonly trouble: () => SyncError | undefined;
}

/** Builds the status of a workspace from its stored rows, which were read to this depth, and the state of this process. */
export function describeOpenWorkspace(
  workspace: DescribedWorkspace,
  stored: StoredStatus,
  rejected: SyncError | undefined,
  depth: StatusDepth,
): WorkspaceStatus {
  const { config, address, store, throttle, clock, times, trouble } = workspace;
  const quota =
    depth === 'whole' || throttle.isHalted()
      ? throttle.snapshot()
      : { ...QUOTA, long: { ...QUOTA.long, ...throttle.used() } };
  const halt = haltOf(store.fault(), trouble(), quota.halt);
  const status = {
    ...stored,
    // Without rules nothing changes the stored reasons.
    unfinishedTasks: config.rules.workflow === undefined ? {} : stored.unfinishedTasks,
    name: config.name,
    address,
    quota,
    backlog: backlogOf(throttle, stored.changes, halt !== null),
    connections: config.connections.map((each) => describeConnection(workspace, each, stored)),
  };
  const hidden = { halt, rejected: rejected?.message ?? null, keptLog: store.keptLog() ?? null };
  return withVerdict(status, hidden, clock.now(), depth === 'whole' ? times : undefined);
}

/** @param times when each cause was first seen */
export function withVerdict(
  status: UnjudgedStatus,
  hidden: HiddenFacts,
  now: number,
  times?: CauseTimes,
): WorkspaceStatus {
  const { verdict, summary, causes } = judge({ ...status, ...hidden }, now);
  return {
    ...status,
    state: stateOf(status, hidden.halt, now),
    mirror: describeMirror(
      status.connections.map(({ mirror }) => mirror),
      status.server,
    ),
    verdict,
    summary,
    causes: times?.date(causes, now) ?? causes,
  };
}

/** Milliseconds until a slot that are not worth a mention: bursts fill the short window for that long all day. */
const WORTH_SAYING = 2_000;

function stateOf({ quota, changes }: UnjudgedStatus, halt: Failure | null, now: number): WorkspaceStatus['state'] {
  if (halt) return { kind: 'halted', code: halt.code, message: halt.message, hint: halt.hint };
  if (quota.paused && quota.paused.until > now) return { kind: 'waiting', ...quota.paused };
  if (changes.byState.pending > 0 && quota.nextSlotAt !== null && quota.nextSlotAt > now + WORTH_SAYING)
    return { kind: 'waiting', until: quota.nextSlotAt, reason: 'quota used up' };
  return { kind: 'running' };
}

/** @param modes `mirror` of each connection */
export function describeMirror(
  modes: readonly ConnectionStatus['mirror'][],
  { records }: Pick<StoredStatus['server'], 'records'>,
): WorkspaceStatus['mirror'] {
  if (modes.every((mode) => mode === 'off')) return { place: 'here', message: 'here only: mirror is off' };
  if (records.state === 'open') return { place: 'workspace', message: 'in the workspace' };
  if (records.state === 'closed')
    return { place: 'here', message: 'here only: the workspace has no route to record them' };
  const said = records.error === null ? '' : ` (${records.error})`;
  return { place: 'unknown', message: `here so far: the workspace has not said whether it records them${said}` };
}

function backlogOf(throttle: Throttle, changes: OutboxStatus, isHalted: boolean): WorkspaceStatus['backlog'] {
  const { byState, waitingBackfills: backfill, lastDueAt } = changes;
  const requests = byState.pending + byState.sending;
  const doneAt = requests === 0 || isHalted ? null : throttle.drainedAt(requests, Math.min(backfill, requests));
  return {
    requests,
    backfill,
    doneAt,
    held: byState.held,
    lastSentAt: doneAt === null ? null : Math.max(doneAt, lastDueAt ?? 0),
  };
}

const IDLE = complete({}, ACTIVITY);

/** Describes a connection as it is configured, with its stored rows and the state that only this process has. */
function describeConnection(
  { config, hooks, fetches, namesByConnection }: DescribedWorkspace,
  { name, connector, mirror, webhookSecrets, poll }: ConnectionConfig,
  stored: StoredStatus,
): ConnectionStatus {
  const names = namesByConnection.get(name);
  const activity = activityOf(stored, name);
  const fetchFailure = fetches.failureOf(name);
  return {
    name,
    connector,
    mirror,
    webhookPath: webhookSecrets.length > 0 ? webhookPathOf(config.name, name) : null,
    schedule: describeSchedule(poll),
    hooks: hooks.report(name) ?? null,
    names: describeNames(names?.bindings() ?? []),
    unmatchedUnit: poll === 'off' ? names?.unmatchedUnit() : undefined,
    ...activity,
    failure: activity.failure ?? (fetchFailure ? { unit: null, ...fetchFailure } : null),
  };
}

function activityOf({ connections }: StoredStatus, name: string): typeof IDLE {
  const own = connections.find(({ connection }) => connection === name);
  if (own === undefined) return IDLE;
  const { connection: _name, ...activity } = own;
  return activity;
}

/** Lists names whose target is called differently, or has another id than before. */
function describeNames(bindings: readonly Binding[]): ConnectionStatus['names'] {
  const isRenamed = ({ entry, id, called }: Binding) => called.toLowerCase() !== entry && id.toLowerCase() !== entry;
  return bindings
    .filter((each) => each.elsewhere !== undefined || isRenamed(each))
    .map(({ entry, id, called, elsewhere }) => ({ name: entry, id, called, elsewhere: elsewhere ?? null }));
}

/** Returns the reason why nothing is stored or sent: found by this process, else stored by an earlier one. */
function haltOf(
  fault: DatabaseFault | undefined,
  trouble: SyncError | undefined,
  kept: KeyRefusal | null,
): Failure | null {
  if (fault) return asSyncError(fault);
  if (trouble) return trouble;
  return kept
    ? { ...kept, message: 'the workspace refused the key', hint: keyRemedy(kept.code) ?? CODES[kept.code].hint }
    : null;
}

function describeSchedule(poll: ConnectionConfig['poll']): string | null {
  if (poll === 'off') return null;
  if ('cron' in poll) return `cron ${poll.cron}`;
  return poll.everyMs % 60_000 === 0 ? `every ${poll.everyMs / 60_000} min` : `every ${poll.everyMs / 1_000} s`;
}

/** Returns a function that creates the times of a workspace once. */
export function createCauseTimesByWorkspace(): (workspace: string) => CauseTimes {
  const byWorkspace = new Map<string, CauseTimes>();
  return (workspace) => {
    const times = byWorkspace.get(workspace) ?? createCauseTimes();
    byWorkspace.set(workspace, times);
    return times;
  };
}

export type CauseTimes = ReturnType<typeof createCauseTimes>;

/** The times since when each cause of one workspace is there, as far as this process saw it. */
export function createCauseTimes() {
  let since: ReadonlyMap<string, number> = new Map();
  return {
    /** Dates what the facts do not date. A cause that is gone is forgotten. */
    date(causes: readonly Cause[], now: number): readonly Cause[] {
      // A fact may be older than the first look at it.
      since = new Map(causes.map(({ code, seenAt }) => [code, Math.min(since.get(code) ?? now, seenAt ?? now)]));
      return causes.map((cause) => ({
        ...cause,
        since: cause.since ?? (since.get(cause.code) as number),
        seenAt: cause.seenAt ?? now,
      }));
    },
  };
}

const SPAN = 86_400_000;
const MOST = 2_000;

type LagWatch = ReturnType<typeof createLagWatch>;
export type LagReport = NonNullable<ReturnType<LagWatch['report']>>;

/**
 * The time from the acknowledgement of a delivery to the answer of the write that it led to, over the last 24 hours. Imports and
 * backfills do not count: `importKey` in `store/deliveries/inbox.ts` marks them, and the metric `sync_lag_seconds` has the same times.
 * Keeps the latest samples in memory; a restart discards them.
 */
export function createLagWatch({ monotonic }: Pick<Clock, 'monotonic'>) {
  const latest: { readonly at: number; readonly lag: number }[] = [];
  let next = 0;
  return {
    note(lag: number) {
      latest[next] = { at: monotonic(), lag };
      next = (next + 1) % MOST;
    },
    /** Returns median and 95th percentile, milliseconds; null if no live delivery led to a write since the start or within 24 hours. */
    report() {
      const since = monotonic() - SPAN;
      const lags = latest.filter(({ at }) => at >= since).map(({ lag }) => lag);
      if (lags.length === 0) return null;
      const sorted = lags.toSorted((a, b) => a - b);
      const quantile = (part: number) => sorted[Math.ceil(part * sorted.length) - 1] as number;
      return { count: sorted.length, p50: quantile(0.5), p95: quantile(0.95) };
    },
  };
}
