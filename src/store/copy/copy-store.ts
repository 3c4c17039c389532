import { createHash, hash } from 'node:crypto';
import { sql, type Transaction } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import { dialectOf, keyOf } from '../../platform/database/database-schema.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { INSTALLATION_ID, UNFINISHED_COPY } from '../installation/installation.ts';
import { ALL_TABLES, type Schema } from '../schema/tables.ts';
import { changedRows, type Sql } from '../workspace-scope.ts';

/**
 * Tables whose rows are not copied. `beginCopy` copies the facts of the installation as a whole, leases and replicas belong to
 * processes that have ended, and triggers derive the counts.
 */
const LEFT = ['installation', 'replicas', 'leases', 'counts'] as const satisfies readonly (keyof Schema)[];

export type CopiedName = Exclude<keyof Schema, (typeof LEFT)[number]>;

/** A table whose rows go from one database to another. */
export interface CopiedTable {
  readonly name: CopiedName;
  /** The columns of its primary key, in their order. */
  readonly key: readonly string[];
}

/** The order in which tables are copied. */
export const COPIED_TABLES: readonly CopiedTable[] = Object.entries(ALL_TABLES)
  .filter(([name]) => !LEFT.some((left) => left === name))
  .map(([name, table]) => ({ name: name as CopiedName, key: keyOf(table) }));

/** Tables whose rows the database numbers. It never gives a number twice, even if the row was deleted. */
const NUMBERED: readonly string[] = Object.entries(ALL_TABLES)
  .filter(([, { columns }]) => Object.values(columns).some(({ isNumbered }) => isNumbered))
  .map(([name]) => name);

/** A row without its generated columns. */
export type StoredRow = Readonly<Record<string, string | number | Buffer | null>>;

/** The values of the key of a row, in the order of its columns. */
type RowKey = readonly (string | number)[];

function keyOfRow({ key }: CopiedTable, row: StoredRow): RowKey {
  return key.map((column) => row[column] as string | number);
}

/** Limits of one chunk: some tens of milliseconds, and little memory. */
const MOST_ROWS = 250;
const MOST_BYTES = 8 * 1024 * 1024;

/** Reads the rows of a table by chunks, in the order of its key, which both databases sort alike. */
async function* readChunks(query: Sql, table: CopiedTable, from?: RowKey): AsyncGenerator<readonly StoredRow[]> {
  const columns = await columnsOf(query, table);
  let after = from;
  for (;;) {
    const rows = await readChunk(query, table, columns, after);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = keyOfRow(table, last);
  }
}

async function readChunk(
  query: Sql,
  table: CopiedTable,
  columns: readonly string[],
  after: RowKey | undefined,
): Promise<readonly StoredRow[]> {
  const limit = table.name === 'inbox' ? await fittingDeliveries(query, table, after) : MOST_ROWS;
  const { rows } = await sql<StoredRow>`select ${sql.join(columns.map((column) => sql.ref(column)))}
    from ${sql.table(table.name)} ${following(table, after)} limit ${sql.lit(limit)}`.execute(query);
  return rows;
}

/** Returns how many of the next deliveries have bodies that fit into memory together. */
async function fittingDeliveries(query: Sql, table: CopiedTable, after: RowKey | undefined): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`select coalesce(length(body), 0) as bytes
    from ${sql.table(table.name)} ${following(table, after)} limit ${sql.lit(MOST_ROWS)}`.execute(query);
  let bytes = 0;
  let fitting = 0;
  for (const row of rows) {
    bytes += row.bytes;
    if (bytes > MOST_BYTES) break;
    fitting += 1;
  }
  // A larger one is read alone.
  return Math.max(1, fitting);
}

function following({ key }: CopiedTable, after: RowKey | undefined) {
  const columns = sql.join(key.map((column) => sql.ref(column)));
  return after === undefined
    ? sql`order by ${columns}`
    : sql`where (${columns}) > (${sql.join(after)}) order by ${columns}`;
}

/** Returns the columns of a table without generated ones, by name, because their order may differ between databases. */
async function columnsOf(query: Sql, { name }: CopiedTable): Promise<readonly string[]> {
  const found =
    dialectOf(query) === 'sqlite'
      ? sql<{ name: string }>`select name from pragma_table_info(${name})`
      : sql<{ name: string }>`select column_name as name from information_schema.columns
          where table_schema = current_schema() and table_name = ${name} and is_generated = 'NEVER'`;
  const { rows } = await found.execute(query);
  return rows.map((row) => row.name).sort();
}

type StoreDatabase = Pick<Database<Schema>, 'file' | 'query' | 'commit' | 'commitRelaxed'>;

