import type { Compilable, CompiledQuery } from 'kysely';
import { type Dialect, dialectOf } from '../platform/database/dialect.ts';
import type { Sql } from './workspace-scope.ts';

/** Asks one statement with these values in it. */
export type CompiledStatement<Given extends object, Row> = (query: Sql, given: Given) => Promise<readonly Row[]>;

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
export function compileStatement<Given extends object, Row>(
  build: (query: Sql, given: Given) => Compilable<Row>,
): CompiledStatement<Given, Row> {
  return standingWith(build, new Proxy({} as Given, { get: (_, name) => new Blank(String(name)) }));
}

/** The same of values of which not always all are given: one for each choice of them. The blanks can be spread. */
export function compileNamedStatement<Given extends object, Row>(
  build: (query: Sql, given: Given) => Compilable<Row>,
): CompiledStatement<Given, Row> {
  const known = new Map<string, CompiledStatement<Given, Row>>();
  return (query, given) => {
    const names = Object.keys(given);
    const choice = names.join(' ');
    const blanks = () => Object.fromEntries(names.map((name) => [name, new Blank(name)])) as Given;
    const statement = known.get(choice) ?? standingWith(build, blanks());
    known.set(choice, statement);
    return statement(query, given);
  };
}

function standingWith<Given extends object, Row>(
  build: (query: Sql, given: Given) => Compilable<Row>,
  blanks: Given,
): CompiledStatement<Given, Row> {
  const built: Partial<Record<Dialect, CompiledQuery<Row>>> = {};
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
