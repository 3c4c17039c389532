import { SyncError } from '../errors/sync-error.ts';
import { didYouMean } from '../lib/nearest.ts';

/** The error for an unknown name: lists the known ones, and suggests the nearest. */
export function unknownName(kind: string, name: string, known: readonly string[]): SyncError {
  const choice = known.length === 0 ? 'there are none' : `there are: ${known.join(', ')}`;
  return new SyncError('usage', `there is no ${kind} "${name}"${didYouMean(name, known)}; ${choice}`);
}
