import type { NamedUnit } from '../model/names.ts';
import type { ConnectionActivity } from '../store/connection-activity.ts';
import type { StoredStatus } from '../store/stored-status.ts';
import type { FetchFailure } from '../sync/intake/fetches.ts';
import type { CauseTimes } from './cause-times.ts';
import { describeMirror, type MirrorStatus } from './mirror.ts';
import type { SharedStatus } from './replica-status.ts';
import { type Backlog, type Judgement, judge, type Verdict, worst } from './verdict.ts';

/**
 * What the daemon says about itself: plain JSON, served at `/status.json` and shown by the status page and by
 * `worksync status`. All times are epoch milliseconds.
 */
export interface Status extends ProcessStatus {
  /** The worst of all workspaces; blocked while the process is not ready. */
  readonly verdict: Verdict;
  readonly workspaces: readonly WorkspaceStatus[];
  /** Workspaces without a status: they did not open, or their rows cannot be read. */
  readonly broken: readonly BrokenWorkspace[];
  /** Workspaces that another replica works on, of which it has told nothing; absent: there are none. */
  readonly elsewhere?: readonly ElsewhereWorkspace[];
}

export interface ElsewhereWorkspace {
  readonly name: string;
  /** Where that replica answers; null where the workspace has no owner at this moment. */
  readonly address: string | null;
}

/** What it says without its workspaces. */
export interface ProcessStatus {
  readonly version: string;
  /** Numbers of the layout of the database, and of what processes say to each other; null: an older version, which says none. */
  readonly schema: number | null;
  readonly protocol: number | null;
  readonly startedAt: number;
  /** When this was put together. */
  readonly at: number;
  /** Whether this process can store webhooks, and if not, why: component → `ok`, or a reason code. */
  readonly ready: boolean;
  readonly components: Readonly<Record<string, string>>;
  /** Why the configuration could not be reloaded: the last good one stays in use. */
  readonly configFault: Failure | null;
  /** Size of the database. */
  readonly databaseBytes: number;
  /** Of several processes that share the workspaces; absent: this is the only one. */
  readonly shared?: SharedStatus;
}

export interface BrokenWorkspace extends Failure {
  readonly name: string;
}

/** Code, words and remedy. */
interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/**
 * running  requests are sent as changes come due
 * waiting  nothing is sent before `until`: the quota is used up, or the workspace or a person asked for a pause
 * halted   nothing is sent until someone acts: see `hint`
 */
export type WorkspaceState =
  | { readonly kind: 'running' }
  | { readonly kind: 'waiting'; readonly until: number; readonly reason: string }
  | { readonly kind: 'halted'; readonly code: string; readonly message: string; readonly hint: string };

/** One sliding window. `null` where the limit is lifted. */
export interface WindowStatus {
  /** Milliseconds. */
  readonly window: number;
  readonly cap: number | null;
  readonly used: number;
  readonly usedByBackground: number;
  /** Requests that the background lanes may have in this window at the present share. */
  readonly backgroundLimit: number | null;
}

/** The throttle's snapshot fits it. */
export interface QuotaStatus {
  readonly long: WindowStatus;
  readonly burst: WindowStatus;
  readonly configuredShare: number | 'auto';
  readonly effectiveShare: number;
  /** What the share grows back to after a refusal. */
  readonly ceiling: number;
  /** Refused lately, and let in again one request at a time. */
  readonly limited: boolean;
  readonly paused: { readonly until: number; readonly reason: string } | null;
  readonly inFlight: number;
  /** When a background request can be sent next; null: only after an answer has come. */
  readonly nextSlotAt: number | null;
}

/** A connection as it is configured. */
export interface ConfiguredConnection {
  readonly name: string;
  readonly connector: string;
  /** Whether its pull requests are recorded in the workspace. */
  readonly mirror: 'auto' | 'record' | 'off';
  /** Path that its webhooks go to; null where it has no secret and so takes none. */
  readonly webhookPath: string | null;
  /** How it polls, for people: `every 5 minutes`; null where it does not. */
  readonly schedule: string | null;
  /** Its webhooks at the vendor; null if they are not checked. */
  readonly hooks: HookStatus | null;
  /** Names in its configuration whose target was renamed or replaced. */
  readonly names: readonly NameStatus[];
  /** The last repository, project or team that a webhook named, if all of them were outside the scope and no poll follows renames. */
  readonly unmatchedUnit?: NamedUnit | undefined;
}

/** A connection, and the failure of a fetch that fails again and again. */
export interface FetchingConnection extends ConfiguredConnection {
  readonly fetchFailure?: FetchFailure | undefined;
}

/** A repository, project or team that the configuration names. */
interface NameStatus {
  readonly name: string;
  /** The vendor's id of what is followed. */
  readonly id: string;
  /** What that is called now. */
  readonly called: string;
  /** Another id that the name leads to: nothing is taken from it (`scope_rebound`). Null where it leads to nothing else. */
  readonly elsewhere: string | null;
}

/** What intake's watch reports fits it. */
interface HookStatus {
  /** When they were last checked. */
  readonly at: number | null;
  /** Those that send nothing, though they should. */
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

/** The requests that wait for the quota, and when they are sent. */
interface TimedBacklog extends Backlog {
  /** Expected time of the last request, by quota and due time, if no more work arrives; null where `doneAt` is. */
  readonly lastSentAt: number | null;
}

/**
 * Returns the expected time of the last request, epoch milliseconds.
 *
 * @param doneAt when the quota allows it
 * @param lastDueAt when every pending change is due; null if none is pending
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
  /** Where its pull requests are kept. */
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
  /** What is wrong with its present configuration, if it runs with an earlier one. */
  readonly rejected?: string | null;
  /** Why nothing is sent or stored, where that is so. */
  readonly halt?: Failure;
  /** Bytes of a log that another program keeps from being emptied, where one does. */
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

/** Puts the parts of one workspace together. What the database knows of connections no longer configured is left out. */
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

/** Of all workspaces together. A process that cannot store webhooks blocks them all. */
export function verdictOf({ ready, configFault, shared, workspaces, broken }: Omit<Status, 'verdict'>): Verdict {
  return worst([
    ...[...workspaces, ...(shared?.causes ?? [])].map(({ verdict }) => verdict),
    ...(ready && broken.length === 0 ? [] : ['blocked' as const]),
    ...(configFault === null ? [] : ['degraded' as const]),
  ]);
}

/** A slot that is due within this time is no news: a burst passes through the short window like that all day. */
const WORTH_SAYING = 2_000;

function stateOf({ halt, quota, stored, now }: WorkspaceParts): WorkspaceState {
  if (halt) return { kind: 'halted', code: halt.code, message: halt.message, hint: halt.hint };
  if (quota.paused && quota.paused.until > now) return { kind: 'waiting', ...quota.paused };
  const waits = stored.changes.byState.pending > 0 && quota.nextSlotAt !== null;
  if (waits && quota.nextSlotAt > now + WORTH_SAYING)
    return { kind: 'waiting', until: quota.nextSlotAt, reason: 'quota used up' };
  return { kind: 'running' };
}
