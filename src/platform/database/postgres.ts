import { Kysely, sql } from 'kysely';
import pg from 'pg';
import { noSteps } from '../lib/steps.ts';
import { DatabaseFault, watchFaults } from './database-fault.ts';
import { type Database, MissingDatabaseError, type OpenOptions } from './database-types.ts';
import { migrate } from './migrate.ts';
import { ownTables } from './own-tables.ts';
import { type PostgresAddress, readAddress } from './postgres-address.ts';
import { lockMigrations, StoreAdapter, StoreCompiler } from './postgres-compiler.ts';
import { type Connections, createConnections } from './postgres-driver.ts';
import { postgresFaultOf } from './postgres-fault.ts';
import { createStatistics } from './postgres-statistics.ts';
import { clientWithTls, readTlsFiles } from './postgres-tls.ts';
import { serverAbilities } from './server-abilities.ts';

/**
 * The only opener of PostgreSQL: one schema of it, which is made where it is missing and which is all that the role needs.
 * A commit is durable as far as the server's settings say so, except those of `commitRelaxed`. The address is
 * `postgres://user:password@host:port/database`, with `schema`, `connections` and what `pg` reads of TLS behind a `?`.
 *
 * Throws `DatabaseFault` for a server that cannot be used, `NewerDatabaseError` for tables that are newer than this program.
 */
export async function openPostgres<Tables>(
  options: OpenOptions & { readonly within?: number },
): Promise<Database<Tables>> {
  const { onFault = () => undefined, onStatement = () => undefined, steps = noSteps } = options;
  const { within = ANSWER_WITHIN } = options;
  const address = await openAddress(options.file);
  const watch = watchFaults((error) => postgresFaultOf(error, address.place), onFault);
  const passed = () => performance.now();
  // The server is to cancel a slow statement first: then a timeout of the client means that the server does not answer.
  const limits = { connect: CONNECT_WITHIN, answer: within, silence: within + SILENCE };
  const pools = { writer: openPool(address, 1, limits), readers: openPool(address, address.connections, limits) };
  const statistics = createStatistics(pools.readers);
  const deps = { watch, steps, onStatement, passed };
  const connections = createConnections({ ...pools, ...deps, onInserted: statistics.inserted });
  const query = kyselyOver<Tables>(connections, 'begin');
  // A commit that nobody waits for is in the log before every later one that somebody waits for.
  const relaxed = kyselyOver<Tables>(connections, 'begin; set local synchronous_commit to off');
  try {
    await patiently(() =>
      watch.meanwhile(() =>
        migrateSchema(pools.readers, address, {
          ...options,
          query: query as Kysely<unknown>,
          patient: async (work) => {
            // It connects only where there is something to change, and reads nothing of its own.
            const writer = openPool(address, 1, { connect: CONNECT_WITHIN, answer: NO_LIMIT, silence: NO_LIMIT });
            try {
              await work(kyselyOver<unknown>(createConnections({ ...deps, writer, readers: writer }), 'begin'));
            } finally {
              await writer.end();
            }
          },
        }),
      ),
    );
  } catch (error) {
    await connections.close();
    throw error;
  }
  const abilities = serverAbilities({ address, readers: pools.readers, watch, passed });
  const size = createSize(pools.readers, passed);
  return {
    file: address.place,
    query,
    commit: (work) => query.transaction().execute(work),
    commitRelaxed: (work) => relaxed.transaction().execute(work),
    size: size.last,
    fault: watch.present,
    checkFileReplaced() {
      size.refresh();
      return watch.present();
    },
    probe() {
      if (!watch.present()?.mayPass) return;
      // Takes a number of a transaction, which a standby refuses and a full disk cannot write.
      void watch.meanwhile(() => pools.readers.query('select pg_current_xact_id()')).then(watch.wrote, () => undefined);
    },
    condemn: (complaint) => watch.note(new DatabaseFault('corrupt', address.place, complaint)),
    keptLog: () => undefined,
    asServer: { ...abilities, pending: connections.pending },
    async close() {
      await abilities.close();
      await connections.close();
    },
  };
}

/** A connection of its own to a schema that is open, for what must wait behind nothing else and is of no use when it is late. */
export interface ApartOptions {
  readonly file: string;
  /** For a connection and for each answer, milliseconds. */
  readonly within: number;
}

export async function openApart<Tables>({
  file,
  within,
}: ApartOptions): Promise<Pick<Database<Tables>, 'query' | 'commit' | 'close'>> {
  const address = await openAddress(file);
  const watch = watchFaults(
    (error) => postgresFaultOf(error, address.place),
    () => undefined,
  );
  const pool = openPool(address, 1, { connect: within, answer: within, silence: within });
  const passed = () => performance.now();
  const pools = { writer: pool, readers: pool };
  const connections = createConnections({ ...pools, watch, steps: noSteps, onStatement: () => undefined, passed });
  const query = kyselyOver<Tables>(connections, 'begin');
  return {
    query,
    commit: (work) => query.transaction().execute(work),
    close: () => pool.end(),
  };
}

async function openAddress(text: string): Promise<PostgresAddress> {
  const address = readAddress(text);
  await readTlsFiles(address);
  return address;
}

