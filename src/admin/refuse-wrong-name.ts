import { SyncError } from '../model/errors/sync-error.ts';
import { name as validName } from '../platform/config/values.ts';

/** Why the configuration would refuse this name; undefined if it would not. */
export function problemOfName(given: string): string | undefined {
  return validName.safeParse(given).error?.issues[0]?.message;
}

/** Throws `usage` where the configuration would refuse what this flag names. */
export function refuseWrongName(flag: string, given: string): void {
  const reason = problemOfName(given);
  if (reason !== undefined) throw new SyncError('usage', `${flag} ${given}: ${reason}`);
}
