import type { NamedUnit } from '../model/names.ts';
import type { ConnectionActivity } from '../store/connection-activity.ts';
import type { StoredStatus } from '../store/stored-status.ts';
import type { FetchFailure } from '../sync/intake/fetches.ts';
import type { CauseTimes } from './cause-times.ts';
import { describeMirror, type MirrorStatus } from './mirror.ts';
import type { SharedStatus } from './replica-status.ts';
import { type Backlog, type Judgement, judge, type Verdict, worst } from './verdict.ts';

/**
 * The status of the daemon: plain JSON, served at `/status.json` and shown by the status page and by `worksync status`. All times
 * are epoch milliseconds.
 */
export interface Status extends ProcessStatus {
  /** The worst of all workspaces; blocked while the process is not ready. */
  readonly verdict: Verdict;
  readonly workspaces: readonly WorkspaceStatus[];
  /** Workspaces without a status: they did not open, or their rows cannot be read. */
  readonly broken: readonly BrokenWorkspace[];
  /** Workspaces of replicas that did not report them; absent: there are none. */
  readonly elsewhere?: readonly ElsewhereWorkspace[];
}

export interface ElsewhereWorkspace {
  readonly name: string;
  /** The address of that replica; null if the workspace has no owner at this moment. */
  readonly address: string | null;
}

/** The status of the process without its workspaces. */
export interface ProcessStatus {
  readonly version: string;
  /** Versions of the database layout, and of the protocol between processes; null: an older version, which reports none. */
  readonly schema: number | null;
  readonly protocol: number | null;
  readonly startedAt: number;
  /** The time of this status. */
  readonly at: number;
  /** Whether this process can store webhooks, with the reason: component → `ok`, or a reason code. */
  readonly ready: boolean;
  readonly components: Readonly<Record<string, string>>;
  /** The reason why the configuration could not be reloaded: the last good one stays in use. */
  readonly configFault: Failure | null;
  /** Size of the database. */
  readonly databaseBytes: number;
  /** The state of several processes that share the workspaces; absent: this is the only one. */
  readonly shared?: SharedStatus;
}

export interface BrokenWorkspace extends Failure {
  readonly name: string;
}

/** Code, message and remedy. */
interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/**
 * running  requests are sent as changes come due
 * waiting  nothing is sent before `until`: the quota is used up, or the workspace or a person requested a pause
 * halted   nothing is sent until someone acts: see `hint`
 */
export type WorkspaceState =
  | { readonly kind: 'running' }
  | { readonly kind: 'waiting'; readonly until: number; readonly reason: string }
  | { readonly kind: 'halted'; readonly code: string; readonly message: string; readonly hint: string };

/** One sliding window. `null`: the limit is lifted. */
export interface WindowStatus {
  /** Milliseconds. */
  readonly window: number;
  readonly cap: number | null;
  readonly used: number;
  readonly usedByBackground: number;
  /** Requests that the background lanes may have in this window at the present share. */
  readonly backgroundLimit: number | null;
}

/** The part of the throttle's snapshot that the status contains. */
export interface QuotaStatus {
  readonly long: WindowStatus;
  readonly burst: WindowStatus;
  readonly configuredShare: number | 'auto';
  readonly effectiveShare: number;
  /** The share up to which it grows again after a refusal. */
  readonly ceiling: number;
  /** Whether it was refused recently, and sends one request at a time. */
  readonly limited: boolean;
  readonly paused: { readonly until: number; readonly reason: string } | null;
  readonly inFlight: number;
  /** The time at which a background request can be sent next; null: only after an answer. */
  readonly nextSlotAt: number | null;
}

/** A connection as it is configured. */
export interface ConfiguredConnection {
  readonly name: string;
  readonly connector: string;
  /** Whether its pull requests are recorded in the workspace. */
  readonly mirror: 'auto' | 'record' | 'off';
  /** The path of its webhooks; null if it has no secret and so takes none. */
  readonly webhookPath: string | null;
  /** The schedule of its polls, for people: `every 5 minutes`; null if it does not poll. */
  readonly schedule: string | null;
  /** Its webhooks at the vendor; null if they are not checked. */
  readonly hooks: HookStatus | null;
  /** Names in its configuration whose target was renamed or replaced. */
  readonly names: readonly NameStatus[];
  /** The unit of the last webhook, if all webhooks were outside the scope and no poll follows renames. */
  readonly unmatchedUnit?: NamedUnit | undefined;
}

/** A connection, and the failure of a fetch that fails repeatedly. */
export interface FetchingConnection extends ConfiguredConnection {
  readonly fetchFailure?: FetchFailure | undefined;
}

/** A repository, project or team that the configuration names. */
interface NameStatus {
  readonly name: string;
  /** The vendor's id of the followed target. */
  readonly id: string;
  /** Its present name at the vendor. */
  readonly called: string;
  /** Another id that the name now leads to, from which nothing is read (`scope_rebound`); null if there is none. */
  readonly elsewhere: string | null;
}

