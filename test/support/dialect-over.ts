import { type DatabaseConnection, type Dialect, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import { StoreAdapter, StoreCompiler } from '../../src/lib/database/postgres-compiler.ts';

const nothing = async (): Promise<void> => undefined;

/** Whose statements go through this connection. */
export function dialectOver(connection: DatabaseConnection, words: 'sqlite' | 'postgres'): Dialect {
  const isPostgres = words === 'postgres';
  return {
    createAdapter: () => (isPostgres ? new StoreAdapter() : new SqliteAdapter()),
    createQueryCompiler: () => (isPostgres ? new StoreCompiler() : new SqliteQueryCompiler()),
    createIntrospector: (query) => new SqliteIntrospector(query),
    createDriver: () => ({
      ...{ init: nothing, releaseConnection: nothing, destroy: nothing },
      ...{ beginTransaction: nothing, commitTransaction: nothing, rollbackTransaction: nothing },
      acquireConnection: async () => connection,
    }),
  };
}
