import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import pg from 'pg';
import { inject } from 'vitest';

/** Whether the tests of this project keep their rows in PostgreSQL. */
export const ON_POSTGRES = process.env['TEST_STORE'] === 'postgres';

/** Schemas by the files in whose place they are. */
const meant = new Map<string, string>();
/** Schemas that nobody uses any more: to empty one takes a tenth of the time that its tables took. */
const free: string[] = [];

/**
 * Where rows are kept that would be in this file: there, or in a schema of its own for as long as the folder of the file is there.
 * `:memory:` is another one each time, until it is given back.
 */
export async function storePlace(file: string): Promise<string> {
  if (!ON_POSTGRES) return file;
  const known = meant.get(file);
  if (known) return placeOf(known);
  for (const [other, schema] of meant) {
    if (existsSync(dirname(other))) continue;
    meant.delete(other);
    free.push(schema);
  }
  const used = free.pop();
  if (!used) return newPlace(file);
  await empty(used);
  if (file !== ':memory:') meant.set(file, used);
  return placeOf(used);
}

/** One without any table, for what makes its tables in another way. It must end with all of them. */
export function newPlace(file: string): string {
  if (!ON_POSTGRES) return file;
  const schema = `${inject('schemas')}${randomBytes(8).toString('hex')}`;
  if (file !== ':memory:') meant.set(file, schema);
  return placeOf(schema);
}

/** Releases the place of a database in memory, which has been closed. */
export function givePlaceBack(place: string): void {
  const schema = URL.parse(place)?.searchParams.get('schema');
  if (schema) free.push(schema);
}

/**
 * Milliseconds for statements, locks, and pauses within a transaction: in place of the limits of a daemon, which would decide a test on
 * a busy machine.
 */
const HANGS = 240_000;

const PATIENT = new URLSearchParams({
  query_timeout: String(HANGS),
  options: ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
    .map((limit) => `-c ${limit}=${HANGS}`)
    .join(' '),
}).toString();

function placeOf(schema: string): string {
  return `${inject('postgres')}?schema=${schema}&${PATIENT.replaceAll('+', '%20')}`;
}

export async function losePlace(file: string): Promise<void> {
  const schema = meant.get(file);
  if (schema) await empty(schema);
}

let pool: pg.Pool | undefined;

async function empty(schema: string): Promise<void> {
  pool ??= new pg.Pool({ connectionString: inject('postgres'), max: 1, allowExitOnIdle: true });
  // Triggers count what is deleted, so that counts come last.
  await pool.query(`do $$
    declare name text;
    begin
      perform set_config('search_path', '${schema}', true);
      for name in select relname from pg_class where relnamespace = '${schema}'::regnamespace and relkind = 'r'
        and relname not like 'kysely%' order by relname = 'counts' loop
        execute format('delete from %I', name);
      end loop;
      for name in select relname from pg_class where relnamespace = '${schema}'::regnamespace and relkind = 'S' loop
        perform setval(format('%I', name)::regclass, 1, false);
      end loop;
    end $$`);
}
