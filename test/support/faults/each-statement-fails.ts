import { isDeep } from '../harness/depth.ts';
import { nextTurnOfLoop, statementsUnderWay } from '../harness/statements.ts';
import { openTestInstallation } from '../harness/store.ts';
import { allRows, changedIn, type GetReady } from './all-or-nothing.ts';

/** Guarantees of a piece of work if one of its statements fails. */
export interface Promised {
  /** It is several transactions, of which those before stay. */
  readonly inParts?: boolean;
  /** It tells nobody, and comes to its end. */
  readonly isQuiet?: boolean;
  /** It may be done again over the same rows once it has failed, which takes less time than to get ready anew. */
  readonly isRepeatable?: boolean;
}

/**
 * Returns the faults of work whose statements fail, for each of its statements in turn, in a plain run for the first, second, fourth and so on: the caller gets no error, rows are changed
 * all the same, or an error is unhandled. Empty if all statements are awaited and are one transaction. Throws if the work runs no
 * statement at all.
 */
export async function wrongWhereStatementsFail(
  getReady: GetReady,
  promised: Promised = {},
): Promise<readonly string[]> {
  const wrong: string[] = [];
  let place = await openPlace(getReady);
  for (let number = 1; ; number = isDeep ? number + 1 : number * 2) {
    const { statement, isTold, changed, left } = await place.workWithout(number);
    const say = (what: string) => void wrong.push(`${statement ?? 'nothing fails'}: ${what}`);
    for (const each of left) say(`left to nobody: ${String(each)}`);
    if (statement === undefined) break;
    if (isTold === (promised.isQuiet ?? false)) say(isTold ? 'it does not come to its end' : 'nobody is told');
    if (!promised.inParts) for (const table of changed) say(`${table} is changed`);
    if (promised.isRepeatable && changed.length === 0) continue;
    await place.close();
    place = await openPlace(getReady);
  }
  await place.close();
  return wrong;
}

/** Lets one statement fail, as often as it is asked: also where a look ahead asked it first. */
function failingAt(number: number) {
  let asked = 0;
  /** Which one, in full; undefined: there are not so many. */
  let failed: string | undefined;
  return {
    ask(text: string): void {
      if (!/^(?:with|select|insert|update|delete)\b/i.test(text)) return;
      if (++asked === number) failed = text;
      if (text === failed) throw new Error('the statement fails');
    },
    /** Which one failed, in short. Throws if the work asks no statement at all. */
    found() {
      if (asked === 0) throw new Error('the work asks no statement');
      return failed && `${number}. ${failed.replaceAll(/\s+/g, ' ').slice(0, 60)}`;
    },
  };
}

async function openPlace(getReady: GetReady) {
  /** Undefined: none fails now. */
  let failing: ReturnType<typeof failingAt> | undefined;
  const installation = await openTestInstallation({ file: ':memory:', onStatement: (text) => failing?.ask(text) });
  const work = await getReady(await installation.store('test'));
  return {
    async workWithout(number: number) {
      const left: unknown[] = [];
      const leave = (error: unknown) => void left.push(error);
      process.on('unhandledRejection', leave);
      try {
        const before = await allRows(installation);
        const own = failingAt(number);
        failing = own;
        // Whether the caller that waits for the work gets the error.
        const isTold = await work().then(
          () => false,
          () => true,
        );
        await rest();
        failing = undefined;
        const changed = changedIn({ before, after: await allRows(installation) });
        return { statement: own.found(), isTold, changed, left };
      } finally {
        process.off('unhandledRejection', leave);
      }
    },
    close: () => installation.close(),
  };
}

async function rest(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await nextTurnOfLoop();
    if (statementsUnderWay() > 0) turn = -1;
  }
}
