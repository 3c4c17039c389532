import type { Capabilities } from '../../connectors/connector.ts';
import { same } from './newest.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The fields of `desired` that `known` holds otherwise. A field without an opinion is never compared. */
export function differingFields(desired: Fields, known: Fields): string[] {
  return Object.keys(desired).filter((field) => !same(normal(field, desired[field]), normal(field, known[field])));
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

/** Fields that are instants (RFC 3339): a server may spell them in its own way. */
const INSTANTS: ReadonlySet<string> = new Set(['createdAt', 'mergedAt']);

/** Servers give an empty text as null, as nothing, or as it is, and lists in their own order: the same to every reader. */
function normal(field: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? null : [...new Set<string>(value)].sort();
  if (typeof value === 'string' && INSTANTS.has(field)) return Date.parse(value);
  return value === undefined || value === '' ? null : value;
}
