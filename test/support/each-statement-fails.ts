import { allRows, changedIn, type GetReady } from './all-or-nothing.ts';
import { nextTurnOfLoop, statementsUnderWay } from './statements.ts';
import { openTestInstallation } from './store.ts';

/** What becomes of a piece of work of which a statement fails. */
export interface Promised {
  /** It is several transactions, of which those before stay. */
  readonly inParts?: boolean;
  /** It tells nobody, and comes to its end. */
  readonly isQuiet?: boolean;
}

/**
 * What is wrong where a statement of the work fails, for each of its statements in turn: that whoever waits for the work is not
 * told, that rows are changed all the same, or that an error is left to nobody. Nothing, where all statements are awaited, and are
 * one transaction. Throws where the work asks no statement at all.
 */
export async function wrongWhereStatementsFail(
  getReady: GetReady,
  promised: Promised = {},
): Promise<readonly string[]> {
  const wrong: string[] = [];
  for (let number = 1; ; number++) {
    const failed = await workOf(getReady, number);
    if (failed.statement === undefined) break;
    const { statement, isTold, changed, left } = failed;
    const say = (what: string) => void wrong.push(`${statement}: ${what}`);
    if (isTold === (promised.isQuiet ?? false)) say(isTold ? 'it does not come to its end' : 'nobody is told');
    if (!promised.inParts) for (const table of changed) say(`${table} is changed`);
    for (const error of left) say(`left to nobody: ${String(error)}`);
  }
  return wrong;
}

interface FailedWork {
  /** Which one failed, in short; undefined: there are not so many. */
  readonly statement?: string;
  /** Whoever waits for the work. */
  readonly isTold: boolean;
  readonly changed: readonly string[];
  readonly left: readonly unknown[];
}

/** Does the work once; the statement of this number fails. */
async function workOf(getReady: GetReady, number: number): Promise<FailedWork> {
  let isReady = false;
  let asked = 0;
  let statement: string | undefined;
  const installation = await openTestInstallation({
    file: ':memory:',
    onStatement(text) {
      if (!isReady || !/^(?:with|select|insert|update|delete)\b/i.test(text) || ++asked !== number) return;
      statement = `${number}. ${text.replaceAll(/\s+/g, ' ').slice(0, 60)}`;
      throw new Error('the statement fails');
    },
  });
  const left: unknown[] = [];
  const leave = (error: unknown) => void left.push(error);
  process.on('unhandledRejection', leave);
  try {
    const work = await getReady(await installation.store('test'));
    const before = await allRows(installation);
    isReady = true;
    const isTold = await work().then(
      () => false,
      () => true,
    );
    await rest();
    isReady = false;
    if (number === 1 && statement === undefined) throw new Error('the work asks no statement');
    return { statement, isTold, changed: changedIn({ before, after: await allRows(installation) }), left };
  } finally {
    process.off('unhandledRejection', leave);
    await installation.close();
  }
}

/** What nobody awaits comes to its end too. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await nextTurnOfLoop();
    if (statementsUnderWay() > 0) turn = -1;
  }
}
