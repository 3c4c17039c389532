import type { Compilable, CompiledQuery } from 'kysely';
import { dialectOf } from '../platform/database/dialect.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

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
 * Compiles a statement once for each dialect and each set of value names, for statements that often run with other values. Compiling
 * takes longer than the answer of an index.
 *
 * @param build gets a placeholder for each value. It may pass or spread them into the statement, but must not read them.
 */
export function compileStatement<Values extends object, Row>(
  build: (query: Sql, values: Values) => Compilable<Row>,
): CompiledStatement<Values, Row> {
  const compiled = new Map<string, CompiledQuery<Row>>();
  return async (query, values) => {
    const names = Object.keys(values);
    const key = `${dialectOf(query)} ${names.join(' ')}`;
    const placeholders = () => Object.fromEntries(names.map((name) => [name, new Placeholder(name)])) as Values;
    const statement = compiled.get(key) ?? build(query, placeholders()).compile();
    compiled.set(key, statement);
    const parameters = statement.parameters.map((each) =>
      each instanceof Placeholder ? values[each.name as keyof Values] : each,
    );
    const { rows } = await query.executeQuery<Row>({ ...statement, parameters });
    return rows;
  };
}

/** Compiles a statement on the rows of one workspace. */
export function compileInScope<Values extends object, Row>(
  build: (query: Scope, values: Values) => Compilable<Row>,
): (query: Scope, values: Values) => Promise<readonly Row[]> {
  const statement = compileStatement((query, { workspace, ...values }: Values & Pick<Scope, 'workspace'>) =>
    build(scopeOf(query, workspace), values as unknown as Values),
  );
  return ({ whole, workspace }, values) => statement(whole, { ...values, workspace });
}
