import type { Compilable, CompiledQuery } from 'kysely';
import { type Dialect, dialectOf } from '../lib/database/dialect.ts';
import type { Sql } from './workspace-scope.ts';

/** Asks one statement with these values in it. */
export type StandingStatement<Given extends object, Row> = (query: Sql, given: Given) => Promise<readonly Row[]>;

/** Stands for a value of which only the place is known yet. */
class Blank {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * A statement that is asked again and again with other values. It is built once for each dialect: for what an index answers at
 * once, building takes longer than the answer.
 *
 * @param build gets a blank in the place of each value, which it may hand on to the statement and not look at
 */
export function standing<Given extends object, Row>(
  build: (query: Sql, given: Given) => Compilable<Row>,
): StandingStatement<Given, Row> {
  const built: Partial<Record<Dialect, CompiledQuery<Row>>> = {};
  const blanks = new Proxy({} as Given, { get: (_, name) => new Blank(String(name)) });
  return async (query, given) => {
    const dialect = dialectOf(query);
    built[dialect] ??= build(query, blanks).compile();
    const statement = built[dialect];
    const parameters = statement.parameters.map((each) =>
      each instanceof Blank ? given[each.name as keyof Given] : each,
    );
    const { rows } = await query.executeQuery<Row>({ ...statement, parameters });
    return rows;
  };
}
