import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { STORE } from '../harness/daemon.ts';
import { losePlace, ON_POSTGRES } from '../postgres/store-place.ts';

/** Deletes the database of a world, as a lost disk does; for `meanwhile` of a restart. @param data its data folder */
export async function loseDatabase(data: string): Promise<void> {
  if (ON_POSTGRES) return losePlace(join(dirname(data), STORE));
  for (const file of readdirSync(data).filter((name) => name.startsWith('worksync.db'))) rmSync(join(data, file));
}
