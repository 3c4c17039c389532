import { CODES } from '../model/errors/codes.ts';
import { asSyncError, type SyncError } from '../model/errors/sync-error.ts';
import type { Binding } from '../model/names.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { DatabaseFault } from '../platform/database/database-fault.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Store } from '../store/database.ts';
import type { HealthSummary, StoredStatus } from '../store/stored-status.ts';
import type { Fetches } from '../sync/intake/fetches.ts';
import type { HookWatch } from '../sync/intake/hook-watch.ts';
import type { NameBindings } from '../sync/intake/name-bindings.ts';
import { webhookPathOf } from '../sync/intake/webhook-routes.ts';
import type { KeyRefusal } from '../sync/quota/cooldown.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import { keyRemedy } from '../workspace-api/answer.ts';
import type { CauseTimes } from './cause-times.ts';
import {
  type ConfiguredConnection,
  describeWorkspace,
  failureOf,
  lastSentAt,
  type WorkspaceParts,
  type WorkspaceStatus,
} from './status.ts';
import { type Backlog, judge } from './verdict.ts';
import type { ListedWorkspace } from './workspace-list.ts';

export interface DescribedWorkspace {
  readonly config: WorkspaceConfig;
  /** The address of its API. */
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

/** Builds the status of a workspace from its stored rows and the state of this process. */
export function describeOpenWorkspace(
  { config, address, store, throttle, clock, hooks, fetches, namesByConnection, times, trouble }: DescribedWorkspace,
  stored: StoredStatus,
  rejected: SyncError | undefined,
): WorkspaceStatus {
  const quota = throttle.snapshot();
  const halt = haltOf(store.fault(), trouble(), quota.halt);
  const backlog = backlogOf(throttle, stored, halt !== undefined);
  return describeWorkspace({
    name: config.name,
    address,
    connections: config.connections.map((connection) => ({
      ...describeConnection(config.name, connection),
      ...knownHere(connection, hooks, namesByConnection),
      fetchFailure: fetches.failureOf(connection.name),
    })),
    // Without rules nothing changes the stored reasons.
    stored: config.rules.workflow === undefined ? { ...stored, unfinishedTasks: {} } : stored,
    quota,
    backlog: {
      ...backlog,
      lastSentAt: backlog.doneAt === null ? null : lastSentAt(backlog.doneAt, stored.changes.lastDueAt),
    },
    times,
    rejected: rejected?.message ?? null,
    keptLog: store.keptLog(),
    halt,
    now: clock.now(),
  });
}

/** Returns the entry of a list, with the verdict of `describeOpenWorkspace` but without the details of a single page. */
export function listOpenWorkspace(
  { config, store, throttle, clock, hooks, fetches, namesByConnection, trouble }: DescribedWorkspace,
  stored: HealthSummary,
  rejected: SyncError | undefined,
): ListedWorkspace {
  const { byState } = stored.changes;
  const halt = haltOf(store.fault(), trouble(), throttle.isHalted() ? throttle.snapshot().halt : null) ?? null;
  const wrong = new Map(stored.connections.map((each) => [each.connection, each]));
  const facts = {
    ...{
      backlog: backlogOf(throttle, stored, halt !== null),
      backfills: stored.backfills,
      rejected: rejected?.message ?? null,
    },
    ...{ pullRequests: stored.pullRequests, links: stored.links, server: stored.server },
    keptLog: store.keptLog() ?? null,
    changes: { byState, heldSeen: null },
    deliveries: { ...stored.deliveries, quarantinedSeen: null },
    connections: config.connections.map((connection) => ({
      ...{
        name: connection.name,
        mirror: connection.mirror,
        missingUnits: [],
        refusedFetches: 0,
        refusedWrites: 0,
        ...wrong.get(connection.name),
        failure: failureOf(wrong.get(connection.name) ?? { failure: null }, fetches.failureOf(connection.name)),
      },
      ...knownHere(connection, hooks, namesByConnection),
    })),
    halt,
  };
  const { verdict, summary } = judge(facts, clock.now());
  const counts = { waiting: byState.pending + byState.sending, held: byState.held };
  return { name: config.name, verdict, summary, ...counts, quota: throttle.used() };
}

/** Returns the state of a connection that only this process has. */
function knownHere(
  { name, poll }: ConnectionConfig,
  hooks: DescribedWorkspace['hooks'],
  namesByConnection: DescribedWorkspace['namesByConnection'],
): Pick<ConfiguredConnection, 'hooks' | 'names' | 'unmatchedUnit'> {
  const names = namesByConnection.get(name);
  return {
    hooks: hooks.report(name) ?? null,
    names: describeNames(names?.bindings() ?? []),
    unmatchedUnit: poll === 'off' ? names?.unmatchedUnit() : undefined,
  };
}

function backlogOf(throttle: Throttle, { changes }: Pick<HealthSummary, 'changes'>, isHalted: boolean): Backlog {
  const { byState, waitingBackfills: backfill } = changes;
  const requests = byState.pending + byState.sending;
  const doneAt = requests === 0 || isHalted ? null : throttle.drainedAt(requests, Math.min(backfill, requests));
  return { requests, backfill, doneAt, held: byState.held };
}

/** Lists names whose target is called differently, or has another id than before. */
function describeNames(bindings: readonly Binding[]): ConfiguredConnection['names'] {
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
): WorkspaceParts['halt'] {
  if (fault) return asSyncError(fault);
  if (trouble) return trouble;
  return kept
    ? { ...kept, message: 'the workspace refused the key', hint: keyRemedy(kept.code) ?? CODES[kept.code].hint }
    : undefined;
}

function describeConnection(
  workspace: string,
  config: ConnectionConfig,
): Omit<ConfiguredConnection, 'hooks' | 'names' | 'unmatchedUnit'> {
  const { name, connector, mirror, webhookSecrets, poll } = config;
  const webhookPath = webhookSecrets.length > 0 ? webhookPathOf(workspace, name) : null;
  return { name, connector, mirror, webhookPath, schedule: describeSchedule(poll) };
}

function describeSchedule(poll: ConnectionConfig['poll']): string | null {
  if (poll === 'off') return null;
  if ('cron' in poll) return `cron ${poll.cron}`;
  return poll.everyMs % 60_000 === 0 ? `every ${poll.everyMs / 60_000} min` : `every ${poll.everyMs / 1_000} s`;
}
