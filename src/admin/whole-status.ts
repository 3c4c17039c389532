import { PROTOCOL, SCHEMA } from '../model/build.ts';
import { asSyncError, type SyncError } from '../model/errors/sync-error.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import { yieldToEventLoop } from '../platform/lib/yield.ts';
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
  /** Why the configuration as a whole could not be read the last time. */
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

/** Where the processes of an installation ask each other for their own parts. */
export const OWN_STATUS = '/replica/status';
export const OWN_LIST = '/replica/list';

/** What the process says about itself. */
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

/** The same, and of all workspaces: also of those that other processes work on, as these say. */
export async function readWholeStatus(deps: WholeStatusDeps): Promise<Status> {
  const { sharing } = deps;
  const own = readOwnStatus(deps);
  if (!sharing) return own;
  const answers = await sharing.replicas.requestAll<Partial<Status>>(OWN_STATUS);
  const { workspaces, broken, elsewhere, shared, verdict: _own, ...rest } = await own;
  const told = answers.flatMap(({ answer }) => (answer ? [completeStatus(answer)] : []));
  const all = firstOfName([...workspaces, ...told.flatMap((each) => each.workspaces)]);
  const failed = firstOfName([...broken, ...told.flatMap((each) => each.broken)]).filter(isNone(all));
  const silent = (elsewhere ?? []).filter(isNone([...all, ...failed]));
  const whole = {
    ...{ ...rest, workspaces: all, broken: failed },
    ...(shared && { shared: withAnswers(shared, answers) }),
    elsewhere: await addressed(silent, sharing),
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** While a workspace moves two processes may tell of it, or none. */
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

/** Of this process and the workspaces that are open in it. */
export async function readOwnStatus(deps: WholeStatusDeps): Promise<Status> {
  const told = await readAll<StoredStatus, WorkspaceStatus>(deps, {
    read: readStatuses,
    tell: (workspace, stored, rejected) => workspace.describe(stored, rejected),
  });
  const elsewhere = told.elsewhere.map((name) => ({ name, address: null }));
  const whole = {
    ...readProcessStatus(deps),
    ...{ workspaces: told.read, broken: told.broken },
    ...(elsewhere.length > 0 && { elsewhere }),
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** All workspaces as a list shows them, worst first. It agrees with their statuses, and costs a fraction of them. */
export async function readWorkspaceList(deps: AllWorkspaces): Promise<readonly ListedWorkspace[]> {
  const { sharing } = deps;
  const own = readOwnList(deps);
  if (!sharing) return (await own).listed;
  const answers = await sharing.replicas.requestAll<OwnList>(OWN_LIST);
  const { listed, elsewhere } = await own;
  const told = answers.flatMap(({ answer }) => answer?.listed ?? []);
  const all = firstOfName([...listed, ...told]);
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

/** Of the workspaces that are open in this process, and those that nobody can open. */
export async function readOwnList(deps: AllWorkspaces): Promise<OwnList> {
  const told = await readAll<HealthSummary, ListedWorkspace>(deps, {
    read: readHealthSummaries,
    tell: (workspace, stored, rejected) => workspace.list(stored, rejected),
  });
  return { listed: worstFirst([...told.broken.map(listBroken), ...told.read]), elsewhere: told.elsewhere };
}

/** How something is read of the rows of some workspaces, and what each tells of it. */
interface Reading<Stored, Told> {
  read(query: Sql, workspaces: readonly number[], now: number): Promise<ReadonlyMap<number, Stored>>;
  tell(workspace: OpenWorkspace, stored: Stored, rejected: SyncError | undefined): Told;
}

/** What was read of all workspaces, and those of which nothing can be told. */
interface ToldOfAll<Told> {
  readonly read: readonly Told[];
  readonly broken: readonly BrokenWorkspace[];
  /** Names of those that another process works on. */
  readonly elsewhere: readonly string[];
}

/** Workspaces in one statement: about ten milliseconds of SQLite. */
const AT_A_TIME = 250;

/** In pieces between which others have their turn. Whatever a database says: what is wrong with one hides nothing of the others. */
async function readAll<Stored, Told>(
  { clock, installation: { query }, workspaces }: AllWorkspaces,
  { read, tell }: Reading<Stored, Told>,
): Promise<ToldOfAll<Told>> {
  const told: Told[] = [];
  const closed = [...workspaces.broken()];
  const broken = closed.filter((each) => !isElsewhere(each)).map(([name, error]) => brokenOf(name, error));
  const rejected = workspaces.rejected();

  async function take(some: readonly OpenWorkspace[]): Promise<void> {
    const stored = await read(query, some.map(numberOf), clock.now());
    told.push(...some.map((each) => tell(each, stored.get(numberOf(each)) as Stored, rejected.get(each.name))));
  }

  for (const some of piecesOf(workspaces.partitions(), AT_A_TIME)) {
    await take(some).catch(async () => {
      for (const each of some)
        await take([each]).catch((error: unknown) => broken.push(brokenOf(each.name, asSyncError(error))));
    });
    await yieldToEventLoop();
  }
  return { read: told, broken, elsewhere: closed.filter(isElsewhere).map(([name]) => name) };
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
