import { sql } from 'kysely';
import { openStore } from '../harness/store.ts';
import { ON_POSTGRES } from '../postgres/store-place.ts';

/** Collects the statements of a database, and tells which of them read far more rows than they want. */
export interface QueryPlans {
  readonly saw: (statement: string) => void;
  /** Statements that name rows by what has an index, and yet read all of a table or of a workspace; with SQLite's plan. */
  costly(): Promise<readonly string[]>;
}

/** Names a row, or a few, by its value. */
const NAMED = /"(?:id|key|entity|item_key|task_id|reference|delivery_key|url|called)" (?:=|in \()\s*(?!\(?select)['\d]/;

export function createQueryPlans(): QueryPlans {
  const statements = new Map<string, string>();
  return {
    saw(statement) {
      const shape = statement
        .replace(/'(?:[^']|'')*'/g, '?')
        .replace(/\b\d+(?:\.\d+)?\b/g, '?')
        .replace(/(?:\?, ?)+\?/g, '?');
      if (!statements.has(shape) && /^(select|update|delete)\b/i.test(statement)) statements.set(shape, statement);
    },
    async costly() {
      // Those of SQLite are looked at where the tests run over it; PostgreSQL plans by the rows that there are.
      if (ON_POSTGRES) return [];
      // Plans depend on the schema alone, so any database of ours will do: that of the test may be damaged on purpose.
      const { database, close } = await openStore({ file: ':memory:' });
      const found: string[] = [];
      for (const [shape, statement] of statements) {
        const { rows } = await sql<{ detail: string }>`explain query plan ${sql.raw(statement)}`.execute(database);
        const bad = rows.map(({ detail }) => detail).filter((detail) => isCostly(detail, statement));
        if (bad.length > 0) found.push(`${bad.join('; ')}: ${shape.slice(0, 500)}`);
      }
      await close();
      return found;
    },
  };
}

function isCostly(detail: string, statement: string): boolean {
  // A statement that names workspaces by their numbers names no row of the tables that it searches for each of them.
  if (/from "workspaces" where (?:"workspaces"\.)?"id" in/.test(statement)) return false;
  const [, table] = /(?:from|update) "(\w+)"/.exec(statement) ?? [];
  const [, searched] = /^(?:SEARCH|SCAN) (\w+)(?: USING .*\(workspace=\?\)| USING (?!.*\().*)?$/.exec(detail) ?? [];
  return searched !== undefined && searched === table && NAMED.test(statement);
}
