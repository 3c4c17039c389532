import { OWN_LEASES, ownShared, type Sharing } from '../admin/replica-status.ts';
import { OWN_LIST, OWN_STATUS, readOwnList, readOwnStatus, type WholeStatusDeps } from '../admin/whole-status.ts';
import type { Server } from '../platform/http/server.ts';

interface ReplicaRoutesDeps extends WholeStatusDeps {
  readonly sharing: Sharing;
  /** Replaces the values of secrets, because stored error texts may contain what others sent. */
  readonly scrub: (text: string) => string;
}

/**
 * The routes by which replicas read each other's own state: `GET /replica/status`, `GET /replica/list` and `GET /replica/leases`.
 * The requests are signed.
 */
export function replicaRoutes(server: Server, deps: ReplicaRoutesDeps): void {
  const door = { config: { door: 'replica' } } as const;
  const scrubbed = async (state: Promise<unknown>) => deps.scrub(JSON.stringify(await state));
  server.get(OWN_STATUS, door, async (_request, reply) =>
    reply.type(JSON_TYPE).send(await scrubbed(readOwnStatus(deps))),
  );
  server.get(OWN_LIST, door, async (_request, reply) => reply.type(JSON_TYPE).send(await scrubbed(readOwnList(deps))));
  server.get(OWN_LEASES, door, () => ({ shared: ownShared(deps.sharing, deps.clock.now()) }));
}

const JSON_TYPE = 'application/json; charset=utf-8';
