import { SyncError } from '../../errors/sync-error.ts';
import { UUID } from './fields.ts';

/** Stands for every tenant, where payloads are looked at without a configuration. */
export const ANY_TENANT = '00000000-0000-0000-0000-000000000000';

/**
 * The host of a vendor that knows its tenants by ids, as somebody typed it; any of them where nobody did. Throws `usage`.
 *
 * @param what what people call that id
 */
export function readTenant(host: string | undefined, what: string): string {
  const id = host?.toLowerCase() ?? ANY_TENANT;
  if (UUID.test(id)) return id;
  throw new SyncError('usage', `the host of these items is the ${what}, which is a UUID`);
}
