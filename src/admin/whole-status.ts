import { PROTOCOL, SCHEMA } from '../model/build.ts';
import { asSyncError, type SyncError } from '../model/errors/sync-error.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { piecesOf, yieldToEventLoop } from '../platform/lib/yield.ts';
import type { Installation } from '../store/installation.ts';
import { type HealthSummary, readHealthSummaries, readStatuses, type StoredStatus } from '../store/stored-status.ts';
import type { Sql } from '../store/workspace-scope.ts';
import { completeStatus } from './complete-status.ts';
import type { OpenWorkspace, OpenWorkspaces } from './open-workspace.ts';
import { ownShared, type Sharing, withAnswers } from './replica-status.ts';
import {
  type BrokenWorkspace,
  type ElsewhereWorkspace,
  type ProcessStatus,
  type Status,
  verdictOf,
  type WorkspaceStatus,
} from './status.ts';
import { type ListedWorkspace, listBroken, listElsewhere, worstFirst } from './workspace-list.ts';

export interface WholeStatusDeps extends AllWorkspaces {
  readonly version: string;
  readonly startedAt: number;
  readonly health: { report(): Pick<Status, 'ready' | 'components'> };
  /** The reason why the configuration as a whole could not be read the last time. */
  readonly configFault: () => SyncError | undefined;
}

/** All workspaces and their rows. */
export interface AllWorkspaces {
  readonly clock: Clock;
  readonly installation: Installation;
  readonly workspaces: OpenWorkspaces;
  /** Absent: this is the only process. */
  readonly sharing?: Sharing | undefined;
}

/** The routes by which replicas request each other's parts. */
export const OWN_STATUS = '/replica/status';
export const OWN_LIST = '/replica/list';

/** Returns the status of the process. */
export function readProcessStatus(deps: WholeStatusDeps): ProcessStatus {
  const { version, startedAt, clock, installation, health, configFault, sharing } = deps;
  const { ready, components } = health.report();
  const fault = configFault();
  return {
    ...{
      version,
      schema: SCHEMA,
      protocol: PROTOCOL,
      startedAt,
      at: clock.now(),
      ready,
      components,
      databaseBytes: installation.size(),
    },
    configFault: fault ? { code: fault.code, message: fault.message, hint: fault.hint } : null,
    ...(sharing && { shared: ownShared(sharing, clock.now()) }),
  };
}

/** Returns the status of the process and of all workspaces, including those that other processes report. */
export async function readWholeStatus(deps: WholeStatusDeps): Promise<Status> {
  const { sharing } = deps;
  const own = readOwnStatus(deps);
  if (!sharing) return own;
  const answers = await sharing.replicas.requestAll<Partial<Status>>(OWN_STATUS);
  const { workspaces, broken, elsewhere, shared, verdict: _own, ...rest } = await own;
  const entries = answers.flatMap(({ answer }) => (answer ? [completeStatus(answer)] : []));
  const all = firstOfName([...workspaces, ...entries.flatMap((each) => each.workspaces)]);
  const failed = firstOfName([...broken, ...entries.flatMap((each) => each.broken)]).filter(isNone(all));
  const silent = (elsewhere ?? []).filter(isNone([...all, ...failed]));
  const whole = {
    ...{ ...rest, workspaces: all, broken: failed },
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

async function addressed(
  silent: readonly { readonly name: string }[],
  { holder }: Sharing,
): Promise<readonly ElsewhereWorkspace[]> {
  if (silent.length === 0) return [];
  const owners = await holder.owners();
  return silent.map(({ name }) => ({ name, address: owners.get(name)?.address ?? null }));
}

/** Returns the status of this process and of the workspaces that are open in it. */
export async function readOwnStatus(deps: WholeStatusDeps): Promise<Status> {
  const own = await readAll<StoredStatus, WorkspaceStatus>(deps, {
    read: readStatuses,
    describe: (workspace, stored, rejected) => workspace.describe(stored, rejected),
  });
  const elsewhere = own.elsewhere.map((name) => ({ name, address: null }));
  const whole = {
    ...readProcessStatus(deps),
    ...{ workspaces: own.read, broken: own.broken },
    ...(elsewhere.length > 0 && { elsewhere }),
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** Returns all workspaces as list entries, worst first. It agrees with their statuses, and costs a fraction of them. */
export async function readWorkspaceList(deps: AllWorkspaces): Promise<readonly ListedWorkspace[]> {
  const { sharing } = deps;
  const own = readOwnList(deps);
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

export interface OwnList {
  readonly listed: readonly ListedWorkspace[];
  /** Names of workspaces that other processes work on. */
  readonly elsewhere: readonly string[];
}

/** Returns the workspaces that are open in this process, and those that no process can open. */
export async function readOwnList(deps: AllWorkspaces): Promise<OwnList> {
  const own = await readAll<HealthSummary, ListedWorkspace>(deps, {
    read: readHealthSummaries,
    describe: (workspace, stored, rejected) => workspace.list(stored, rejected),
  });
  return { listed: worstFirst([...own.broken.map(listBroken), ...own.read]), elsewhere: own.elsewhere };
}

/** Reads the rows of some workspaces, and builds a status of each. */
interface Reading<Stored, Entry> {
  read(query: Sql, workspaces: readonly number[], now: number): Promise<ReadonlyMap<number, Stored>>;
  describe(workspace: OpenWorkspace, stored: Stored, rejected: SyncError | undefined): Entry;
}

/** The results of all workspaces, and the workspaces that could not be read. */
interface ReadResult<Entry> {
  readonly read: readonly Entry[];
  readonly broken: readonly BrokenWorkspace[];
  /** Names of workspaces that another process works on. */
  readonly elsewhere: readonly string[];
}

/** Workspaces per statement: about ten milliseconds of SQLite. */
const AT_A_TIME = 250;

/** Reads in batches, and yields in between. A failed batch is read one by one, so that one fault hides no other workspace. */
async function readAll<Stored, Entry>(
  { clock, installation: { query }, workspaces }: AllWorkspaces,
  { read, describe }: Reading<Stored, Entry>,
): Promise<ReadResult<Entry>> {
  const entries: Entry[] = [];
  const closed = [...workspaces.broken()];
  const broken = closed.filter((each) => !isElsewhere(each)).map(([name, error]) => brokenOf(name, error));
  const rejected = workspaces.rejected();

  async function take(some: readonly OpenWorkspace[]): Promise<void> {
    const stored = await read(query, some.map(numberOf), clock.now());
    entries.push(...some.map((each) => describe(each, stored.get(numberOf(each)) as Stored, rejected.get(each.name))));
  }

  for (const some of piecesOf(workspaces.partitions(), AT_A_TIME)) {
    await take(some).catch(async () => {
      for (const each of some)
        await take([each]).catch((error: unknown) => broken.push(brokenOf(each.name, asSyncError(error))));
    });
    await yieldToEventLoop();
  }
  return { read: entries, broken, elsewhere: closed.filter(isElsewhere).map(([name]) => name) };
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
