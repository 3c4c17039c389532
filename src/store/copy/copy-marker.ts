import type { Transaction } from 'kysely';
import { SyncError } from '../../model/errors/sync-error.ts';
import { INSTALLATION_ID, UNFINISHED_COPY } from '../installation.ts';
import type { Schema } from '../schema/tables.ts';
import type { Sql } from '../workspace-scope.ts';
import type { CopiedName } from './copied-tables.ts';
import type { RowKey } from './row-portions.ts';

/**
 * How far a copy has come, as the database says into which it goes. It stands there from before the first row until all rows are
 * there and compared; nobody works on the database meanwhile. Each portion of rows moves it in the same commit, so that a copy
 * that was killed goes on after the last row that is there.
 */
export interface CopyMarker {
  /** Id of the installation whose rows these are. */
  readonly from: string;
  /** The last row that was copied: those of the tables before this one are all there. Null: none yet. */
  readonly last: { readonly table: CopiedName; readonly key: RowKey } | null;
  /** It was given up: its rows are being deleted. */
  readonly isGivenUp?: true;
}

export async function readMarker(query: Sql): Promise<CopyMarker | undefined> {
  const row = await query
    .selectFrom('installation')
    .select('value')
    .where('name', '=', UNFINISHED_COPY)
    .executeTakeFirst();
  return row && (JSON.parse(row.value) as CopyMarker);
}

/** The database holds what belongs to another one from now on: its facts first, and with them its id. */
export async function beginCopy(
  transaction: Transaction<Schema>,
  facts: readonly Fact[],
  marker: CopyMarker,
): Promise<void> {
  await transaction.deleteFrom('installation').execute();
  await transaction
    .insertInto('installation')
    .values([...facts, { name: UNFINISHED_COPY, value: JSON.stringify(marker) }])
    .execute();
}

export interface Fact {
  readonly name: string;
  readonly value: string;
}

/** The facts of an installation, in the order of their names; the marker is none. */
export async function factsOf(query: Sql): Promise<readonly Fact[]> {
  return query
    .selectFrom('installation')
    .select(['name', 'value'])
    .where('name', '!=', UNFINISHED_COPY)
    .orderBy('name')
    .execute();
}

/** Throws `not_found` where nothing ever worked on the database. */
export async function idOf(query: Sql, place: string): Promise<string> {
  const id = (await factsOf(query)).find(({ name }) => name === INSTALLATION_ID)?.value;
  if (id !== undefined) return id;
  throw new SyncError('not_found', `${place} holds no data of worksync`, {
    hint: 'Check the address: it must be a database that a daemon has used.',
  });
}

/** Throws `conflict` where another process has moved it since. */
export async function moveMarker(
  transaction: Transaction<Schema>,
  before: CopyMarker,
  next: CopyMarker,
): Promise<void> {
  const { numUpdatedRows } = await transaction
    .updateTable('installation')
    .set({ value: JSON.stringify(next) })
    .where('name', '=', UNFINISHED_COPY)
    .where('value', '=', JSON.stringify(before))
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw anotherCopy();
}

/** The database is nobody's copy any more. Throws `conflict` where another process has moved the marker since. */
export async function removeMarker(transaction: Transaction<Schema>, before: CopyMarker): Promise<void> {
  const { numDeletedRows } = await transaction
    .deleteFrom('installation')
    .where('name', '=', UNFINISHED_COPY)
    .where('value', '=', JSON.stringify(before))
    .executeTakeFirst();
  if (numDeletedRows === 0n) throw anotherCopy();
}

function anotherCopy(): SyncError {
  const hint = 'Let only one "worksync store copy" run, and repeat it when the other one has ended.';
  return new SyncError('conflict', 'another process copies into the same database', { hint });
}
