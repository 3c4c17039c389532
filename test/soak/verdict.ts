import type { Observed } from './observe.ts';

const MEGABYTE = 1_000_000;
const HOUR = 3_600_000;

/** The retention of the daemon in a soak, milliseconds. */
export const RETENTION = { bodies: HOUR / 2, deliveries: HOUR };
/** Old rows are searched for each hour, give or take a tenth, and some minutes later after a start. */
const PURGE = 1.1 * HOUR + HOUR / 6;

/** The share of observations that is ignored while code is compiled and caches fill. */
const WARM_UP = 0.25;

type Row = readonly string[];

interface Judged extends Observed {
  /** The file, by the most rows that it has held: it keeps its size when rows go. */
  readonly perRow: number;
}

type Quantity = 'resident' | 'heap' | 'external' | 'handles' | 'perRow';

const BOUNDS: readonly {
  readonly name: Quantity;
  readonly called: string;
  readonly unit: number;
  readonly bound: number;
}[] = [
  { name: 'resident', called: 'resident memory, MB', unit: MEGABYTE, bound: 1 },
  { name: 'heap', called: 'heap in use, MB', unit: MEGABYTE, bound: 1 },
  { name: 'external', called: 'memory outside the heap, MB', unit: MEGABYTE, bound: 1 },
  // None: there are three more connections to the workspace at one time than at another.
  { name: 'handles', called: 'open files and connections', unit: 1, bound: 0.5 },
  { name: 'perRow', called: 'database file for a row, kB', unit: 1_000, bound: 0.02 },
];

export interface Verdict {
  readonly rows: readonly Row[];
  readonly missed: readonly string[];
}

/** Without the warm-up, and the first hours, after which retention deletes as much as comes. */
function settledOf(course: readonly Observed[]): readonly Judged[] {
  const full = (RETENTION.deliveries + 2 * PURGE) / HOUR;
  let most = 0;
  const judged = course.map((each) => {
    most = Math.max(most, each.rows);
    return { ...each, perRow: each.database / most };
  });
  return judged.filter(({ hours }, at) => at >= course.length * WARM_UP && hours >= full);
}

export function judge(course: readonly Observed[]): Verdict {
  const settled = settledOf(course);
  const slopes = BOUNDS.map((each) => ({
    ...each,
    slope: slopeOf(settled.map((seen) => [seen.hours, seen[each.name] / each.unit] as const)),
  }));
  const limits = limitsOf(course);
  return {
    rows: [
      ['', 'in an hour', '±', 'may be', ''],
      ...slopes.map(({ called, bound, slope }) => {
        const figures = [slope.value, slope.margin].map((value) => value.toFixed(3));
        return [called, ...figures, `≤ ${bound}`, wordOf(slope, bound)];
      }),
      ['', 'most', '', 'may be', ''],
      ...limits.map(({ called, most, limit }) => [
        called,
        most.toFixed(2),
        '',
        `≤ ${limit.toFixed(2)}`,
        reached(most <= limit),
      ]),
    ],
    missed: [
      ...slopes.filter(({ slope, bound }) => isOver(slope, bound)).map(({ called }) => called),
      ...limits.filter(({ most, limit }) => most > limit).map(({ called }) => called),
    ],
  };
}

function limitsOf(course: readonly Observed[]) {
  const most = (name: 'oldestDelivery' | 'oldestBody' | 'log', unit: number) =>
    Math.max(...course.map((each) => each[name])) / unit;
  return [
    {
      called: 'age of a delivery, hours',
      most: most('oldestDelivery', HOUR),
      limit: (RETENTION.deliveries + PURGE) / HOUR,
    },
    { called: 'age of a body, hours', most: most('oldestBody', HOUR), limit: (RETENTION.bodies + PURGE) / HOUR },
    { called: 'write-ahead log, MiB', most: most('log', 2 ** 20), limit: 64 },
  ];
}

function wordOf(slope: Slope, bound: number): string {
  if (isOver(slope, bound)) return 'MISSED';
  return slope.value + slope.margin <= bound ? 'reached' : 'too short to tell';
}

function reached(is: boolean): string {
  return is ? 'reached' : 'MISSED';
}

/** A straight line through points, by least squares: how steep it is, and how sure that is. */
export interface Slope {
  /** Units of y for one of x. */
  readonly value: number;
  /** Half of the interval that holds the true slope with a certainty of 95 %, as far as the points are independent. */
  readonly margin: number;
}

function slopeOf(points: readonly (readonly [x: number, y: number])[]): Slope {
  const count = points.length;
  if (count < 3) throw new Error('too few observations for a slope: let it run for longer');
  const mean = (at: 0 | 1) => points.reduce((sum, point) => sum + point[at], 0) / count;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  const value = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread;
  const rest = points.reduce((sum, point) => sum + (point[1] - y - value * (point[0] - x)) ** 2, 0);
  return { value, margin: 2 * Math.sqrt(rest / (count - 2) / spread) };
}

/** Whether even the least slope that is credible is over the bound. */
function isOver({ value, margin }: Slope, bound: number): boolean {
  return value - margin > bound;
}
