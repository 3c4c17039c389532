import type { ErrorCode } from '../../model/errors/codes.ts';
import type { SyncError } from '../../model/errors/sync-error.ts';

/** Failures of a credential, of a limit, and of this machine. All other failures concern the unit that was asked for. */
const OF_EVERY_UNIT: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'unauthorized',
  'consent_needed',
  'secret_key_missing',
  'secret_key_wrong',
  'disk_full',
  'data_folder_unusable',
  'held_elsewhere',
]);

/**
 * Whether a request for any other unit of the connection would fail in the same way. A vendor refuses single repositories and
 * projects for reasons of their own, such as SAML or a list of allowed addresses: `forbidden` says nothing of the others.
 */
export function meetsEveryUnit({ code }: Pick<SyncError, 'code'>): boolean {
  return OF_EVERY_UNIT.has(code);
}
