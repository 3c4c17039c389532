import type { Compilable, CompiledQuery } from 'kysely';
import { type Dialect, dialectOf } from '../platform/database/dialect.ts';
import type { Sql } from './workspace-scope.ts';

/** Runs one statement with these values as its parameters. */
export type CompiledStatement<Values extends object, Row> = (query: Sql, values: Values) => Promise<readonly Row[]>;

/** Stands in a statement for a value that is given with each run. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * Compiles a statement once for each dialect, for statements that often run with other values. Compiling takes longer than the
 * answer of an index.
 *
 * @param build gets a placeholder for each value. It may pass them to the statement, but must not read them.
 */
export function compileStatement<Values extends object, Row>(
  build: (query: Sql, values: Values) => Compilable<Row>,
): CompiledStatement<Values, Row> {
  return compileWith(build, new Proxy({} as Values, { get: (_, name) => new Placeholder(String(name)) }));
}

/** Compiles a statement once for each dialect and each set of value names, for values that are optional. `build` may spread them. */
export function compileNamedStatement<Values extends object, Row>(
  build: (query: Sql, values: Values) => Compilable<Row>,
): CompiledStatement<Values, Row> {
  const known = new Map<string, CompiledStatement<Values, Row>>();
  return (query, values) => {
    const names = Object.keys(values);
    const key = names.join(' ');
    const placeholders = () => Object.fromEntries(names.map((name) => [name, new Placeholder(name)])) as Values;
    const statement = known.get(key) ?? compileWith(build, placeholders());
    known.set(key, statement);
    return statement(query, values);
  };
}

function compileWith<Values extends object, Row>(
  build: (query: Sql, values: Values) => Compilable<Row>,
  placeholders: Values,
): CompiledStatement<Values, Row> {
  const compiled: Partial<Record<Dialect, CompiledQuery<Row>>> = {};
  return async (query, values) => {
    const dialect = dialectOf(query);
    compiled[dialect] ??= build(query, placeholders).compile();
    const statement = compiled[dialect];
    const parameters = statement.parameters.map((each) =>
      each instanceof Placeholder ? values[each.name as keyof Values] : each,
    );
    const { rows } = await query.executeQuery<Row>({ ...statement, parameters });
    return rows;
  };
}