export interface StoreCopy {
  readonly source: StoreDatabase;
  readonly target: StoreDatabase;
  /** Changes a row before it is written. */
  readonly carry: (table: CopiedName, row: StoredRow) => StoredRow;
  /** Runs in the commit that makes the copy a database of its own. @param rows their number */
  readonly done: (transaction: Transaction<Schema>, rows: number) => Promise<void>;
  readonly tell: (progress: CopyProgress) => void;
}

export interface CopyProgress {
  readonly step: 'copied' | 'compared';
  readonly table: CopiedName;
  /** Number of rows of this table so far in this run. */
  readonly rows: number;
}

interface CopiedRows extends RowDigest {
  readonly table: CopiedName;
}

/**
 * Copies all rows of a database into an empty one, and compares both. No other process uses either database. After a kill at any
 * point, the next call continues. Triggers and generated columns derive the rest from the rows.
 *
 * Throws `conflict` if the target has rows of its own or of another copy, or if the two differ in the end.
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

/** Analyses the tables, because PostgreSQL would start without statistics. SQLite has fixed ones; see `database-schema.ts`. */
async function countRows(target: Sql): Promise<void> {
  if (dialectOf(target) === 'sqlite') return;
  const tables = [...COPIED_TABLES.map(({ name }) => name), 'counts'].map((name) => sql.table(name));
  await sql`analyze ${sql.join(tables)}`.execute(target);
}

/** Reads both databases as a whole. Throws `conflict` if they differ. */
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

/** Returns the place where an earlier call stopped, or the beginning. */
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
  for await (const rows of readChunks(source.query, table, after)) {
    const key = keyOfRow(table, rows.at(-1) as StoredRow);
    const next: CopyMarker = { from: marker.from, last: { table: table.name, key } };
    const before = marker;
    const carried = rows.map((row) => fitting(target.query, carry(table.name, row)));
    // A power failure undoes rows and marker together.
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

/** Replaces the character that SQLite stores and PostgreSQL refuses. */
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
 * Deletes the rows of an unfinished copy, so that the database is empty again. Throws `conflict` if there is no such copy, because
 * complete rows may be in use.
 *
 * @returns the number of deleted rows
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

/** Returns the first table that has rows. */
async function firstWithRows(query: Sql): Promise<string | undefined> {
  for (const { name } of COPIED_TABLES) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(query);
    if (rows.length > 0) return name;
  }
  return undefined;
}

/** Rows of one statement. */
const AT_ONCE = 500;

/** Deletes all rows in small pieces. After a kill, the next call continues. @returns the number of deleted rows */
async function emptyTables({ commitRelaxed }: Pick<Database<Schema>, 'commitRelaxed'>): Promise<number> {
  let rows = 0;
  for (const table of COPIED_TABLES) {
    for (let deleted = 1; deleted > 0; rows += deleted)
      deleted = await commitRelaxed((transaction) => deleteSome(transaction, table));
  }
  await commitRelaxed((transaction) => transaction.deleteFrom('counts').execute());
  return rows;
}

async function deleteSome(query: Sql, { name, key }: CopiedTable): Promise<number> {
  const columns = sql.join(key.map((column) => sql.ref(column)));
  const { numAffectedRows = 0n } = await sql`delete from ${sql.table(name)} where (${columns}) in
    (select ${columns} from ${sql.table(name)} order by ${columns} limit ${sql.lit(AT_ONCE)})`.execute(query);
  return Number(numAffectedRows);
}

/** The highest number that each table has given a row; 0: none. */
type LastNumbers = Readonly<Record<string, number>>;

async function lastNumbers(query: Sql): Promise<LastNumbers> {
  const found = await Promise.all(NUMBERED.map(async (table) => [table, await lastNumber(query, table)] as const));
  return Object.fromEntries(found);
}

async function lastNumber(query: Sql, table: string): Promise<number> {
  const given =
    dialectOf(query) === 'sqlite'
      ? sql`coalesce((select seq from sqlite_sequence where name = ${table}), 0)`
      : sql`coalesce(pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass), 0)`;
  const { rows } = await sql<{ given: number; highest: number }>`
    select ${given} as given, coalesce((select max(id) from ${sql.table(table)}), 0) as highest`.execute(query);
  return Math.max(rows[0]?.given ?? 0, rows[0]?.highest ?? 0);
}

/** Has the database number the next rows from there. */
async function continueNumbers(query: Sql, last: LastNumbers): Promise<void> {
  for (const table of NUMBERED) {
    const number = last[table];
    // Nothing was ever numbered.
    if (!number) continue;
    if (dialectOf(query) === 'postgres') {
      await sql`select setval(pg_get_serial_sequence(${table}, 'id'), ${number})`.execute(query);
      continue;
    }
    await sql`delete from sqlite_sequence where name = ${table}`.execute(query);
    await sql`insert into sqlite_sequence (name, seq) values (${table}, ${number})`.execute(query);
  }
}

