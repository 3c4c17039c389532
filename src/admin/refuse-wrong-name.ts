import { SyncError } from '../model/errors/sync-error.ts';
import { name as validName } from '../platform/config/values.ts';

/** Throws `usage` where the configuration would refuse what this flag names. */
export function refuseWrongName(flag: string, given: string): void {
  const reason = validName.safeParse(given).error?.issues[0]?.message;
  if (reason !== undefined) throw new SyncError('usage', `${flag} ${given}: ${reason}`);
}
