import { SyncError } from '../model/errors/sync-error.ts';
import { parseDuration } from '../platform/lib/quantities.ts';

/** Returns the time of `--since` in RFC 3339. Throws `usage`. */
export function sinceOf(text: string, now: number): string {
  const duration = parseDuration(text);
  const isDate = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const time = duration === undefined ? Date.parse(isDate ? text : '') : now - duration;
  if (Number.isNaN(time))
    throw new SyncError('usage', `--since ${text}: expected a date, a time with its zone, or 30d`);
  if (time > now) throw new SyncError('usage', `--since ${text}: this is in the future`);
  return new Date(time).toISOString();
}
