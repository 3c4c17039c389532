import { type DatabaseConnection, DummyDriver, Kysely, SqliteIntrospector } from 'kysely';
import { type DialectParts, DirectExecutor, SQLITE_DIALECT } from '../../../src/platform/database/one-connection.ts';
import { StoreAdapter, StoreCompiler } from '../../../src/platform/database/postgres.ts';

const POSTGRES_WORDS: DialectParts = {
  createAdapter: () => new StoreAdapter(),
  createQueryCompiler: () => new StoreCompiler(),
  createIntrospector: (query) => new SqliteIntrospector(query),
};

/** Whose statements, without transactions, go through this connection at once. */
export function kyselyOver<Tables>(connection: DatabaseConnection, kind: 'sqlite' | 'postgres'): Kysely<Tables> {
  const words = kind === 'postgres' ? POSTGRES_WORDS : SQLITE_DIALECT;
  const driver = new DummyDriver();
  const dialect = { ...words, createDriver: () => driver };
  const executor = new DirectExecutor(words, (consumer) => consumer(connection));
  return new Kysely<Tables>({ config: { dialect }, dialect, driver, executor });
}
