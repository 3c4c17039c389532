import {
  type CompiledQuery,
  type DatabaseConnection,
  DefaultQueryExecutor,
  DummyDriver,
  Kysely,
  type QueryResult,
  SqliteIntrospector,
} from 'kysely';
import { StoreAdapter, StoreCompiler } from '../../src/lib/database/postgres-compiler.ts';
import { SQLITE_WORDS } from '../../src/lib/database/sqlite-words.ts';

const POSTGRES_WORDS: typeof SQLITE_WORDS = {
  createAdapter: () => new StoreAdapter(),
  createQueryCompiler: () => new StoreCompiler(),
  createIntrospector: (query) => new SqliteIntrospector(query),
};

/** Whose statements, without transactions, go through this connection at once. */
export function kyselyOver<Tables>(connection: DatabaseConnection, kind: 'sqlite' | 'postgres'): Kysely<Tables> {
  const words = kind === 'postgres' ? POSTGRES_WORDS : SQLITE_WORDS;
  const driver = new DummyDriver();
  const dialect = { ...words, createDriver: () => driver };
  return new Kysely<Tables>({ config: { dialect }, dialect, driver, executor: new Direct(words, connection) });
}

class Direct extends DefaultQueryExecutor {
  readonly #connection: DatabaseConnection;

  constructor(words: typeof SQLITE_WORDS, connection: DatabaseConnection) {
    super(words.createQueryCompiler(), words.createAdapter(), {
      provideConnection: (consumer) => consumer(connection),
    });
    this.#connection = connection;
  }

  override executeQuery<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
    return this.#connection.executeQuery(statement);
  }
}
