import * as kysely from 'kysely';
import { sql } from 'kysely';
import pg from 'pg';
import { DatabaseFault, postgresFaultOf, watchFaults } from './database-fault.ts';
import { type MigrateOptions, migrate } from './database-schema.ts';
import { type Database, MissingDatabaseError, type OpenOptions } from './database-types.ts';
import { type PostgresAddress, readAddress } from './postgres-address.ts';
import { type Connections, clientWithTls, createConnections, readTlsFiles } from './postgres-driver.ts';
import { serverAbilities } from './server-abilities.ts';

/**
 * The only opener of PostgreSQL: one schema, which is created if it is missing and which is all that the role needs. A commit is
 * as durable as the server's settings allow, except those of `commitRelaxed`. The address is
 * `postgres://user:password@host:port/database`, with `schema`, `connections` and the TLS parameters of `pg` in its query.
 *
 * Throws `DatabaseFault` for a server that cannot be used, `NewerDatabaseError` for tables that are newer than this program.
 */
export async function openPostgres<Tables>(
  options: OpenOptions & { readonly within?: number },
): Promise<Database<Tables>> {
  const { onFault, onStatement, steps, within = ANSWER_WITHIN } = options;
  const address = await openAddress(options.file);
  const watch = watchFaults((error) => postgresFaultOf(error, address.place), onFault);
  // The server cancels a slow statement first, so that a timeout of the client shows that the server does not answer.
  const limits = { connect: CONNECT_WITHIN, answer: within, silence: within + SILENCE };
  const pools = { writer: openPool(address, 1, limits), readers: openPool(address, address.connections, limits) };
  const statistics = createStatistics(pools.readers);
  const deps = { watch, steps, onStatement };
  const connections = createConnections({ ...pools, ...deps, onInserted: statistics.inserted });
  const query = kyselyOver<Tables>(connections, 'begin');
  // A relaxed commit is in the log before every later durable one.
  const relaxed = kyselyOver<Tables>(connections, 'begin; set local synchronous_commit to off');
  try {
    await patiently(() =>
      watch.meanwhile(() =>
        migrateSchema(pools.readers, address, query as kysely.Kysely<unknown>, {
          ...options,
          patient: async (work) => {
            // This pool only connects if there is something to change, and reads nothing of its own.
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
  const abilities = serverAbilities(address, pools.readers, watch);
  const size = createSize(pools.readers);
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
      // Assigns a transaction id, which a standby refuses and a full disk cannot write.
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

/**
 * Opens a separate connection to an open schema, for requests that must not queue and are useless when late.
 *
 * @param within for a connection and for each answer, milliseconds
 */
export async function openApart<Tables>({
  file,
  within,
}: {
  readonly file: string;
  readonly within: number;
}): Promise<Pick<Database<Tables>, 'query' | 'commit' | 'close'>> {
  const address = await openAddress(file);
  const watch = watchFaults((error) => postgresFaultOf(error, address.place));
  const pool = openPool(address, 1, { connect: within, answer: within, silence: within });
  const query = kyselyOver<Tables>(createConnections({ writer: pool, readers: pool, watch }), 'begin');
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

/**
 * Milliseconds: for a connection, after which the server cancels a statement, and after which the client gives up a statement that the
 * server has not cancelled.
 */
type Limits = Readonly<Record<'connect' | 'answer' | 'silence', number>>;

const CONNECT_WITHIN = 5_000;
const ANSWER_WITHIN = 15_000;
const SILENCE = 1_000;
/** The value for no limit, of the server and its client. */
const NO_LIMIT = 0;
/** Milliseconds without traffic after which the system sends keepalive probes. */
const KEEPALIVE_AFTER = 10_000;

/** Whole numbers of 64 bits, and sums of them, are numbers here. */
const NUMBERS: ReadonlySet<number> = new Set([20, 1700]);

function openPool(address: PostgresAddress, max: number, { connect, answer, silence }: Limits): pg.Pool {
  const pool = new pg.Pool({
    ...address.connection,
    Client: clientWithTls(address),
    max,
    // Statements that are requested together take one round trip.
    pipeline: true,
    connectionTimeoutMillis: connect,
    query_timeout: silence,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_AFTER,
    application_name: 'worksync',
    options: optionsOf(address, answer),
    types: {
      getTypeParser: (type, format) =>
        NUMBERS.has(type) && format !== 'binary' ? Number : pg.types.getTypeParser(type, format as 'text'),
    },
  });
  // Errors of idle connections, in the pool or within a transaction, are ignored: the next statement fails.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * The options of each session. A process that hangs within a transaction must not block the process that takes over its
 * workspaces, and no statement may run on after its caller has given up.
 */
function optionsOf({ schema, options }: PostgresAddress, answer: number): string {
  const limits = {
    idle_in_transaction_session_timeout: '1500',
    statement_timeout: String(answer),
    lock_timeout: '5000',
  };
  const own = Object.entries(limits).map(([name, value]) => `-c ${name}=${value}`);
  // The last of two equal options counts: an address may set other limits, but no other schema.
  return [...own, options, `-c search_path=${schema}`].filter((each) => each !== '').join(' ');
}

function kyselyOver<Tables>(connections: Connections, begin: string): kysely.Kysely<Tables> {
  return new kysely.Kysely<Tables>({
    dialect: {
      createAdapter: () => new StoreAdapter(),
      createDriver: () => connections.driver(begin),
      createIntrospector: ownTables,
      createQueryCompiler: () => new StoreCompiler(),
    },
  });
}

/** Enough for tables that all processes of the previous version use. */
const MIGRATION_ATTEMPTS = 20;

/**
 * A migration locks one table after another while other processes use them in their own order. In a deadlock, the server ends one
 * of them after a second, and rolls it back completely.
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

async function migrateSchema(
  pool: pg.Pool,
  { schema, place }: PostgresAddress,
  query: kysely.Kysely<unknown>,
  { migrations, readableSince, existing, patient }: OpenOptions & Pick<MigrateOptions, 'patient'>,
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

/** Another process may create it at the same moment, which the server does not prevent. */
async function createSchema(pool: pg.Pool, schema: string): Promise<void> {
  try {
    await pool.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`);
  } catch (error) {
    if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
  }
}

const UNIQUE_VIOLATION = '23505';

/** Milliseconds for which a size is cached. */
const SIZE_FOR = 60_000;

const SIZE = `select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as size from pg_class
  where relnamespace = current_schema()::regnamespace and relkind = 'r'`;

function createSize(pool: pg.Pool) {
  let last = 0;
  let queriedAt = Number.NEGATIVE_INFINITY;
  const refresh = () => {
    if (performance.now() - queriedAt < SIZE_FOR) return;
    queriedAt = performance.now();
    const read = pool.query<{ size: number }>(SIZE);
    void read.then(({ rows }) => (last = rows[0]?.size ?? last)).catch(() => undefined);
  };
  refresh();
  return { last: () => last, refresh };
}

/**
 * Answers the introspection of Kysely's migrator from our own schema alone. Kysely's own query lists the columns of every schema
 * of the database: it takes longer with each neighbour, and fails when one of them drops a table meanwhile.
 */
export function ownTables(query: kysely.Kysely<unknown>): kysely.DatabaseIntrospector {
  return {
    async getSchemas() {
      const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(query);
      return rows;
    },
    async getTables() {
      const { rows } = await sql<Pick<kysely.TableMetadata, 'name' | 'schema'>>`
        select tablename as name, schemaname as schema from pg_catalog.pg_tables where schemaname = current_schema()
      `.execute(query);
      return rows.map((table) => ({ ...table, isView: false, isForeign: false, columns: [] }));
    },
  };
}

/** Rows before the first check. Each later check follows after twice as many as the one before. */
const FIRST_CHECK = 256;

const OUTDATED = `select stats.relname as name from pg_stat_user_tables as stats join pg_class on pg_class.oid = stats.relid
  where schemaname = current_schema() and n_mod_since_analyze > greatest(reltuples, 100)`;

/**
 * Analyzes tables that have grown a lot. PostgreSQL itself does so once a minute and plans by guesses until then: while a database is
 * filled, it would read all rows of a workspace to find a dozen by their keys, and keep that plan. A table is analyzed when more of
 * its rows have changed than it had at the last time.
 */
function createStatistics(pool: Pick<pg.Pool, 'query'>) {
  let rows = 0;
  let nextCheck = FIRST_CHECK;

  async function analyze(): Promise<void> {
    const { rows: outdated } = await pool.query<{ name: string }>(OUTDATED);
    for (const { name } of outdated) await pool.query(`analyze ${pg.escapeIdentifier(name)}`);
  }

  return {
    /** Records that rows were inserted. */
    inserted(more: number): void {
      rows += more;
      if (rows < nextCheck) return;
      nextCheck = rows * 2;
      // After a failure, the server analyzes them itself later.
      void analyze().catch(() => undefined);
    },
  };
}

/** The types of SQLite's columns and their equivalents: whole numbers of 64 bits, and texts that sort by their bytes. */
const TYPES: Readonly<Record<string, string>> = {
  integer: 'bigint',
  real: 'double precision',
  blob: 'bytea',
  text: 'text collate "C"',
};

/** Compiles statements written for SQLite for PostgreSQL. */
export class StoreCompiler extends kysely.PostgresQueryCompiler {
  protected override getAutoIncrement(): string {
    return 'generated by default as identity';
  }

  protected override visitDataType(node: kysely.DataTypeNode): void {
    this.append(TYPES[node.dataType] ?? node.dataType);
  }

  /** A generated column must be stored to have an index. */
  protected override visitGenerated(node: kysely.GeneratedNode): void {
    super.visitGenerated(node.expression ? { ...node, stored: true } : node);
  }

  /**
   * In SQLite, `is` compares with any value, and in the standard only with null; and in SQLite, a list of `in` may be empty and
   * matches nothing.
   */
  protected override visitBinaryOperation(node: kysely.BinaryOperationNode): void {
    const { operator, rightOperand } = node;
    const word = kysely.OperatorNode.is(operator) ? operator.operator : undefined;
    if (kysely.PrimitiveValueListNode.is(rightOperand) && rightOperand.values.length === 0) {
      this.append(word === 'in' ? 'false' : 'true');
      return;
    }
    const isValue = kysely.ValueNode.is(rightOperand) && !rightOperand.immediate;
    if ((word !== 'is' && word !== 'is not') || !isValue) {
      super.visitBinaryOperation(node);
      return;
    }
    this.visitNode(node.leftOperand);
    this.append(word === 'is' ? ` is not distinct from ` : ` is distinct from `);
    this.visitNode(rightOperand);
  }
}

/** The advisory lock of the process that changes the tables of a schema: the others wait for it. */
const MIGRATION_LOCK = 8_117_346_251_904_339n;

/**
 * The lock ends with the transaction, even if the process dies. The other process may work for long; the waiting one has no
 * deadline, and has locked nothing yet.
 */
async function lockMigrations(transaction: kysely.Kysely<unknown>): Promise<void> {
  const limit = await sql<{ lock_timeout: string }>`show lock_timeout`.execute(transaction);
  await sql`set local lock_timeout to 0`.execute(transaction);
  await sql`select pg_advisory_xact_lock(${sql.lit(MIGRATION_LOCK)} # hashtext(current_schema()))`.execute(transaction);
  await sql`set local lock_timeout to ${sql.lit(limit.rows[0]?.lock_timeout ?? '5s')}`.execute(transaction);
}

/** Kysely would lock after it has created tables of its own, and for longer than a transaction. */
export class StoreAdapter extends kysely.PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {
    // `lockMigrations` did it.
  }

  override async releaseMigrationLock(): Promise<void> {
    // It ends with the transaction.
  }
}
