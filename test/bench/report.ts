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
}

/** A figure with what only people read. */
export interface Measured extends Figure {
  /** Lowest and highest of the runs: of `ratio`, or of `value` where there is no ratio. */
  readonly spread: readonly [low: number, high: number];
  readonly note?: string;
}

type Meaning = Pick<Figure, 'name' | 'unit' | 'better' | 'aim'> & Pick<Measured, 'note'>;

/** The middle one; of an even number the lower of the two in the middle, so that it is a figure that was measured. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  if (middle === undefined) throw new Error('a median of nothing');
  return middle;
}

/** A figure that stands alone. */
export function figure(meaning: Meaning, values: readonly number[]): Measured {
  return { ...meaning, value: median(values), limit: null, ratio: null, spread: extremes(values) };
}

/**
 * A figure against another that was measured in the same round: value, limit and ratio are those of the round with the
 * median ratio, so that they belong together.
 */
export function compared(meaning: Meaning, values: readonly number[], limits: readonly number[]): Measured {
  const ratios = values.map((value, round) => value / (limits[round] ?? Number.NaN));
  const ratio = median(ratios);
  const round = ratios.indexOf(ratio);
  return { ...meaning, value: values[round] ?? 0, limit: limits[round] ?? null, ratio, spread: extremes(ratios) };
}

function extremes(values: readonly number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}

/** Whether the aim is reached; undefined where there is none. */
export function reaches({ value, ratio, better, aim }: Figure): boolean | undefined {
  if (aim === false) return undefined;
  return better === 'higher' ? (ratio ?? value) >= aim : (ratio ?? value) <= aim;
}

export function jsonLine({ name, value, unit, limit, ratio, better, aim }: Figure): string {
  return JSON.stringify({ name, value, unit, limit, ratio, better, aim });
}

const HEAD = ['figure', 'value', 'unit', 'limit', 'ratio', 'lowest–highest', 'aim', ''];

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
  const { name, value, unit, limit, ratio, better, aim, spread } = measured;
  const reached = reaches(measured);
  return [
    name,
    short(value),
    unit,
    limit === null ? '' : short(limit),
    ratio === null ? '' : short(ratio),
    `${short(spread[0])}–${short(spread[1])}`,
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
