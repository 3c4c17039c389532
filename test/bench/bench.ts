import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Split } from './quota/references/day.ts';
import type { Line } from './quota/references/trace.ts';

/** One measurement: a file that exports one of these, and a line in `main.ts`. */
export interface Bench {
  readonly figures: readonly string[];
  run(shared: Shared): Promise<readonly Measured[]>;
}

export interface Shared {
  /** Take the place of the generated days; see `--trace`. */
  readonly traces: readonly (readonly Line[])[];
  /** Seeds and behaviours of what is generated; see `--tuning`. */
  readonly split: Split;
  knownItems(): Promise<string>;
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

/** Throws if the premise of a measurement does not hold, because its figure would mean something else. */
export function expectPremise(holds: boolean, found: string): asserts holds {
  if (!holds) throw new Error(`the premise does not hold: ${found}`);
}

export async function inFolder<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function inChild<Told>(file: string, args: readonly string[]): Promise<Told> {
  const child = fork(join(import.meta.dirname, file), args);
  const ended = once(child, 'exit');
  const message = await Promise.race([once(child, 'message'), ended]);
  const [code] = await ended;
  if (code !== 0) throw new Error(`${file} ended with ${code}`);
  return message[0] as Told;
}

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly limit: number | null;
  readonly ratio: number | null;
  /** `limit` is the cost of a yardstick on this machine: the aim concerns `value`, and `ratio` compares machines. */
  readonly yardstick?: true;
  readonly better: 'higher' | 'lower';
  /** The target of `ratio`, or of `value` without a ratio or with one to a yardstick; false: a figure of another program. */
  readonly aim: number | false;
  /** The worst of the runs: of `ratio`, or of `value` where there is no ratio. */
  readonly worst: number;
  /** The runs are seeds in virtual time, and no chance of the machine: the worst of them must reach the aim too. */
  readonly everyRun?: true;
}

export interface Measured extends Figure {
  readonly note?: string;
}

/** Without `better` the lower is; without `aim` none is to be reached. */
export type Meaning = Pick<Figure, 'name' | 'unit' | 'everyRun' | 'yardstick'> &
  Partial<Pick<Measured, 'better' | 'aim' | 'note'>>;

/** A figure of runs: a value of each, and what this is measured against where there is such a value. */
type Row<Run> = Meaning & { of(run: Run): number; against?(run: Run): number };

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  if (middle === undefined) throw new Error('a median of nothing');
  return middle;
}

export function figuresOf<Run>(runs: readonly Run[], ...rows: readonly Row<Run>[]): Measured[] {
  return rows.map((row) => figureOf(runs, row));
}

export function figure(meaning: Meaning, values: readonly number[]): Measured {
  return figureOf(values, { ...meaning, of: (value) => value });
}

/**
 * Measures a figure against another of the same run: value, limit and ratio are those of the run with the median of what is
 * judged, so that they belong together.
 */
export function figureOf<Run>(runs: readonly Run[], { of, against, ...given }: Row<Run>): Measured {
  const meaning = { better: 'lower', aim: false, ...given } as const;
  const values = runs.map(of);
  const limits = against && runs.map(against);
  const ratios = limits && values.map((value, run) => value / (limits[run] as number));
  const judged = meaning.yardstick ? values : (ratios ?? values);
  expectPremise(!judged.some(Number.isNaN), `${meaning.name} is a number: ${judged.join(', ')}`);
  const run = judged.indexOf(median(judged));
  const worst = meaning.better === 'higher' ? Math.min(...judged) : Math.max(...judged);
  return {
    ...meaning,
    value: values[run] as number,
    limit: limits?.[run] ?? null,
    ratio: ratios?.[run] ?? null,
    worst,
  };
}

/** Whether the aim is reached, by the median and, where each run counts, by the worst; undefined where there is none. */
function reaches({ value, ratio, yardstick, better, aim, worst, everyRun }: Figure): boolean | undefined {
  if (aim === false) return undefined;
  const judged = [yardstick ? value : (ratio ?? value), ...(everyRun ? [worst] : [])];
  return judged.every((each) => (better === 'higher' ? each >= aim : each <= aim));
}

export function jsonLine({ name, value, unit, limit, ratio, yardstick, better, aim, worst }: Figure): string {
  return JSON.stringify({ name, value, unit, limit, ratio, yardstick, better, aim, worst });
}

const HEAD = ['figure', 'value', 'unit', 'limit', 'ratio', 'worst', 'aim', ''];

export function table(figures: readonly Measured[]): string {
  const rows = [HEAD, ...figures.map(rowOf)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => pad(cell, widths[column] ?? 0, column))
      .join('  ')
      .trimEnd(),
  );
  const notes = figures.filter(({ note }) => note).map(({ name, note }) => `${name}: ${note}`);
  return [...lines, ...(notes.length > 0 ? ['', ...notes] : [])].join('\n');
}

function rowOf(measured: Measured): string[] {
  const { name, value, unit, limit, ratio, better, aim, worst } = measured;
  const reached = reaches(measured);
  return [
    name,
    short(value),
    unit,
    limit === null ? '' : short(limit),
    ratio === null ? '' : short(ratio),
    short(worst),
    aim === false ? '' : `${better === 'higher' ? '≥' : '≤'} ${short(aim)}`,
    reached === undefined ? '' : reached ? 'reached' : 'MISSED',
  ];
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 || column === 2 || column === 7 ? cell.padEnd(width) : cell.padStart(width);
}

function short(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-GB').replaceAll(',', ' ');
  return String(Number(value.toPrecision(3)));
}
