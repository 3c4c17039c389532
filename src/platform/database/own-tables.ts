import { type DatabaseIntrospector, type Kysely, sql, type TableMetadata } from 'kysely';

/**
 * Answers the introspection of Kysely's migrator from our own schema alone. Kysely's own query lists the columns of every schema
 * of the database: it takes longer with each neighbour, and fails when one of them drops a table meanwhile.
 */
export function ownTables(query: Kysely<unknown>): DatabaseIntrospector {
  return {
    async getSchemas() {
      const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(query);
      return rows;
    },
    async getTables() {
      const { rows } = await sql<Pick<TableMetadata, 'name' | 'schema'>>`
        select tablename as name, schemaname as schema from pg_catalog.pg_tables where schemaname = current_schema()
      `.execute(query);
      return rows.map((table) => ({ ...table, isView: false, isForeign: false, columns: [] }));
    },
  };
}
