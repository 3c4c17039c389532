import type { Result } from './results.ts';

interface Mistake extends Pick<Result, 'place' | 'at' | 'kind' | 'from' | 'to'> {
  readonly sim: string | undefined;
  readonly tests: string | undefined;
}

/** Each mistake once, with all that became of it. */
function mistakesOf(results: readonly Result[]): Mistake[] {
  const byPlace = [...Map.groupBy(results, ({ place }) => place).values()];
  return byPlace.map((tries) => {
    const found = (...ways: string[]) =>
      tries.find((each) => ways.includes(each.way) && each.found)?.found ?? undefined;
    const { place, at, kind, from, to } = tries[0] as Result;
    const tests = found('unit', 'whole');
    return { place, at, kind, from, to, sim: found('sim'), tests };
  });
}

function verdictOf({ sim, tests }: Mistake): string {
  if (sim) return tests ? 'both' : 'simulation';
  return tests ? 'tests' : 'SURVIVES';
}

/** One line for each mistake, and the totals. */
export function summary(results: readonly Result[]): string {
  const mistakes = mistakesOf(results);
  const lines = mistakes.map(
    (each) => `${verdictOf(each).padEnd(12)} ${each.at} ${each.kind}: ${each.from.slice(0, 70)}`,
  );
  return [...lines, totals(mistakes)].join('\n');
}

/** How a fault is named that is nothing but a difference from what is known. */
const KNOWN = 'known:';

function totals(mistakes: readonly Mistake[]): string {
  const part = (test: (each: Mistake) => unknown) => {
    const count = mistakes.filter(test).length;
    return `${count} (${((100 * count) / Math.max(1, mistakes.length)).toFixed(0)} %)`;
  };
  return `Of ${mistakes.length} mistakes, tests and simulation find ${part(({ sim, tests }) => sim || tests)}: the simulation ${part(({ sim }) => sim)}, of which a known day alone told of ${part(({ sim }) => sim?.startsWith(KNOWN))}; ${part(({ sim, tests }) => tests && !sim)} are known by tests only.`;
}
