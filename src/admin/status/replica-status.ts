import type { LeaseHolder, OwnershipAge } from '../../cluster/lease-holder.ts';
import type { Peer } from '../../cluster/peers.ts';
import type { PeerAnswer, Replicas } from '../../cluster/replicas.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { counted } from '../../platform/lib/quantities.ts';
import type { Cause, ReplicaStatus, SharedStatus, Status } from './status.ts';
import { joinNames } from './verdict.ts';

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
export function ownShared({ holder }: Sharing, now: number): SharedStatus {
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
  return { replicas, causes: [...unheld(holder.unowned(), now), ...differing(replicas)] };
}

/** Adds the answers of the other replicas about themselves. */
export function withAnswers(
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

/** The route by which replicas request each other's leases. */
export const OWN_LEASES = '/replica/leases';

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

function unheld(all: readonly OwnershipAge[], now: number): Cause[] {
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
