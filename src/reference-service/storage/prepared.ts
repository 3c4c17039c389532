import { CompiledQuery, type QueryResult } from 'kysely';
import type { Write } from './transactions.ts';

/** A statement whose text is built once; to build it for every row costs more than to run it. */
export type Prepared<Row> = (write: Write, parameters: readonly unknown[]) => Promise<QueryResult<Row>>;

/** @param built the statement with some parameters: their order counts, their values do not */
export function prepared<Row>(built: { compile(): CompiledQuery<Row> }): Prepared<Row> {
  const { sql } = built.compile();
  return (write, parameters) => write.executeQuery(CompiledQuery.raw(sql, [...parameters]) as CompiledQuery<Row>);
}
