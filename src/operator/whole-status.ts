import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';
import { piecesOf } from '../lib/pieces.ts';
import { nextTurn } from '../lib/turn.ts';
import type { Installation } from '../store/installation.ts';
import { readStatuses, type StoredStatus } from '../store/stored-status.ts';
import type { OpenWorkspace, OpenWorkspaces } from './open-workspace.ts';
import { type BrokenWorkspace, type Status, verdictOf, type WorkspaceStatus } from './status.ts';

export interface WholeStatusDeps {
  readonly version: string;
  readonly startedAt: number;
  readonly clock: Clock;
  readonly installation: Installation;
  readonly workspaces: OpenWorkspaces;
  readonly health: { report(): Pick<Status, 'ready' | 'components'> };
  /** Why the configuration as a whole could not be read the last time. */
  readonly configFault: () => SyncError | undefined;
}

/** What the process says about itself and all its workspaces. */
export async function readWholeStatus(deps: WholeStatusDeps): Promise<Status> {
  const { version, startedAt, clock, installation, workspaces } = deps;
  const { ready, components } = deps.health.report();
  const told = await statusesOf(workspaces.partitions(), workspaces.rejected(), installation, clock);
  const read = told.filter((each) => 'verdict' in each);
  const unread = told.filter((each): each is BrokenWorkspace => !('verdict' in each));
  const lost = [...[...workspaces.broken()].map(([name, error]) => brokenOf(name, error)), ...unread];
  const fault = deps.configFault();
  const whole = {
    ...{ version, startedAt, at: clock.now(), ready, components, databaseBytes: installation.size() },
    configFault: fault ? { code: fault.code, message: fault.message, hint: fault.hint } : null,
    workspaces: read,
    broken: lost,
  };
  return { ...whole, verdict: verdictOf(whole) };
}

/** Workspaces read of at a time: some milliseconds. */
const AT_A_TIME = 100;

/** All of them, in pieces between which others have their turn. */
async function statusesOf(
  partitions: readonly OpenWorkspace[],
  rejected: ReadonlyMap<string, SyncError>,
  { query }: Installation,
  clock: Clock,
): Promise<(WorkspaceStatus | BrokenWorkspace)[]> {
  const told: (WorkspaceStatus | BrokenWorkspace)[] = [];
  for (const some of piecesOf(partitions, AT_A_TIME)) {
    try {
      const stored = await readStatuses(query, some.map(numberOf), clock.now());
      for (const each of some)
        told.push(each.describe(stored.get(numberOf(each)) as StoredStatus, rejected.get(each.name)));
    } catch {
      told.push(...(await Promise.all(some.map((each) => statusOf(each, rejected.get(each.name))))));
    }
    await nextTurn();
  }
  return told;
}

function numberOf({ store }: OpenWorkspace): number {
  return store.query.workspace;
}

/** Whatever a database says: what is wrong with one workspace hides nothing of the others. */
async function statusOf(
  workspace: OpenWorkspace,
  rejected: SyncError | undefined,
): Promise<WorkspaceStatus | BrokenWorkspace> {
  try {
    return await workspace.status(rejected);
  } catch (error) {
    return brokenOf(workspace.name, asSyncError(error));
  }
}

function brokenOf(name: string, { code, message, hint }: SyncError): BrokenWorkspace {
  return { name, code, message, hint };
}
