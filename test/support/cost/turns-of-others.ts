import type { GetReady } from '../faults/all-or-nothing.ts';
import { openTestInstallation } from '../harness/store.ts';

/** How many turns of the event loop others get between two commits of some work: of each two that follow one another. */
export async function turnsBetweenCommits(getReady: GetReady): Promise<readonly number[]> {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  const between: number[] = [];
  let last: number | undefined;
  const steps = {
    reached(_kind: string, edge: string) {
      if (edge === 'before' && last !== undefined) between.push(turns - last);
      if (edge === 'after' && last !== undefined) last = turns;
    },
  };
  const installation = await openTestInstallation({ file: ':memory:', steps });
  try {
    const work = await getReady(await installation.store('test'));
    count();
    last = turns;
    await work();
    return between.slice(1);
  } finally {
    isOver = true;
    await installation.close();
  }
}
