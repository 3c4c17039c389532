import { SyncError } from '../model/errors/sync-error.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Sql } from './workspace-scope.ts';

/** Names of facts: the id of the installation, and how far a copy into this database has come. */
export const INSTALLATION_ID = 'id';
export const UNFINISHED_COPY = 'copy';

const ID_BYTES = 6;

/** The id of an installation, made at its first start. Throws `copy_unfinished` where only a part of its rows is here. */
export async function readId(query: Sql, random: Random, place: string): Promise<string> {
  const facts = await query
    .selectFrom('installation')
    .select(['name', 'value'])
    .where('name', 'in', [INSTALLATION_ID, UNFINISHED_COPY])
    .execute();
  if (facts.some(({ name }) => name === UNFINISHED_COPY))
    throw new SyncError('copy_unfinished', `${place}: "worksync store copy" has not copied all rows into it yet`);
  const [known] = facts;
  if (known) return known.value;
  const value = random.bytes(ID_BYTES).toString('hex');
  await query
    .insertInto('installation')
    .values({ name: INSTALLATION_ID, value })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
  // Another process may have made it meanwhile.
  const made = query.selectFrom('installation').select('value').where('name', '=', INSTALLATION_ID);
  return (await made.executeTakeFirstOrThrow()).value;
}
