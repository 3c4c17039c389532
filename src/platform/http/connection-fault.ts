import { SyncError } from '../../model/errors/sync-error.ts';

/** No connection came about, so nothing was sent. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
]);

/**
 * Why a request to a daemon on this machine got no answer: `unreachable` only where it was not sent, `not_answering` where
 * its time was over.
 */
export function connectionFault(request: string, thrown: unknown, { aborted }: AbortSignal): SyncError {
  if (thrown instanceof SyncError) return thrown;
  if (aborted) return new SyncError('not_answering', `${request} got no answer in time`, { cause: thrown });
  const { code, message } = thrown as NodeJS.ErrnoException;
  if (NOT_SENT.has(code)) return new SyncError('unreachable', `${request}: ${message}`, { cause: thrown });
  return new SyncError('outcome_unknown', `${request} got no answer: ${message}`, { cause: thrown });
}
