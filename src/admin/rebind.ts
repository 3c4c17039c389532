import { connectionNamed } from './named.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** Milliseconds that a vendor may take over all names of a connection. */
const LONGEST = 60_000;

/** What a name of the configuration means from now on. */
export interface Rebound {
  readonly name: string;
  readonly id: string;
  /** What it is called at the vendor. */
  readonly called: string;
}

/**
 * Binds the names of a connection to what they lead to now, and reads the new targets from the start. Throws what the vendor
 * says where it cannot be asked.
 */
export async function rebindNames(
  partition: OpenWorkspace,
  { connection: wanted }: { readonly connection: string },
): Promise<readonly Rebound[]> {
  const active = connectionNamed(partition, wanted);
  const bound = (await active.names?.rebind(active.connection, AbortSignal.timeout(LONGEST))) ?? [];
  return bound.map(({ entry, id, called }) => ({ name: entry, id, called }));
}
