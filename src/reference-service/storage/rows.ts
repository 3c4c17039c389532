import { CompiledQuery, type QueryResult, type Selectable, type SelectQueryBuilder, sql } from 'kysely';
import { z } from 'zod';
import type { Clock, Random } from '../../platform/lib/clock.ts';
import { LIMITS } from '../../workspace-api/contract.ts';
import { invalid, notFound } from '../http/api-error.ts';
import type { ServiceTables } from './service-tables.ts';
import type { Query, Write } from './transactions.ts';

/** A row as it is inserted: the database numbers it. */
export type Row<Table extends keyof ServiceTables> = Omit<Selectable<ServiceTables[Table]>, 'seq'>;

/** The wall clock as rows hold it. */
export function timeNow(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}

/** `tsk_…`: 96 random bits that may stand in a path. */
export function newId(random: Random, prefix: string): string {
  return `${prefix}_${random.bytes(12).toString('base64url')}`;
}

/** Lists of strings as they stand in a column. Most are empty, which is worth not parsing. */
export function readStrings(column: string): string[] {
  return column === '[]' ? [] : (JSON.parse(column) as string[]);
}

export function writeStrings(strings: readonly string[] | undefined): string {
  return strings === undefined ? '[]' : JSON.stringify(strings);
}

type Noun = 'task' | 'document' | 'agent' | 'session' | 'claim';

/** Finds a thing of a workspace by its id. Throws 404. */
export async function findRow<Name extends Noun>(
  query: Query,
  noun: Name,
  workspaceId: string,
  id: string,
): Promise<Selectable<ServiceTables[`${Name}s`]>> {
  const row = await query
    .selectFrom(`${noun}s` as 'tasks')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where(`${noun}_id` as 'task_id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw notFound(noun);
  return row as unknown as Selectable<ServiceTables[`${Name}s`]>;
}

/** A task that a body names, unlike one that the path names, is part of the request: 400, like unknown users (W35). */
export async function refuseUnknownTask(query: Query, workspaceId: string, taskId: string): Promise<void> {
  const known = await query
    .selectFrom('tasks')
    .select('seq')
    .where('workspace_id', '=', workspaceId)
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  if (known === undefined) throw invalid(`unknown task ${taskId}`);
}

/**
 * Returns a function that shows rows as the contract does: each field of the answer is the column of its name in snake case. Fields
 * without a column in the row are left out.
 */
export function shownBy<Response extends z.ZodType>(
  { response }: { readonly response: Response },
  leftOut?: string,
): (row: object) => z.input<Response> & object {
  const { shape } = (response instanceof z.ZodPipe ? response.out : response) as unknown as z.ZodObject;
  const fields = Object.entries(shape)
    .filter(([name]) => name !== leftOut)
    .map(([name, field]) => [name, name.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), readerOf(field)] as const);
  return (row) => {
    const shown: Record<string, unknown> = {};
    for (const [name, column, read] of fields) {
      const value = (row as Record<string, unknown>)[column];
      if (value !== undefined) shown[name] = read(value);
    }
    return shown as z.input<Response> & object;
  };
}

/** Columns hold lists as JSON and flags as numbers. */
function readerOf(field: z.core.$ZodType): (column: unknown) => unknown {
  if (field instanceof z.ZodArray) return (column) => readStrings(column as string);
  if (field instanceof z.ZodBoolean) return (column) => column === 1;
  if (field instanceof z.ZodPipe) return readerOf(field.out);
  const isWrapped = field instanceof z.ZodCatch || field instanceof z.ZodOptional || field instanceof z.ZodDefault;
  return isWrapped ? readerOf(field.unwrap()) : (column) => column;
}

/**
 * One page of these rows, the newest first, and the cursor of the next one. The cursor is the `seq` of the last row that was given, so
 * pages neither skip nor repeat rows when others are added meanwhile (W10). Throws 400.
 */
export async function readPage<Tables, Table extends keyof Tables, Found extends { seq: number }>(
  rows: SelectQueryBuilder<Tables, Table, Found>,
  query: { limit?: number; cursor?: string },
) {
  const limit = query.limit ?? LIMITS.page.default;
  const after = query.cursor === undefined ? undefined : readCursor(query.cursor);
  // One too many, which says whether there is another page.
  const newest = rows.orderBy(sql.ref('seq'), 'desc').limit(limit + 1);
  const found = await (after === undefined ? newest : newest.where(sql.ref('seq'), '<', after)).execute();
  const given = found.slice(0, limit);
  const last = given.at(-1);
  return { given, nextCursor: found.length > limit && last ? writeCursor(last.seq) : null };
}

function writeCursor(seq: number): string {
  return Buffer.from(`after ${seq}`).toString('base64url');
}

function readCursor(cursor: string): number {
  const seq = Buffer.from(cursor, 'base64url')
    .toString()
    .match(/^after (\d{1,15})$/)?.[1];
  if (seq === undefined) throw invalid('cursor: not a cursor of this list');
  return Number(seq);
}

/**
 * Returns a statement whose text is built at its first use; to build it for every row costs more than to run it. All rows have the same
 * columns in the same order.
 *
 * @param constants the parameters after those of the row
 */
export function prepared<Input extends object, Found>(
  build: (write: Write, row: Input) => { compile(): CompiledQuery<Found> },
  constants: readonly unknown[] = [],
) {
  let text: string | undefined;
  return (write: Write, row: Input): Promise<QueryResult<Found>> => {
    text ??= build(write, row).compile().sql;
    return write.executeQuery(CompiledQuery.raw(text, [...Object.values(row), ...constants]) as CompiledQuery<Found>);
  };
}
