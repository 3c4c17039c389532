/** One line of the report, and of `--json` as it stands. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What `value` is measured against, in the same unit. */
  readonly limit: number | null;
  readonly ratio: number | null;
  readonly better: 'higher' | 'lower';
  /** What `ratio`, or `value` where there is no ratio, is to reach; false on figures of others. */
  readonly aim: number | false;
  /** The worst of the runs: of `ratio`, or of `value` where there is no ratio. */
  readonly worst: number;
  /** The runs are seeds in virtual time, and no chance of the machine: the worst of them must reach the aim too. */
  readonly everyRun?: true;
}

/** A figure with what only people read. */
export interface Measured extends Figure {
  readonly note?: string;
}

type Meaning = Pick<Figure, 'name' | 'unit' | 'better' | 'aim' | 'everyRun'> & Pick<Measured, 'note'>;

/** The middle one; of an even number the lower of the two in the middle, so that it is a figure that was measured. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  if (middle === undefined) throw new Error('a median of nothing');
  return middle;
}

/** A figure that stands alone. */
export function figure(meaning: Meaning, values: readonly number[]): Measured {
  return { ...meaning, value: median(values), limit: null, ratio: null, worst: worstOf(meaning, values) };
}

/**
 * A figure against another that was measured in the same round: value, limit and ratio are those of the round with the
 * median ratio, so that they belong together.
 */
export function compared(meaning: Meaning, values: readonly number[], limits: readonly number[]): Measured {
  const ratios = values.map((value, round) => value / (limits[round] ?? Number.NaN));
  const ratio = median(ratios);
  const round = ratios.indexOf(ratio);
  const limit = limits[round] ?? null;
  return { ...meaning, value: values[round] ?? 0, limit, ratio, worst: worstOf(meaning, ratios) };
}

function worstOf({ better }: Meaning, values: readonly number[]): number {
  return better === 'higher' ? Math.min(...values) : Math.max(...values);
}

/** Whether the aim is reached, by the median and, where each run counts, by the worst; undefined where there is none. */
function reaches({ value, ratio, better, aim, worst, everyRun }: Figure): boolean | undefined {
  if (aim === false) return undefined;
  const judged = [ratio ?? value, ...(everyRun ? [worst] : [])];
  return judged.every((each) => (better === 'higher' ? each >= aim : each <= aim));
}

export function jsonLine({ name, value, unit, limit, ratio, better, aim, worst }: Figure): string {
  return JSON.stringify({ name, value, unit, limit, ratio, better, aim, worst });
}

const HEAD = ['figure', 'value', 'unit', 'limit', 'ratio', 'worst', 'aim', ''];

/** The figures as a table for people; notes stand below it. */
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

/** Names and verdicts to the left, numbers to the right. */
function pad(cell: string, width: number, column: number): string {
  return column === 0 || column === 2 || column === 7 ? cell.padEnd(width) : cell.padStart(width);
}

/** Three digits that say something, and no exponent. */
function short(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-GB').replaceAll(',', ' ');
  return String(Number(value.toPrecision(3)));
}
