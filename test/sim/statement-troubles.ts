import { DatabaseFault } from '../../src/platform/database/database-fault.ts';
import type { Chance } from '../bench/quota/references/chance.ts';
import { type Keys, namesRows } from './keys.ts';
import type { Life } from './life.ts';
import { type Open, type StatementWatch, isChange, writes } from './statements.ts';
import { mayBeAlone, mayChangeMany } from './statements-allowed.ts';

/** What becomes of statements, and what is wrong with them as they are. */
export interface StatementTroubles {
  watchOf(life: Life): StatementWatch;
  /** Until then statements fail, each of them once in a run: what has not failed yet fails with this chance. */
  fail(share: number, until: number): void;
  /** The process ends at the next statement at which none has ended in this run; `ended` is told then. */
  killNext(life: Life, ended: () => void): void;
  /** It says that it has stopped: it runs no statement any more. */
  stopped(life: Life): void;
  /** How many have begun so far, of those that begin with these words. */
  count(words?: string): number;
  /** Nothing more becomes of them. */
  clear(): void;
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

export function createStatementTroubles({
  keys,
  chance,
  now,
  tell,
  onFailed,
  isAtWork,
}: Surroundings): StatementTroubles {
  const failed = new Set<string>();
  const killedAt = new Set<string>();
  const told = new Set<string>();
  const narrow = new Map<string, boolean>();
  const ended = new WeakSet<Life>();
  const counts = new Map<string, number>();
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
    watchOf: (life) => ({
      begins(text, within) {
        // So this house itself looks after the file.
        if (text.startsWith('pragma')) return;
        counts.set(text, (counts.get(text) ?? 0) + 1);
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
    fail(share, until) {
      failing = { share, until };
    },
    count: (words = '') => [...counts].reduce((sum, [text, count]) => sum + (text.startsWith(words) ? count : 0), 0),
    stopped: (life) => void ended.add(life),
    killNext(life, ended) {
      killing = { life, ended };
    },
    clear() {
      failing = { share: 0, until: 0 };
      killing = undefined;
    },
  };
}
