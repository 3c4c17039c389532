import type { CompiledQuery, DatabaseConnection, Kysely, QueryResult, Transaction } from 'kysely';
import type { Database } from '../../src/platform/database/database-types.ts';
import type { Schema } from '../../src/store/schema/tables.ts';
import { kyselyOver } from '../support/harness/kysely-over.ts';

/** A transaction that is open, as whoever stands beside the database sees it. */
export interface Open {
  /** Its statements that have begun and not ended. */
  underWay: number;
  /** Its first statement that writes tells what it is about. */
  name: string;
}

/** What is told of each statement of one process. */
export interface StatementWatch {
  /** It begins: throws in place of it. `within` is undefined for one that is a transaction by itself. */
  begins(text: string, within: Open | undefined): void;
  /** It has changed so many rows, and names so many at most. */
  changed(text: string, rows: number, named: number): void;
  /** The work of a transaction is done, as it says. */
  done(within: Open): void;
}

/** A statement of a transaction lasts at least so many turns of the queue of microtasks. */
const TURNS = 50;

/** A database that tells of all its statements. */
export function watchedDatabase(database: Database<Schema>, watch: StatementWatch): Database<Schema> {
  const committing =
    (commit: Database<Schema>['commit']): Database<Schema>['commit'] =>
    (work) =>
      commit(async (transaction) => {
        const open = { underWay: 0, name: '' };
        const result = await work(watchedQuery(transaction, watch, open) as Transaction<Schema>);
        watch.done(open);
        return result;
      });
  return {
    ...database,
    query: watchedQuery(database.query, watch, undefined),
    commit: committing(database.commit),
    commitRelaxed: committing(database.commitRelaxed),
  };
}

function watchedQuery(query: Kysely<Schema>, watch: StatementWatch, within: Open | undefined): Kysely<Schema> {
  const executor = query.getExecutor();
  const connection: DatabaseConnection = {
    async executeQuery<Row>(statement: CompiledQuery) {
      const { text, named } = readingOf(statement.sql);
      watch.begins(text, within);
      if (within) within.underWay++;
      try {
        const result = (await executor.executeQuery(statement)) as QueryResult<Row>;
        // Over a network it lasts: whoever does not wait for it is told by then that the transaction is done.
        if (within) for (let turn = 0; turn < TURNS; turn++) await Promise.resolve();
        if (isChange(text))
          watch.changed(text, Math.max(result.rows.length, Number(result.numAffectedRows ?? 0)), named);
        return result;
      } finally {
        if (within) within.underWay--;
      }
    },
    streamQuery: () => {
      throw new Error('nothing is streamed here');
    },
  };
  return kyselyOver<Schema>(connection, 'sqlite');
}

/** What a statement says, whatever number of rows it names; and how many that is, where it names them by lists. */
interface Reading {
  readonly text: string;
  readonly named: number;
}

const readings = new Map<string, Reading>();

function readingOf(sql: string): Reading {
  const known = readings.get(sql);
  if (known) return known;
  const text = sql
    .replaceAll('+?', '?')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\(\?(?:, \?)*\)(?:, \(\?(?:, \?)*\))*/g, '(…)');
  const [, condition = ''] = / where (.*)$/s.exec(sql) ?? [];
  const lists = condition.match(/ in \((?:[^()]|\([^()]*\))*\)/g) ?? [];
  const named = Math.max(1, ...lists.map((list) => list.split('?').length - 1));
  const reading = { text, named };
  readings.set(sql, reading);
  return reading;
}

export function isChange(text: string): boolean {
  return /^(?:update|delete)/i.test(text);
}

export function writes(text: string): boolean {
  return isChange(text) || /^insert/i.test(text);
}