/** Milliseconds. */
interface Limits {
  readonly connect: number;
  /** After this time the server cancels a statement. */
  readonly answer: number;
  /** After this time the client gives up a statement that the server has not even cancelled. */
  readonly silence: number;
}

const CONNECT_WITHIN = 5_000;
const ANSWER_WITHIN = 15_000;
const SILENCE = 1_000;
/** As the server and its client take it. */
const NO_LIMIT = 0;
/** How long a connection says nothing before the system asks whether the other end is still there, milliseconds. */
const ASK_AFTER = 10_000;

/** Whole numbers of 64 bits, and sums of them, are numbers here. */
const NUMBERS: ReadonlySet<number> = new Set([20, 1700]);

function openPool(address: PostgresAddress, max: number, { connect, answer, silence }: Limits): pg.Pool {
  const pool = new pg.Pool({
    ...address.connection,
    Client: clientWithTls(address),
    max,
    // What is asked for together is answered in one journey.
    pipeline: true,
    connectionTimeoutMillis: connect,
    query_timeout: silence,
    keepAlive: true,
    keepAliveInitialDelayMillis: ASK_AFTER,
    application_name: 'worksync',
    options: optionsOf(address, answer),
    types: {
      getTypeParser: (type, format) =>
        NUMBERS.has(type) && format !== 'binary' ? Number : pg.types.getTypeParser(type, format as 'text'),
    },
  });
  // Of connections that wait for a statement, in the pool or within a transaction: the next statement finds out by itself.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * Of each session. A process that stands still within a transaction must not hold up whoever takes over its workspaces, and
 * no statement may run on when nobody waits for it any more.
 */
function optionsOf({ schema, options }: PostgresAddress, answer: number): string {
  const limits = {
    idle_in_transaction_session_timeout: '1500',
    statement_timeout: String(answer),
    lock_timeout: '5000',
  };
  const own = Object.entries(limits).map(([name, value]) => `-c ${name}=${value}`);
  // Of two that name the same the last one counts: an address may set other limits, and no other schema.
  return [...own, options, `-c search_path=${schema}`].filter((each) => each !== '').join(' ');
}

function kyselyOver<Tables>(connections: Connections, begin: string): Kysely<Tables> {
  return new Kysely<Tables>({
    dialect: {
      createAdapter: () => new StoreAdapter(),
      createDriver: () => connections.driver(begin),
      createIntrospector: ownTables,
      createQueryCompiler: () => new StoreCompiler(),
    },
  });
}

/** Often enough for tables that all processes of the version before work on. */
const MIGRATION_ATTEMPTS = 20;

/**
 * A migration locks one table after another while other processes use them in their own order. The server ends the one or the other
 * when they wait for each other, a second later: nothing of it has happened then.
 */
async function patiently(work: () => Promise<void>, attempt = 1): Promise<void> {
  try {
    await work();
  } catch (error) {
    const mayPass = error instanceof DatabaseFault && error.kind === 'busy';
    if (!mayPass || attempt === MIGRATION_ATTEMPTS) throw error;
    await patiently(work, attempt + 1);
  }
}

interface Migrated {
  readonly query: Kysely<unknown>;
  /** Runs the work with statements that may take as long as they take: nobody knows how many rows a table has. */
  readonly patient: (work: (query: Kysely<unknown>) => Promise<void>) => Promise<void>;
}

async function migrateSchema(
  pool: pg.Pool,
  { schema, place }: PostgresAddress,
  {
    migrations,
    readableSince,
    existing,
    query,
    patient,
  }: Pick<OpenOptions, 'migrations' | 'readableSince' | 'existing'> & Migrated,
): Promise<void> {
  const { rows: known } = await pool.query('select 1 from pg_namespace where nspname = $1', [schema]);
  const missing = existing ? new MissingDatabaseError(place) : undefined;
  if (known.length === 0 && missing) throw missing;
  if (known.length === 0) await createSchema(pool, schema);
  await migrate(query, {
    missing,
    migrations,
    readableSince,
    schema,
    patient,
    lock: lockMigrations,
    async hasTable(name) {
      const { rows } = await sql<{ is: boolean }>`select to_regclass(${name}) is not null as is`.execute(query);
      return rows[0]?.is === true;
    },
  });
}

/** Another process may make it at the same moment: the server does not keep them apart. */
async function createSchema(pool: pg.Pool, schema: string): Promise<void> {
  try {
    await pool.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`);
  } catch (error) {
    if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
  }
}

const UNIQUE_VIOLATION = '23505';

/** How long a size is told before it is asked for again, milliseconds. */
const SIZE_FOR = 60_000;

const SIZE = `select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as size from pg_class
  where relnamespace = current_schema()::regnamespace and relkind = 'r'`;

function createSize(pool: pg.Pool, passed: () => number) {
  let last = 0;
  let askedAt = Number.NEGATIVE_INFINITY;
  const refresh = () => {
    if (passed() - askedAt < SIZE_FOR) return;
    askedAt = passed();
    void pool.query<{ size: number }>(SIZE).then(
      ({ rows }) => {
        last = rows[0]?.size ?? last;
      },
      () => undefined,
    );
  };
  refresh();
  return { last: () => last, refresh };
}