/** The webhooks of a connection, as the monitor in intake reports them. */
interface HookStatus {
  /** The time of the last check. */
  readonly at: number | null;
  /** Hooks that send nothing, though they should. */
  readonly silent: readonly {
    readonly subject: string;
    readonly state: string;
    readonly message: string;
    readonly hint?: string;
  }[];
  /** `code: message` of the last check, and of the last request for redelivery. */
  readonly failure: string | null;
  readonly redeliveryFailure: string | null;
}

export interface ConnectionStatus extends ConfiguredConnection, Omit<ConnectionActivity, 'connection'> {}

/** The requests that wait for the quota, and the expected time of sending. */
interface TimedBacklog extends Backlog {
  /** Expected time of the last request, by quota and due time, if no more work arrives; null if `doneAt` is null. */
  readonly lastSentAt: number | null;
}

/**
 * Returns the expected time of the last request, epoch milliseconds.
 *
 * @param doneAt the time at which the quota allows it
 * @param lastDueAt the time at which every pending change is due; null if none is pending
 */
export function lastSentAt(doneAt: number, lastDueAt: number | null): number {
  return Math.max(doneAt, lastDueAt ?? 0);
}

export interface WorkspaceStatus extends Omit<StoredStatus, 'connections'>, Judgement {
  readonly name: string;
  /** Base address of its API. */
  readonly address: string;
  readonly state: WorkspaceState;
  readonly quota: QuotaStatus;
  readonly backlog: TimedBacklog;
  /** The place where its pull requests are recorded. */
  readonly mirror: MirrorStatus;
  readonly connections: readonly ConnectionStatus[];
}

export interface WorkspaceParts {
  readonly name: string;
  readonly address: string;
  readonly connections: readonly FetchingConnection[];
  readonly stored: StoredStatus;
  readonly quota: QuotaStatus;
  readonly backlog: TimedBacklog;
  /** When each cause was first seen. */
  readonly times?: CauseTimes;
  /** The fault of its present configuration, if it runs with an earlier one. */
  readonly rejected?: string | null;
  /** The reason why nothing is sent or stored, if so. */
  readonly halt?: Failure;
  /** Bytes of a log that another program keeps from being truncated, if one does. */
  readonly keptLog?: number | undefined;
  readonly now: number;
}

export const IDLE: Omit<ConnectionActivity, 'connection'> = {
  lastDeliveryAt: null,
  lastWebhookAt: null,
  units: 0,
  walking: 0,
  lastPollAt: null,
  failingUnits: 0,
  failure: null,
  fetches: 0,
  refusedFetches: 0,
  fetchRefusal: null,
  refusedWrites: 0,
  writeRefusal: null,
  unverifiedItems: 0,
  lastSweepAt: null,
  lastRefused: null,
  switchedOff: [],
  missingUnits: [],
};

/** Returns the failure of the polls of a connection, else that of its fetches. */
export function failureOf(
  { failure }: Pick<ConnectionActivity, 'failure'>,
  fetchFailure: FetchFailure | undefined,
): ConnectionActivity['failure'] {
  return failure ?? (fetchFailure ? { unit: null, ...fetchFailure } : null);
}

/** Combines the parts of one workspace's status. Leaves out stored connections that are no longer configured. */
export function describeWorkspace(parts: WorkspaceParts): WorkspaceStatus {
  const { name, address, quota, backlog, stored, times, now } = parts;
  const activity = new Map(stored.connections.map(({ connection, ...rest }) => [connection, rest]));
  const connections = parts.connections.map(({ fetchFailure, ...each }) => {
    const own = activity.get(each.name) ?? IDLE;
    return { ...each, ...own, failure: failureOf(own, fetchFailure) };
  });
  const { halt = null, rejected = null, keptLog = null } = parts;
  const { causes, ...judgement } = judge({ ...stored, connections, backlog, halt, rejected, keptLog }, now);
  return {
    ...stored,
    name,
    address,
    quota,
    backlog,
    state: stateOf(parts),
    mirror: describeMirror(
      connections.map(({ mirror }) => mirror),
      stored.server,
    ),
    connections,
    ...judgement,
    causes: times?.date(causes, now) ?? causes,
  };
}

/** Returns the verdict of all workspaces together. A process that cannot store webhooks blocks them all. */
export function verdictOf({ ready, configFault, shared, workspaces, broken }: Omit<Status, 'verdict'>): Verdict {
  return worst([
    ...[...workspaces, ...(shared?.causes ?? [])].map(({ verdict }) => verdict),
    ...(ready && broken.length === 0 ? [] : ['blocked' as const]),
    ...(configFault === null ? [] : ['degraded' as const]),
  ]);
}

/** Milliseconds until a slot that are not worth a mention: bursts fill the short window for that long all day. */
const WORTH_SAYING = 2_000;

function stateOf({ halt, quota, stored, now }: WorkspaceParts): WorkspaceState {
  if (halt) return { kind: 'halted', code: halt.code, message: halt.message, hint: halt.hint };
  if (quota.paused && quota.paused.until > now) return { kind: 'waiting', ...quota.paused };
  const waits = stored.changes.byState.pending > 0 && quota.nextSlotAt !== null;
  if (waits && quota.nextSlotAt > now + WORTH_SAYING)
    return { kind: 'waiting', until: quota.nextSlotAt, reason: 'quota used up' };
  return { kind: 'running' };
}
