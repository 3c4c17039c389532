import { sql, type Transaction } from 'kysely';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { dialectOf } from '../../platform/database/dialect.ts';
import type { Schema } from '../schema/tables.ts';
import type { Sql } from '../workspace-scope.ts';
import { COPIED_TABLES, type CopiedName, type CopiedTable } from './copied-tables.ts';
import { beginCopy, type CopyMarker, factsOf, idOf, moveMarker, readMarker, removeMarker } from './copy-marker.ts';
import { emptyTables, firstWithRows } from './empty-tables.ts';
import { continueNumbers, lastNumbers } from './identity-numbers.ts';
import { digestOf, digestOfRest, type RowDigest } from './row-digest.ts';
import { keyOfRow, portionsOf, type StoredRow } from './row-portions.ts';

type StoreDatabase = Pick<Database<Schema>, 'file' | 'query' | 'commit' | 'commitRelaxed'>;

export interface StoreCopy {
  readonly source: StoreDatabase;
  readonly target: StoreDatabase;
  /** Changes a row before it is written. */
  readonly carry: (table: CopiedName, row: StoredRow) => StoredRow;
  /** In the commit that makes the copy a database of its own. @param rows how many there are */
  readonly done: (transaction: Transaction<Schema>, rows: number) => Promise<void>;
  readonly tell: (progress: CopyProgress) => void;
}

export interface CopyProgress {
  readonly step: 'copied' | 'compared';
  readonly table: CopiedName;
  /** So far, of this table and in this run. */
  readonly rows: number;
}

export interface CopiedRows extends RowDigest {
  readonly table: CopiedName;
}

/**
 * Copies all rows of a database into an empty one, and compares both. Nobody else works on either meanwhile. Killed at any
 * point, the next call goes on. What triggers and generated columns make follows from the rows.
 *
 * Throws `conflict` where the target has rows of its own, or those of another copy, and where the two differ in the end.
 */
export async function copyStore(copy: StoreCopy): Promise<readonly CopiedRows[]> {
  const { source, target } = copy;
  let marker = await begin(copy);
  const first = COPIED_TABLES.findIndex(({ name }) => name === marker.last?.table);
  for (const table of COPIED_TABLES.slice(Math.max(0, first))) marker = await copyTable(copy, table, marker);
  const compared = await compare(copy);
  const rows = compared.reduce((sum, each) => sum + each.rows, 0);
  const last = await lastNumbers(source.query);
  await target.commit(async (transaction) => {
    await removeMarker(transaction, marker);
    await continueNumbers(transaction, last);
    await countRows(transaction);
    await copy.done(transaction, rows);
  });
  return compared;
}

/** Analyses the tables, because PostgreSQL would start without statistics. SQLite has fixed ones; see `statistics.ts`. */
async function countRows(target: Sql): Promise<void> {
  if (dialectOf(target) === 'sqlite') return;
  const tables = [...COPIED_TABLES.map(({ name }) => name), 'counts'].map((name) => sql.table(name));
  await sql`analyze ${sql.join(tables)}`.execute(target);
}

/** Reads both databases as a whole. Throws `conflict` where they differ. */
async function compare({ source, target, carry, tell }: StoreCopy): Promise<readonly CopiedRows[]> {
  const found: CopiedRows[] = [];
  const differing: string[] = [];
  for (const table of COPIED_TABLES) {
    const [wanted, present] = await Promise.all([
      digestOf(source.query, table, (row) => fitting(target.query, carry(table.name, row))),
      digestOf(target.query, table),
    ]);
    if (!isSame(wanted, present)) differing.push(table.name);
    found.push({ table: table.name, ...present });
    tell({ step: 'compared', table: table.name, rows: present.rows });
  }
  if (!isSame(await digestOfRest(source.query), await digestOfRest(target.query))) differing.push('counts and facts');
  if (differing.length > 0) throw differs(source.file, target.file, differing);
  return found;
}

function isSame(one: RowDigest, other: RowDigest): boolean {
  return one.rows === other.rows && one.sha256 === other.sha256;
}

