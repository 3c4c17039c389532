import type { KnownItems } from './known-items.ts';
import type { Split } from './quota/days.ts';
import type { Line } from './quota/references/trace.ts';
import type { Measured } from './report.ts';

/** One measurement: a file that exports one of these, and a line in `main.ts`. */
export interface Bench {
  /** Names of the figures it gives, as they are asked for on the command line. */
  readonly figures: readonly string[];
  run(shared: Shared): Promise<readonly Measured[]>;
}

/** What several benches need and is made once, by the first that asks. */
export interface Shared {
  /** Take the place of the generated days; see `--trace`. */
  readonly traces: readonly (readonly Line[])[];
  /** Seeds and behaviours of what is generated; see `--tuning`. */
  readonly split: Split;
  knownItems(): Promise<KnownItems>;
}

/** Each real-time figure is the median of this many runs. */
export const RUNS = 5;

/**
 * Whether a bench was asked for: by the name of a figure, or by its first part (`ingest` for `ingest.probot`). Without
 * names everything is.
 */
export function isAskedFor(bench: Bench, names: readonly string[]): boolean {
  if (names.length === 0) return true;
  return bench.figures.some((figure) => names.some((name) => figure === name || figure.startsWith(`${name}.`)));
}
