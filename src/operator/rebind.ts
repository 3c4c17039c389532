import type { Partition } from '../daemon/partition.ts';
import { unknownName } from './unknown-name.ts';

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
  { connections }: Partition,
  { connection: wanted }: { readonly connection: string },
): Promise<readonly Rebound[]> {
  const active = connections.find(({ name }) => name === wanted);
  if (!active) {
    const known = connections.map(({ name }) => name);
    throw unknownName('connection', wanted, known);
  }
  const bound = (await active.names?.rebind(active.connection, AbortSignal.timeout(LONGEST))) ?? [];
  return bound.map(({ entry, id, called }) => ({ name: entry, id, called }));
}
