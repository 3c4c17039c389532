import { SyncError } from '../../model/errors/sync-error.ts';
import { UUID } from './fields.ts';

/** Stands for every tenant, where somebody inspects payloads without a configuration. */
export const ANY_TENANT = '00000000-0000-0000-0000-000000000000';

/**
 * Reads the host of a vendor whose hosts are ids of tenants; without a host, any tenant. Throws `usage`.
 *
 * @param what what people call such an id
 */
export function readTenant(host: string | undefined, what: string): string {
  const id = host?.toLowerCase() ?? ANY_TENANT;
  if (UUID.test(id)) return id;
  throw new SyncError('usage', `the host of these items is the ${what}, which is a UUID`);
}
