import type { CompiledQuery, DatabaseConnection, Kysely, QueryResult, Transaction } from 'kysely';
import { DatabaseFault } from '../../src/platform/database/database-fault.ts';
import type { Database } from '../../src/platform/database/database-types.ts';
import type { Schema } from '../../src/store/schema/tables.ts';
import type { Chance } from '../bench/quota/references/chance.ts';
import { kyselyOver } from '../support/harness/kysely-over.ts';
import type { Life } from './life.ts';
import { mayBeAlone, mayChangeMany } from './statements-allowed.ts';
import { type Keys, namesRows } from './templates.ts';

/** A transaction that is open, as whoever stands beside the database sees it. */
interface Open {
  /** Its statements that have begun and not ended. */
  underWay: number;
  /** Its first statement that writes tells what it is about. */
  name: string;
}

export interface StatementWatch {
  /** It begins: throws in place of it. `within` is undefined for one that is a transaction by itself. */
  begins(text: string, within: Open | undefined): void;
  changed(text: string, rows: number, named: number): void;
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

/** A statement without the number of rows that it names, and that number if it names them in lists. */
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

function isChange(text: string): boolean {
  return /^(?:update|delete)/i.test(text);
}

function writes(text: string): boolean {
  return isChange(text) || /^insert/i.test(text);
}

interface Surroundings {
  readonly keys: Keys;
  readonly chance: Chance;
  readonly now: () => number;
  readonly tell: (fault: string) => void;
  /** A statement within that transaction was made to fail. */
  readonly onFailed: (life: Life, transaction: Open) => void;
  /** Whether it works: nothing fails while it starts or ends. */
  readonly isAtWork: (life: Life) => boolean;
}

/** Makes statements fail, and reports wrong statements. */
export function createStatementTroubles({ keys, chance, now, tell, onFailed, isAtWork }: Surroundings) {
  const failed = new Set<string>();
  const killedAt = new Set<string>();
  const told = new Set<string>();
  const narrow = new Map<string, boolean>();
  const ended = new WeakSet<Life>();
  let counts = 0;
  let failing = { share: 0, until: 0 };
  let killing: { readonly life: Life; readonly ended: () => void } | undefined;

  const isNarrow = (text: string) => {
    const is = narrow.get(text) ?? (namesRows(text, keys) || mayChangeMany(text));
    narrow.set(text, is);
    return is;
  };
  const once = (text: string) => {
    if (told.has(text)) return;
    told.add(text);
    tell(text);
  };

  function die(life: Life, name: string): void {
    if (killing?.life !== life || killedAt.has(name)) return;
    killedAt.add(name);
    const { ended } = killing;
    killing = undefined;
    life.kill();
    ended();
    life.check();
  }

  function fail(life: Life, within: Open | undefined, name: string): void {
    if (now() >= failing.until || failed.has(name) || !chance.happens(failing.share)) return;
    failed.add(name);
    if (within) onFailed(life, within);
    throw new DatabaseFault('full', 'the database', `no space is left for: ${name}`);
  }

  return {
    watchOf: (life: Life): StatementWatch => ({
      begins(text, within) {
        // So this house itself looks after the file.
        if (text.startsWith('pragma')) return;
        counts++;
        if (ended.has(life) && life.isAlive()) once(`stop: ${life.name} was stopped, and runs: ${text}`);
        if (isChange(text) && !isNarrow(text)) once(`rows: ${life.name} changes whatever rows there are by: ${text}`);
        const isWrite = writes(text);
        if (within) within.name ||= isWrite ? text : '';
        else if (isWrite && !mayBeAlone(text)) once(`transaction: ${life.name} runs alone: ${text}`);
        if (killing === undefined && now() >= failing.until) return;
        const name = `${within ? `${within.name}: ` : ''}${text}`;
        if (!isAtWork(life)) return;
        die(life, name);
        fail(life, within, name);
      },
      changed(text, rows, named) {
        if (rows > named && !mayChangeMany(text)) once(`transaction: ${life.name} changes ${rows} rows by: ${text}`);
      },
      done({ underWay, name }) {
        if (underWay > 0) once(`transaction: ${life.name} commits while ${underWay} of its statements run: ${name}`);
      },
    }),
    /** Until then statements fail, each of them once in a run: what has not failed yet fails with this chance. */
    fail: (share: number, until: number) => void (failing = { share, until }),
    count: () => counts,
    /** It says that it has stopped: it runs no statement any more. */
    stopped: (life: Life) => void ended.add(life),
    /** The process ends at the next statement at which none has ended in this run; `ended` is told then. */
    killNext: (life: Life, ended: () => void) => void (killing = { life, ended }),
    /** Nothing more becomes of them. */
    clear() {
      failing = { share: 0, until: 0 };
      killing = undefined;
    },
  };
}
