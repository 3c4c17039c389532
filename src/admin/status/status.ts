import type { OwnershipAge, Peer } from '../../cluster/lease-holder.ts';
import type { NamedUnit } from '../../model/names.ts';
import { ACTIVITY, complete, STORED, type TypeOf } from '../../store/status/status-shape.ts';
import type { HookReport } from '../../sync/intake/hook-watch.ts';
import type { QuotaSnapshot } from '../../sync/quota/throttle.ts';

/**
 * ok        everything works without help.
 * degraded  work continues, and something needs a person, or does not arrive.
 * blocked   nothing continues until the cause is removed.
 */
export type Verdict = 'ok' | 'degraded' | 'blocked';

export function worst(verdicts: readonly Verdict[]): Verdict {
  if (verdicts.includes('blocked')) return 'blocked';
  return verdicts.includes('degraded') ? 'degraded' : 'ok';
}

const FAILURE = { code: '', message: '', hint: '' };
export type Failure = TypeOf<typeof FAILURE>;

/** One reason for a verdict. */
const CAUSE = {
  /** Stable: one of `WARNINGS`, or an error code of the registry. */
  code: '',
  verdict: 'degraded' as Exclude<Verdict, 'ok'>,
  count: 1,
  /** The time when it began, and when it was last seen, epoch milliseconds; null if unknown. */
  since: null as number | null,
  seenAt: null as number | null,
  /** For people: `94 changes need approval`. */
  message: '',
  /** The work that stops because of it, and the work that continues. */
  stops: '',
  hint: '',
  /** The command that shows or solves it; null if only people elsewhere can. */
  command: null as string | null,
};
export type Cause = TypeOf<typeof CAUSE>;

/**
 * running  requests are sent as changes come due
 * waiting  nothing is sent before `until`: the quota is used up, or the workspace or a person requested a pause
 * halted   nothing is sent until someone acts: see `hint`
 */
export type WorkspaceState =
  | { readonly kind: 'running' }
  | { readonly kind: 'waiting'; readonly until: number; readonly reason: string }
  | ({ readonly kind: 'halted' } & Failure);

const WINDOW: QuotaSnapshot['long'] = {
  ...{ window: 0, cap: null, used: 0, usedByBackground: 0, usedByBackfill: 0 },
  ...{ backgroundLimit: null, backfillLimit: null },
};

export const QUOTA: QuotaSnapshot = {
  ...{ long: WINDOW, burst: WINDOW, configuredShare: 'auto', effectiveShare: 0, ceiling: 0, limited: false },
  ...{ paused: null, halt: null, waiting: {} as QuotaSnapshot['waiting'], inFlight: 0 },
  ...{ nextSlotAt: null, nextForPeopleAt: 0, lastRefusal: null },
};

const CONNECTION = {
  name: '',
  connector: '',
  /** Whether its pull requests are recorded in the workspace. */
  mirror: 'auto' as 'auto' | 'record' | 'off',
  /** The path of its webhooks; null if it has no secret and so takes none. */
  webhookPath: null as string | null,
  /** The schedule of its polls, for people: `every 5 minutes`; null if it does not poll. */
  schedule: null as string | null,
  /** Its webhooks at the vendor; null if they are not checked. */
  hooks: null as HookReport | null,
  /**
   * Repositories, projects and teams of its configuration that were renamed or replaced: the followed id, its present name, and the
   * other id that the name now leads to, from which nothing is read (`scope_rebound`).
   */
  names: [{ name: '', id: '', called: '', elsewhere: null as string | null }],
  /** The unit of the last webhook, if all webhooks were outside the scope and no poll follows renames. */
  unmatchedUnit: undefined as NamedUnit | undefined,
  ...ACTIVITY,
};
export type ConnectionStatus = TypeOf<typeof CONNECTION>;

