import type { LeaseHolder, OwnershipAge, Peer } from '../../cluster/lease-holder.ts';
import type { PeerAnswer, Replicas } from '../../cluster/replicas.ts';
import { PROTOCOL, SCHEMA } from '../../model/build.ts';
import { asSyncError, type SyncError } from '../../model/errors.ts';
import type { ServerClocks } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { chunksOf, yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import { counted } from '../../platform/lib/quantities.ts';
import type { Health } from '../../platform/observe/health.ts';
import type { Metrics } from '../../platform/observe/metrics.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StatusDepth, StoredStatus } from '../../store/status/status-shape.ts';
import { readStatuses } from '../../store/status/stored-status.ts';
import type { EffectiveValue } from '../installation/effective-config.ts';
import type { OpenWorkspace, OpenWorkspaces } from '../open-workspace.ts';
import {
  type BrokenWorkspace,
  type Cause,
  completeStatus,
  type ListedWorkspace,
  type ProcessStatus,
  type ReplicaStatus,
  type SharedStatus,
  type Status,
  type Verdict,
  verdictOf,
  type WorkspaceStatus,
} from './status.ts';
import { joinNames } from './verdict.ts';

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
const OWN_STATUS = '/replica/status';
const OWN_LIST = '/replica/list';
const OWN_LEASES = '/replica/leases';

/** The handlers of the routes by which replicas read each other's state. */
export const REPLICA_PARTS: Readonly<Record<string, (daemon: ServedDaemon) => Promise<unknown>>> = {
  [OWN_STATUS]: readOwnStatus,
  [OWN_LIST]: readOwnList,
  [OWN_LEASES]: async ({ sharing, clock }) => ({ shared: sharing && ownShared(sharing, clock.now()) }),
};

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
async function readOwnList(daemon: ServedDaemon) {
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

  for (const some of chunksOf(workspaces.partitions(), AT_A_TIME)) {
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

/** How this process shares its workspaces with others. */
export interface Sharing {
  readonly holder: LeaseHolder;
  readonly replicas: Replicas;
}

/** Returns the name of each replica by its id: its host, with its address if others have the same host. */
export function namesOfReplicas(all: readonly Pick<Peer, 'id' | 'host' | 'address'>[]): ReadonlyMap<string, string> {
  const byHost = Map.groupBy(all, ({ host }) => host);
  return new Map(
    all.map(({ id, host, address }) => [id, byHost.get(host)?.length === 1 ? host : `${host}, ${address}`]),
  );
}

/** Returns the state that this process knows without a request. */
function ownShared({ holder }: Sharing, now: number): SharedStatus {
  const seen = holder.replicas();
  const own = seen.find(({ isOwn }) => isOwn);
  const replicas = seen.map(({ id, address, host, version, startedAt, isOwn, config }) => ({
    id,
    address,
    host,
    version,
    startedAt,
    isOwn,
    sameConfig: config === own?.config,
    holds: isOwn ? holder.owned() : null,
  }));
  return { replicas, causes: [...unownedCauses(holder.unowned(), now), ...differing(replicas)] };
}

/** Adds the answers of the other replicas about themselves. */
function withAnswers(
  { replicas, causes }: SharedStatus,
  answers: readonly PeerAnswer<Partial<Status>>[],
): SharedStatus {
  const owned = new Map(
    answers.map(({ replica, answer }) => [
      replica.id,
      answer?.shared?.replicas.find(({ isOwn }) => isOwn)?.holds ?? null,
    ]),
  );
  const names = namesOfReplicas(replicas);
  const troubles = answers.flatMap(({ replica, answer }) =>
    answer === undefined ? [] : troubleAt(names.get(replica.id) ?? replica.host, answer),
  );
  const silent = answers
    .filter(({ answer }) => answer === undefined)
    .map(({ replica, failure }) => {
      const name = names.get(replica.id) ?? replica.host;
      return failure === undefined ? name : `${name}: ${failure}`;
    });
  return {
    replicas: replicas.map((each) => (each.isOwn ? each : { ...each, holds: owned.get(each.id) ?? null })),
    causes: [...causes, ...troubles, ...silence(silent)],
  };
}

/** Requests from all live replicas which workspaces they own. */
export async function readShared(sharing: Sharing, clock: Pick<Clock, 'now'>): Promise<SharedStatus> {
  const answers = await sharing.replicas.requestAll<{ shared: SharedStatus }>(OWN_LEASES);
  return withAnswers(ownShared(sharing, clock.now()), answers);
}

/** A cause that `worksync status` shows. It degrades unless it says otherwise. */
function causeOf(cause: Omit<Cause, keyof typeof ABOUT | 'verdict'> & Partial<Cause>): Cause {
  const { code, verdict = 'degraded', count, ...rest } = cause;
  return { ...ABOUT, code, verdict, count, ...rest };
}

const ABOUT = { command: 'worksync status', seenAt: null, since: null } as const;

function unownedCauses(all: readonly OwnershipAge[], now: number): Cause[] {
  if (all.length === 0) return [];
  const names = joinNames(all.map(({ workspace }) => workspace));
  return [
    causeOf({
      code: 'lease_unheld',
      verdict: 'blocked',
      count: all.length,
      seenAt: now,
      since: now - Math.max(...all.map(({ since }) => since)),
      message: `no replica works on ${counted(all.length, 'workspace')} (${names})`,
      stops: 'Webhooks for them are stored. Nothing else happens to them.',
      hint: 'See in the logs of the replicas why none takes them. Each replica must have the same configuration.',
    }),
  ];
}

function differing(replicas: readonly ReplicaStatus[]): Cause[] {
  const names = namesOfReplicas(replicas);
  const others = replicas.filter(({ sameConfig }) => !sameConfig).map(({ id, host }) => names.get(id) ?? host);
  const versions = new Set(replicas.map(({ version }) => version));
  const causes: Cause[] = [];
  if (others.length > 0)
    causes.push(
      causeOf({
        code: 'replica_configs_differ',
        count: others.length,
        message: `${counted(others.length, 'replica')} with another configuration than this one (${joinNames(others)})`,
        stops: 'Which configuration counts for a workspace depends on the replica that works on it.',
        hint: 'Give all replicas the same configuration files and the same values of variables.',
      }),
    );
  if (versions.size > 1)
    causes.push(
      causeOf({
        code: 'replica_versions_differ',
        count: versions.size,
        message: `the replicas run ${counted(versions.size, 'version')} (${joinNames([...versions].sort())})`,
        stops: 'Nothing stops. What only the newer version does happens for some workspaces only.',
        hint: 'Finish the upgrade: one version at a time beside another one is meant for that only.',
      }),
    );
  return causes;
}

/** Returns the faults of another replica as a whole. */
function troubleAt(name: string, { ready = true, components = {}, configFault = null }: Partial<Status>): Cause[] {
  const causes: Cause[] = [];
  const failing = Object.entries(components).filter(([, reason]) => reason !== 'ok');
  if (!ready)
    causes.push(
      causeOf({
        code: 'replica_not_ready',
        count: 1,
        message: `replica ${name} is not ready (${failing.map((each) => each.join(': ')).join(', ') || 'starting'})`,
        stops: 'It refuses webhooks, which their senders repeat. The other replicas accept them.',
        hint: 'Read the log of that replica.',
      }),
    );
  if (configFault)
    causes.push(
      causeOf({
        code: configFault.code,
        count: 1,
        hint: configFault.hint,
        message: `replica ${name} could not reload its configuration: ${configFault.message}`,
        stops: 'Nothing stops. That replica goes on with its last valid configuration.',
      }),
    );
  return causes;
}

function silence(silent: readonly string[]): Cause[] {
  if (silent.length === 0) return [];
  return [
    causeOf({
      code: 'replica_silent',
      count: silent.length,
      message: `${counted(silent.length, 'replica')} did not answer (${joinNames(silent, '; ')})`,
      stops: 'Nobody knows here how its workspaces are. Commands and pages for them wait until it answers.',
      hint: 'Replicas ask each other at the address that --replica-address gives, at the port of the pages too: open it between them.',
    }),
  ];
}
