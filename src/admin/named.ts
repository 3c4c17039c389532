import { SyncError } from '../model/errors.ts';
import { didYouMean } from '../platform/lib/text.ts';
import type { ActiveConnection } from '../sync/workspace-context.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** The connection that was named. Throws `usage` where there is none. */
export function connectionNamed({ connections }: OpenWorkspace, wanted: string): ActiveConnection {
  const found = connections.find(({ name }) => name === wanted);
  if (found) return found;
  const names = connections.map(({ name }) => name);
  throw unknownName('connection', wanted, names);
}

/** The error for an unknown name: lists the known ones, and suggests the nearest. */
export function unknownName(kind: string, name: string, known: readonly string[]): SyncError {
  const choice = known.length === 0 ? 'there are none' : `there are: ${known.join(', ')}`;
  return new SyncError('usage', `there is no ${kind} "${name}"${didYouMean(name, known)}; ${choice}`);
}