const WORKSPACE = {
  ...STORED,
  name: '',
  /** Base address of its API. */
  address: '',
  quota: QUOTA,
  /** The requests that wait for the quota. */
  backlog: {
    requests: 0,
    backfill: 0,
    /** When the quota allows the last of them, if nothing more comes; null if none waits, or nothing is sent. */
    doneAt: null as number | null,
    /** Changes that need approval, which are not among the requests. */
    held: 0,
    /** Expected time of the last request, by quota and due time, if no more work arrives; null if `doneAt` is null. */
    lastSentAt: null as number | null,
  },
  state: { kind: 'running' } as WorkspaceState,
  /**
   * Where its pull requests are recorded, also for people, after "pull requests: ". `workspace`: there; `here`: only worksync has them;
   * `unknown`: the workspace has not said yet.
   */
  mirror: { place: 'unknown' as 'workspace' | 'here' | 'unknown', message: 'unknown' },
  connections: [CONNECTION],
  verdict: 'ok' as Verdict,
  /** One sentence: how much is synced, and what is wrong. */
  summary: '',
  /** The blocking causes come first. */
  causes: [CAUSE],
};
export type WorkspaceStatus = TypeOf<typeof WORKSPACE>;

const STATUS = {
  version: 'unknown',
  /** Versions of the database layout, and of the protocol between processes; null: an older version, which reports none. */
  schema: null as number | null,
  protocol: null as number | null,
  startedAt: 0,
  at: 0,
  /** Whether this process can store webhooks, with the reason: component → `ok`, or a reason code. */
  ready: true,
  components: {} as Record<string, string>,
  databaseBytes: 0,
  /** The reason why the configuration could not be reloaded: the last good one stays in use. */
  configFault: null as Failure | null,
  /** The worst of all workspaces; blocked while the process is not ready. */
  verdict: 'ok' as Verdict,
  workspaces: [WORKSPACE],
  /** Workspaces without a status: they did not open, or their rows cannot be read. */
  broken: [{ name: '', ...FAILURE }],
};

/**
 * The status of the daemon: plain JSON, served at `/status.json` and shown by the status page and by `worksync status`. All times
 * are epoch milliseconds.
 */
export interface Status extends TypeOf<typeof STATUS> {
  /** The state of several processes that share the workspaces; absent: this is the only one. */
  readonly shared?: SharedStatus;
  /** Workspaces of replicas that did not report them, and their address; null if there is no owner at this moment. */
  readonly elsewhere?: readonly { readonly name: string; readonly address: string | null }[];
}

/** The status of the process without its workspaces. */
export type ProcessStatus = Omit<Status, 'verdict' | 'workspaces' | 'broken' | 'elsewhere'>;
export type BrokenWorkspace = Status['broken'][number];

/** Completes the status of a process that may run another version. */
export function completeStatus(answer: Partial<Status>): Status {
  return complete(answer, STATUS);
}

/** The processes that share the workspaces, and the faults among them. */
export interface SharedStatus {
  readonly replicas: readonly ReplicaStatus[];
  readonly causes: readonly Cause[];
}

export interface ReplicaStatus extends Pick<Peer, 'id' | 'address' | 'host' | 'version' | 'startedAt' | 'isOwn'> {
  /** Whether its workspaces have the same configuration as those of the reporting process. */
  readonly sameConfig: boolean;
  /** The workspaces that it owns, and for how long, milliseconds; null if it was not asked, or did not answer. */
  readonly holds: readonly OwnershipAge[] | null;
}

/** Returns the verdict of all workspaces together. A process that cannot store webhooks blocks them all. */
export function verdictOf({ ready, configFault, shared, workspaces, broken }: Omit<Status, 'verdict'>): Verdict {
  return worst([
    ...[...workspaces, ...(shared?.causes ?? [])].map(({ verdict }) => verdict),
    ...(ready && broken.length === 0 ? [] : ['blocked' as const]),
    ...(configFault === null ? [] : ['degraded' as const]),
  ]);
}

/** A workspace in a list of many. */
export interface ListedWorkspace extends Pick<WorkspaceStatus, 'name' | 'verdict' | 'summary'> {
  /** Pending changes, and changes that need approval. */
  readonly waiting: number;
  readonly held: number;
  /** The long window; null if the state is unknown. */
  readonly quota: { readonly used: number; readonly cap: number | null } | null;
}
