import type { SyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';

/** What a failed look becomes in `check`. One that was told to stop is no finding: it is thrown. */
export function failed(subject: string, error: SyncError): Finding {
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
}
