import type { Capabilities } from '../connectors/connector.ts';
import { same } from './newest.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The fields of `desired` that `known` holds otherwise. A field without an opinion is never compared. */
function differingFields(desired: Fields, known: Fields): string[] {
  return Object.keys(desired).filter((field) => !same(normal(desired[field]), normal(known[field])));
}

/**
 * Whether a record must be written. A closed request of a provider that cannot reopen is final in the workspace: any
 * update of it is refused there, so none is sent.
 */
export function recordDiffers(desired: Fields, known: Fields | undefined, capabilities: Capabilities): boolean {
  if (known === undefined) return true;
  if (!capabilities.reopensClosed && known['state'] === 'declined') return false;
  return differingFields(desired, known).length > 0;
}

/** Servers give an empty text as null, as nothing, or as it is: the same to everybody who reads it. */
function normal(value: unknown): unknown {
  return value === undefined || value === '' ? null : value;
}
