import { OWN_LEASES, ownShared, type Sharing } from '../admin/replica-status.ts';
import { OWN_LIST, OWN_STATUS, readOwnList, readOwnStatus, type WholeStatusDeps } from '../admin/whole-status.ts';
import type { Server } from '../platform/http/server.ts';

interface ReplicaRoutesDeps extends WholeStatusDeps {
  readonly sharing: Sharing;
  /** Replaces the values of secrets: stored error texts may hold what others sent. */
  readonly scrub: (text: string) => string;
}

/**
 * What the processes of an installation tell each other, each of itself alone: `GET /replica/status`, `GET /replica/list` and
 * `GET /replica/leases`. Who asks signs it.
 */
export function replicaRoutes(server: Server, deps: ReplicaRoutesDeps): void {
  const door = { config: { door: 'replica' } } as const;
  const tell = async (told: Promise<unknown>) => deps.scrub(JSON.stringify(await told));
  server.get(OWN_STATUS, door, async (_request, reply) => reply.type(JSON_TYPE).send(await tell(readOwnStatus(deps))));
  server.get(OWN_LIST, door, async (_request, reply) => reply.type(JSON_TYPE).send(await tell(readOwnList(deps))));
  server.get(OWN_LEASES, door, () => ({ shared: ownShared(deps.sharing, deps.clock.now()) }));
}

const JSON_TYPE = 'application/json; charset=utf-8';
