import { checkAll, checkWhole, unchecked } from '../admin/check.ts';
import { notPolled, type OnceResult, pollOnce } from '../admin/once.ts';
import { isElsewhere, type OpenWorkspaces } from '../admin/open-workspace.ts';
import { namesOfReplicas } from '../admin/replica-status.ts';
import type { Replicas } from '../cluster/replicas.ts';
import { canAccess } from '../model/caller.ts';
import type { Server, ServerRequest } from '../platform/http/server.ts';
import type { ServerClocks } from '../platform/http/server-clocks.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Installation } from '../store/installation/installation.ts';
import { callerOf, isPassedOn } from './access-control.ts';
import { bodyOf, nothing, patienceOf } from './admin-bodies.ts';
import { queryReplicas } from './forward-request.ts';

export interface AllWorkspacesOptions {
  readonly workspaces: OpenWorkspaces;
  readonly installation: Installation;
  readonly clock: Clock;
  readonly version: string;
  readonly serverClocks: ServerClocks;
  /** The other processes over the same database; absent: there are none. */
  readonly replicas?: Replicas | undefined;
}

/** Milliseconds that another process may take to check, and to poll in addition to the caller's wait for the quota. */
const LONGEST_CHECK = 120_000;
const LONGEST_POLL = 60_000;

/** The requests of commands about all workspaces of the caller: each process answers for its own. */
export function allWorkspacesRoutes(server: Server, options: AllWorkspacesOptions): void {
  const { workspaces, installation, clock, version, serverClocks } = options;
  const reached = (request: ServerRequest) =>
    workspaces.partitions().filter(({ name }) => canAccess(callerOf(request), name));
  const elsewhere = async <Answer>(request: ServerRequest, patience: number) =>
    options.replicas && !isPassedOn(request)
      ? queryReplicas<Answer>(request, callerOf(request), { replicas: options.replicas, patience })
      : [];
  const silentAbout = (results: readonly OnceResult[], request: ServerRequest) =>
    [...workspaces.broken().keys()]
      .filter((name) => isElsewhere(workspaces, name) && canAccess(callerOf(request), name))
      .filter((name) => results.every(({ workspace }) => workspace !== name))
      .map((name) => notPolled(name));
  server.post('/admin/check', { config: { filters: true } }, async (request) => {
    bodyOf(request, nothing);
    // Another process checks the workspaces that it owns.
    const broken = [...workspaces.broken()].filter(([name]) => !isElsewhere(workspaces, name));
    const lost = [...broken, ...workspaces.rejected()].filter(([name]) => canAccess(callerOf(request), name));
    const checked = { partitions: reached(request), wrong: new Map(lost), clock };
    // Callers with some workspaces only must not see servers and files of the whole process.
    const isLimited = callerOf(request).workspaces !== null || isPassedOn(request);
    const [own, others] = await Promise.all([
      isLimited ? checkAll(checked) : checkWhole({ ...checked, version, installation, serverClocks }),
      elsewhere<Awaited<ReturnType<typeof checkAll>>>(request, LONGEST_CHECK),
    ]);
    const names = namesOfReplicas(others.map(({ replica }) => replica));
    const findings = others.map(({ replica, answer }) => answer ?? [unchecked(names.get(replica.id) ?? replica.host)]);
    return [...own, ...findings.flat()];
  });
  server.post('/admin/once', { config: { filters: true } }, async (request) => {
    bodyOf(request, nothing);
    const patience = patienceOf(request);
    const [own, others] = await Promise.all([
      Promise.all(reached(request).map((partition) => pollOnce(partition, clock, patience))),
      elsewhere<OnceResult[]>(request, patience + LONGEST_POLL),
    ]);
    const results = [...own, ...others.flatMap(({ answer }) => answer ?? [])];
    return isPassedOn(request) ? results : [...results, ...silentAbout(results, request)];
  });
}
