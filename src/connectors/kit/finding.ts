import type { SyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';

/** What a failed look becomes in `check`. One that was told to stop is no finding: it is thrown. */
export function failed(subject: string, error: SyncError): Finding {
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
}

/**
 * What has another name than the configuration says, and is followed by the id that its name is bound to.
 *
 * @param present what it is called now
 * @param write what to write in place of the name
 */
export function renamed(subject: string, present: string, write = present): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${present} now; worksync follows it by its id`,
    hint: `Write ${write} in the configuration.`,
  };
}