/** Where an earlier call stopped, or the beginning. */
async function begin({ source, target }: StoreCopy): Promise<CopyMarker> {
  if (await readMarker(source.query))
    throw new SyncError('copy_unfinished', `${source.file}: "worksync store copy" has not copied all rows into it yet`);
  const from = await idOf(source.query, source.file);
  const known = await readMarker(target.query);
  if (known) return goOn(known, from, target.file);
  const marker: CopyMarker = { from, last: null };
  const facts = await factsOf(source.query);
  await target.commit(async (transaction) => {
    const full = await firstWithRows(transaction);
    if (full !== undefined) throw notEmpty(target.file, full);
    await beginCopy(transaction, facts, marker);
  });
  return marker;
}

function goOn(known: CopyMarker, from: string, place: string): CopyMarker {
  if (known.isGivenUp)
    throw new SyncError('conflict', `${place}: an earlier copy was given up, and some of its rows are still there`, {
      hint: 'Repeat the command with --give-up: it deletes the rest.',
    });
  if (known.from === from) return known;
  throw new SyncError('conflict', `${place} holds an unfinished copy of another database`, {
    hint: 'Finish that copy, or repeat the command with --give-up to delete its rows.',
  });
}

function notEmpty(place: string, table: string): SyncError {
  return new SyncError('conflict', `${place} has rows of its own (${table})`, {
    hint: 'Copy into an empty data folder, or into another schema: ?schema=<name> at the end of the address.',
  });
}

function differs(from: string, to: string, tables: readonly string[]): SyncError {
  return new SyncError('conflict', `${from} and ${to} differ in ${tables.join(', ')}`, {
    hint: 'Somebody worked on one of them meanwhile. Stop every worksync there, repeat the command with --give-up, and copy again.',
  });
}

async function copyTable(
  { source, target, carry, tell }: StoreCopy,
  table: CopiedTable,
  begun: CopyMarker,
): Promise<CopyMarker> {
  let marker = begun;
  let copied = 0;
  const after = marker.last?.table === table.name ? marker.last.key : undefined;
  for await (const rows of portionsOf(source.query, table, after)) {
    const key = keyOfRow(table, rows.at(-1) as StoredRow);
    const next: CopyMarker = { from: marker.from, last: { table: table.name, key } };
    const before = marker;
    const carried = rows.map((row) => fitting(target.query, carry(table.name, row)));
    // A power failure takes back rows and marker together.
    await target.commitRelaxed(async (transaction) => {
      await moveMarker(transaction, before, next);
      await insert(transaction, table, carried);
    });
    marker = next;
    copied += rows.length;
    tell({ step: 'copied', table: table.name, rows: copied });
  }
  return marker;
}

/** Kysely cannot type a statement on a table that is a parameter. */
async function insert(transaction: Transaction<Schema>, { name }: CopiedTable, rows: readonly StoredRow[]) {
  await transaction
    .insertInto(name as 'meta')
    .values(rows as never)
    .execute();
}

const NONE = '\0';
const REPLACED = '\u{FFFD}';

/** PostgreSQL holds no text with this character, which SQLite does. */
function fitting(target: Sql, row: StoredRow): StoredRow {
  if (dialectOf(target) === 'sqlite') return row;
  const cells = Object.entries(row);
  if (!cells.some(([, value]) => typeof value === 'string' && value.includes(NONE))) return row;
  const replaced = cells.map(([column, value]) => [
    column,
    typeof value === 'string' ? value.replaceAll(NONE, REPLACED) : value,
  ]);
  return Object.fromEntries(replaced) as StoredRow;
}

/**
 * Deletes what an unfinished copy left, so that the database is empty again. Throws `conflict` where there is no such copy:
 * rows that are all there are somebody's.
 *
 * @returns how many rows there were
 */
export async function giveUpCopy(target: StoreDatabase): Promise<number> {
  const marker = await readMarker(target.query);
  if (!marker) throw new SyncError('conflict', `${target.file} holds no unfinished copy, so nothing was deleted`);
  const givenUp: CopyMarker = { ...marker, isGivenUp: true };
  await target.commit((transaction) => moveMarker(transaction, marker, givenUp));
  const rows = await emptyTables(target);
  await target.commit(async (transaction) => {
    await removeMarker(transaction, givenUp);
    await transaction.deleteFrom('installation').execute();
  });
  return rows;
}
