import { connectionNamed } from './named.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** Milliseconds that a vendor may take over all names of a connection. */
const LONGEST = 60_000;

/** The new target of a name in the configuration. */
export interface Rebound {
  readonly name: string;
  readonly id: string;
  /** Its name at the vendor. */
  readonly called: string;
}

/**
 * Binds the names of a connection to their present targets, and reads the new targets from the start. Throws the vendor's error
 * if it cannot be reached.
 */
export async function rebindNames(
  partition: OpenWorkspace,
  { connection: wanted }: { readonly connection: string },
): Promise<readonly Rebound[]> {
  const active = connectionNamed(partition, wanted);
  const bound = (await active.names?.rebind(active.connection, AbortSignal.timeout(LONGEST))) ?? [];
  return bound.map(({ entry, id, called }) => ({ name: entry, id, called }));
}
