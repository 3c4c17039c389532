import type { Server } from '../http/server.ts';
import type { Clock } from '../lib/clock.ts';
import { checkPartition } from './check.ts';
import { pollOnce } from './once.ts';
import type { Partition } from './partition.ts';

/**
 * What commands beside a running daemon ask of it, so that they spend its quota and not their own. The doors let only
 * loopback and the admin token in.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once` one result for each workspace, when it is done.
 */
export function adminRoutes(
  server: Server,
  { partitions, clock }: { partitions: readonly Partition[]; clock: Clock },
): void {
  server.post('/admin/check', async () => (await Promise.all(partitions.map(checkPartition))).flat());
  server.post('/admin/once', () => Promise.all(partitions.map((partition) => pollOnce(partition, clock))));
}
