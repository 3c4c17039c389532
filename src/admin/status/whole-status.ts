import { PROTOCOL, SCHEMA } from '../../model/build.ts';
import { asSyncError, type SyncError } from '../../model/errors.ts';
import type { ServerClocks } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { piecesOf, yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { Health } from '../../platform/observe/health.ts';
import type { Metrics } from '../../platform/observe/metrics.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StatusDepth, StoredStatus } from '../../store/status/status-shape.ts';
import { readStatuses } from '../../store/status/stored-status.ts';
import type { EffectiveValue } from '../installation/effective-config.ts';
import type { OpenWorkspace, OpenWorkspaces } from '../open-workspace.ts';
import { ownShared, type Sharing, withAnswers } from './replica-status.ts';
import {
  type BrokenWorkspace,
  completeStatus,
  type ListedWorkspace,
  type ProcessStatus,
  type Status,
  type Verdict,
  verdictOf,
  type WorkspaceStatus,
} from './status.ts';

/** The parts of a running daemon that its status, its pages and its routes share. */
export interface ServedDaemon {
  readonly version: string;
  readonly startedAt: number;
  readonly clock: Clock;
  readonly installation: Installation;
  readonly workspaces: OpenWorkspaces;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly serverClocks: ServerClocks;
  /** The reason why the configuration as a whole could not be read the last time. */
  readonly configFault: () => SyncError | undefined;
  readonly sharing?: Sharing | undefined;
  readonly daemonOptions: () => Promise<readonly EffectiveValue[]>;
  /** Replaces the values of secrets, because stored error texts may contain what others sent. */
  readonly scrub: (text: string) => string;
}

/** The routes by which replicas request each other's parts. */
export const OWN_STATUS = '/replica/status';
export const OWN_LIST = '/replica/list';

export function readProcessStatus(daemon: ServedDaemon): ProcessStatus {
  const { version, startedAt, clock, installation, health, configFault, sharing } = daemon;
  const { ready, components } = health.report();
  const fault = configFault();
  return {
    version,
    schema: SCHEMA,
    protocol: PROTOCOL,
    startedAt,
    at: clock.now(),
    ready,
    components,
    databaseBytes: installation.size(),
    configFault: fault ? { code: fault.code, message: fault.message, hint: fault.hint } : null,
    ...(sharing && { shared: ownShared(sharing, clock.now()) }),
  };
}

/** Returns the status of the process and of all workspaces, including those that other processes report. */
export async function readWholeStatus(daemon: ServedDaemon): Promise<Status> {
  const { sharing } = daemon;
  const own = readOwnStatus(daemon);
  if (!sharing) return own;
  const answers = await sharing.replicas.requestAll<Partial<Status>>(OWN_STATUS);
  const { workspaces, broken, elsewhere, shared, verdict: _own, ...rest } = await own;
  const entries = answers.flatMap(({ answer }) => (answer ? [completeStatus(answer)] : []));
  const all = firstOfName([...workspaces, ...entries.flatMap((each) => each.workspaces)]);
  const failed = firstOfName([...broken, ...entries.flatMap((each) => each.broken)]).filter(isNone(all));
  const silent = (elsewhere ?? []).filter(isNone([...all, ...failed]));
  const whole = {
    ...rest,
    workspaces: all,
    broken: failed,
    ...(shared && { shared: withAnswers(shared, answers) }),
    elsewhere: await addressed(silent, sharing),
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** While a workspace moves, two processes may report it, or none. */
function firstOfName<Each extends { readonly name: string }>(all: readonly Each[]): Each[] {
  const found = new Map<string, Each>();
  for (const each of all) if (!found.has(each.name)) found.set(each.name, each);
  return [...found.values()];
}

function isNone(of: readonly { readonly name: string }[]): (each: { readonly name: string }) => boolean {
  const names = new Set(of.map(({ name }) => name));
  return ({ name }) => !names.has(name);
}

type Elsewhere = NonNullable<Status['elsewhere']>;

async function addressed(silent: readonly { readonly name: string }[], { holder }: Sharing): Promise<Elsewhere> {
  if (silent.length === 0) return [];
  const owners = await holder.owners();
  return silent.map(({ name }) => ({ name, address: owners.get(name)?.address ?? null }));
}

/** Returns the status of this process and of the workspaces that are open in it. */
export async function readOwnStatus(daemon: ServedDaemon): Promise<Status> {
  const own = await readOpen(daemon, 'whole', (status) => status);
  const elsewhere = own.elsewhere.map((name) => ({ name, address: null }));
  const whole = {
    ...readProcessStatus(daemon),
    workspaces: own.statuses,
    broken: own.broken,
    ...(elsewhere.length > 0 && { elsewhere }),
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** Returns all workspaces as list entries, worst first. It agrees with their statuses, and costs a fraction of them. */
export async function readWorkspaceList(daemon: ServedDaemon): Promise<readonly ListedWorkspace[]> {
  const { sharing } = daemon;
  const own = readOwnList(daemon);
  if (!sharing) return (await own).listed;
  const answers = await sharing.replicas.requestAll<OwnList>(OWN_LIST);
  const { listed, elsewhere } = await own;
  const entries = answers.flatMap(({ answer }) => answer?.listed ?? []);
  const all = firstOfName([...listed, ...entries]);
  const silent = elsewhere.map((name) => ({ name })).filter(isNone(all));
  const lacking = new Set(sharing.holder.unowned().map(({ workspace }) => workspace));
  const rest = (await addressed(silent, sharing)).map((each) => listElsewhere(each, lacking.has(each.name)));
  return worstFirst([...all, ...rest]);
}

type OwnList = Awaited<ReturnType<typeof readOwnList>>;

/**
 * Returns the workspaces that are open in this process, those that no process can open, and the names of those that other processes work
 * on.
 */
export async function readOwnList(daemon: ServedDaemon) {
  const { statuses, broken, elsewhere } = await readOpen(daemon, 'verdict', listStatus);
  return { listed: worstFirst([...broken.map(listBroken), ...statuses]), elsewhere };
}

export function listStatus({ name, verdict, summary, changes: { byState }, quota }: WorkspaceStatus): ListedWorkspace {
  const { used, cap } = quota.long;
  return {
    name,
    verdict,
    summary,
    waiting: byState.pending + byState.sending,
    held: byState.held,
    quota: { used, cap },
  };
}

/** Returns the entry of a workspace whose state is unknown. */
export function listBroken({ name, code, message }: BrokenWorkspace): ListedWorkspace {
  return { name, verdict: 'blocked', summary: `${code}: ${message}`, waiting: 0, held: 0, quota: null };
}

/** Returns the entry of a workspace that its owner did not report, or that has no owner for longer than a move takes. */
function listElsewhere({ name, address }: Elsewhere[number], isUnheld: boolean): ListedWorkspace {
  const [verdict, summary] = isUnheld
    ? (['blocked', 'no replica works on it'] as const)
    : address === null
      ? (['ok', 'moves from one replica to another'] as const)
      : (['degraded', `another replica works on it (${address}), and did not answer`] as const);
  return { name, verdict, summary, waiting: 0, held: 0, quota: null };
}

const RANKS: Readonly<Record<Verdict, number>> = { blocked: 0, degraded: 1, ok: 2 };

/** Sorts by verdict, then by pending work, then by name. */
export function worstFirst(all: readonly ListedWorkspace[]): ListedWorkspace[] {
  return all.toSorted(
    (a, b) =>
      RANKS[a.verdict] - RANKS[b.verdict] || b.held - a.held || b.waiting - a.waiting || (a.name < b.name ? -1 : 1),
  );
}

/** Workspaces per statement: about ten milliseconds of SQLite. */
const AT_A_TIME = 250;

/**
 * Reads the open workspaces in batches, and yields in between. A failed batch is read one by one, so that one fault hides no other
 * workspace. Returns also the names of those that another process works on.
 */
async function readOpen<Entry>(
  { clock, installation: { query }, workspaces }: ServedDaemon,
  depth: StatusDepth,
  entryOf: (status: WorkspaceStatus) => Entry,
) {
  const statuses: Entry[] = [];
  const closed = [...workspaces.broken()];
  const broken = closed.filter((each) => !isElsewhere(each)).map(([name, error]) => brokenOf(name, error));
  const rejected = workspaces.rejected();

  async function take(some: readonly OpenWorkspace[]): Promise<void> {
    const stored = await readStatuses(query, some.map(numberOf), clock.now(), depth);
    for (const each of some) {
      const own = stored.get(numberOf(each)) as StoredStatus;
      statuses.push(entryOf(each.describe(own, rejected.get(each.name), depth)));
    }
  }

  for (const some of piecesOf(workspaces.partitions(), AT_A_TIME)) {
    await take(some).catch(async () => {
      for (const each of some)
        await take([each]).catch((error: unknown) => broken.push(brokenOf(each.name, asSyncError(error))));
    });
    await yieldToEventLoop();
  }
  return { statuses, broken, elsewhere: closed.filter(isElsewhere).map(([name]) => name) };
}

function isElsewhere([, { code }]: readonly [name: string, reason: SyncError]): boolean {
  return code === 'held_elsewhere';
}

function numberOf({ store }: OpenWorkspace): number {
  return store.query.workspace;
}

function brokenOf(name: string, { code, message, hint }: SyncError): BrokenWorkspace {
  return { name, code, message, hint };
}