/** A digest of the rows of a database: two databases with the same rows have the same digest. */
interface RowDigest {
  readonly rows: number;
  /** SHA-256 of all rows in the order of their keys, in hex. */
  readonly sha256: string;
}

/** @param carry changes a row as the copy does */
async function digestOf(
  query: Sql,
  table: CopiedTable,
  carry: (row: StoredRow) => StoredRow = (row) => row,
): Promise<RowDigest> {
  const all = createHash('sha256');
  let rows = 0;
  for await (const chunk of readChunks(query, table)) {
    for (const row of chunk) all.update(`${JSON.stringify(Object.entries(carry(row)).sort(byName).map(canonical))}\n`);
    rows += chunk.length;
  }
  return { rows, sha256: all.digest('hex') };
}

type Cell = readonly [column: string, value: StoredRow[string] | undefined];

function byName([one]: Cell, [other]: Cell): number {
  return one < other ? -1 : 1;
}

function canonical([column, value]: Cell): readonly unknown[] {
  return Buffer.isBuffer(value) ? [column, 'bytes', hash('sha256', value, 'hex')] : [column, value];
}

/** The digest of derived rows and of facts, which are few enough to be read at once. */
async function digestOfRest(query: Sql): Promise<RowDigest> {
  const counts = await query.selectFrom('counts').selectAll().where('count', '>', 0).execute();
  // The databases write the same JSON with different spaces.
  const told = counts
    .map((row) => JSON.stringify([row.workspace, row.counted, JSON.parse(row.class), row.count]))
    .sort();
  const facts = (await factsOf(query)).map(({ name, value }) => JSON.stringify([name, value]));
  return { rows: facts.length, sha256: hash('sha256', [...told, ...facts].join('\n'), 'hex') };
}

/**
 * The progress of a copy, stored in the target from before the first row until all rows are compared; no daemon uses the database
 * until then. Each chunk of rows moves it in the same commit, so that a killed copy continues after the last stored row.
 */
interface CopyMarker {
  /** Id of the installation whose rows these are. */
  readonly from: string;
  /** The last copied row; the tables before this one are complete. Null: none yet. */
  readonly last: { readonly table: CopiedName; readonly key: RowKey } | null;
  /** The copy was given up, and its rows are being deleted. */
  readonly isGivenUp?: true;
}

async function readMarker(query: Sql): Promise<CopyMarker | undefined> {
  const facts = query.selectFrom('installation').select('value');
  const row = await facts.where('name', '=', UNFINISHED_COPY).executeTakeFirst();
  return row && (JSON.parse(row.value) as CopyMarker);
}

/** Makes the database a copy of another one: stores its facts, and with them its id. */
async function beginCopy(transaction: Transaction<Schema>, facts: readonly Fact[], marker: CopyMarker): Promise<void> {
  await transaction.deleteFrom('installation').execute();
  await transaction
    .insertInto('installation')
    .values([...facts, { name: UNFINISHED_COPY, value: JSON.stringify(marker) }])
    .execute();
}

type Fact = Awaited<ReturnType<typeof factsOf>>[number];

/** Returns the facts of an installation without the marker, in the order of their names. */
async function factsOf(query: Sql) {
  const facts = query.selectFrom('installation').select(['name', 'value']).where('name', '!=', UNFINISHED_COPY);
  return facts.orderBy('name').execute();
}

/** Throws `not_found` if no daemon has ever used the database. */
async function idOf(query: Sql, place: string): Promise<string> {
  const id = (await factsOf(query)).find(({ name }) => name === INSTALLATION_ID)?.value;
  if (id !== undefined) return id;
  throw new SyncError('not_found', `${place} holds no data of worksync`, {
    hint: 'Check the address: it must be a database that a daemon has used.',
  });
}

/** Throws `conflict` if another process has moved it since. */
async function moveMarker(transaction: Transaction<Schema>, before: CopyMarker, next: CopyMarker): Promise<void> {
  const moved = transaction.updateTable('installation').set({ value: JSON.stringify(next) });
  const marker = moved.where('name', '=', UNFINISHED_COPY).where('value', '=', JSON.stringify(before));
  if ((await changedRows(marker)) > 0) return;
  const hint = 'Let only one "worksync store copy" run, and repeat it when the other one has ended.';
  throw new SyncError('conflict', 'another process copies into the same database', { hint });
}

/** Ends the copy. Throws `conflict` if another process has moved the marker since. */
async function removeMarker(transaction: Transaction<Schema>, before: CopyMarker): Promise<void> {
  await moveMarker(transaction, before, before);
  await transaction.deleteFrom('installation').where('name', '=', UNFINISHED_COPY).execute();
}
