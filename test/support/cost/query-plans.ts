import { sql } from 'kysely';
import { openStore } from '../harness/store.ts';
import { ON_POSTGRES } from '../postgres/store-place.ts';

/** Names a row, or a few, by its value. */
const NAMED =
  /"(?:id|key|entity|item_key|task_id|reference|delivery_key|url|called)" (?:=|in \()\s*(?!\(?select)\+?['\d]/;

/** Collects the statements of a database, and tells which of them read far more rows than they want. */
export function createQueryPlans() {
  const statements = new Map<string, string>();
  return {
    saw(statement: string): void {
      const shape = statement
        .replace(/'(?:[^']|'')*'/g, '?')
        .replace(/\b\d+(?:\.\d+)?\b/g, '?')
        .replace(/(?:\+?\?, ?)+\+?\?/g, '?');
      if (!statements.has(shape) && /^(select|update|delete)\b/i.test(statement)) statements.set(shape, statement);
    },
    /** Statements that name rows by what has an index, and yet read all of a table or of a workspace; with SQLite's plan. */
    async costly(): Promise<readonly string[]> {
      // Only plans of SQLite are checked, because PostgreSQL plans by the number of rows.
      if (ON_POSTGRES) return [];
      const unknown = [...statements].filter(([shape]) => !judged.has(shape));
      if (unknown.length > 0) await judge(unknown);
      return [...statements.keys()].flatMap((shape) => judged.get(shape) ?? []);
    },
  };
}

/** Complaints about each shape of statement. Plans depend on the tables alone, so that each shape is judged once in a process. */
const judged = new Map<string, readonly string[]>();

async function judge(statements: readonly (readonly [shape: string, statement: string])[]): Promise<void> {
  // The database of the test may be damaged on purpose.
  const { database, close } = await openStore({ file: ':memory:' });
  for (const [shape, statement] of statements) {
    const { rows } = await sql<{ detail: string }>`explain query plan ${sql.raw(statement)}`.execute(database);
    const bad = rows.map(({ detail }) => detail).filter((detail) => isCostly(detail, statement));
    judged.set(shape, bad.length > 0 ? [`${bad.join('; ')}: ${shape.slice(0, 500)}`] : []);
  }
  await close();
}

function isCostly(detail: string, statement: string): boolean {
  // A statement that names workspaces by their numbers names no row of the tables that it searches for each of them.
  if (/from "workspaces" where (?:"workspaces"\.)?"id" in/.test(statement)) return false;
  const [, table] = /(?:from|update) "(\w+)"/.exec(statement) ?? [];
  const [, searched] = /^(?:SEARCH|SCAN) (\w+)(?: USING .*\(workspace=\?\)| USING (?!.*\().*)?$/.exec(detail) ?? [];
  return searched !== undefined && searched === table && NAMED.test(statement);
}
