import { parseDuration } from './duration.ts';

/** When something is done again. */
export type Schedule = { readonly everyMs: number } | { readonly cron: string } | 'off';

const SHORTEST = 10_000;
const MINUTE = 60_000;
const NAMES = {
  month: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
  weekday: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
};

interface Field {
  readonly least: number;
  readonly most: number;
  readonly names?: readonly string[];
}

const SECOND_FIELD: Field = { least: 0, most: 59 };
const FIELDS: readonly Field[] = [
  { least: 0, most: 59 },
  { least: 0, most: 23 },
  { least: 1, most: 31 },
  { least: 1, most: 12, names: NAMES.month },
  { least: 0, most: 7, names: NAMES.weekday },
];

/** The schedule that the text means, or what is wrong where it means none. */
export function parseSchedule(text: string): Schedule | { readonly problem: string } {
  if (text === 'off') return 'off';
  const everyMs = parseDuration(text);
  if (everyMs !== undefined) return everyMs < SHORTEST ? { problem: 'the shortest interval is 10s' } : { everyMs };
  return parseCron(text) ? { cron: text } : { problem: 'expected a duration such as 5m, a cron expression, or off' };
}

/**
 * Shortest pause between two polls of a schedule, milliseconds.
 * For cron only seconds and minutes are looked at, so the answer may be shorter than the truth, never longer.
 */
export function shortestPause(schedule: Exclude<Schedule, 'off'>): number {
  if ('everyMs' in schedule) return schedule.everyMs;
  const fields = parseCron(schedule.cron);
  const [seconds = [], minutes = []] = fields ?? [];
  return seconds.length > 1 ? smallestGap(seconds, 60) * 1_000 : smallestGap(minutes, 60) * MINUTE;
}

/** Values of each field, seconds first (0 where the expression has five fields); undefined where it is no cron. */
function parseCron(text: string): readonly (readonly number[])[] | undefined {
  const words = text.trim().split(/\s+/);
  if (words.length === FIELDS.length) words.unshift('0');
  if (words.length !== FIELDS.length + 1) return undefined;
  const fields = [SECOND_FIELD, ...FIELDS].map((field, at) => parseField(words[at] ?? '', field));
  return fields.every((values) => values !== undefined) ? fields : undefined;
}

function parseField(word: string, field: Field): readonly number[] | undefined {
  const values = new Set<number>();
  for (const part of word.split(',')) {
    const range = parsePart(part, field);
    if (range === undefined) return undefined;
    for (let value = range.from; value <= range.to; value += range.step) values.add(value);
  }
  return [...values].sort((a, b) => a - b);
}

/** `*`, `5`, `mon`, `1-5`, each with an optional `/step`. */
function parsePart(part: string, field: Field): { from: number; to: number; step: number } | undefined {
  const match = /^(?:\*|([a-z0-9]{1,3})(?:-([a-z0-9]{1,3}))?)(?:\/(\d{1,2}))?$/i.exec(part);
  if (!match) return undefined;
  const step = match[3] === undefined ? 1 : Number(match[3]);
  const from = match[1] === undefined ? field.least : parseValue(match[1], field);
  const to = match[2] === undefined ? endWithoutRange(match, from, field) : parseValue(match[2], field);
  if (from === undefined || to === undefined || step === 0 || from > to) return undefined;
  return { from, to, step };
}

function endWithoutRange(match: RegExpExecArray, from: number | undefined, field: Field): number | undefined {
  const isOneValue = match[1] !== undefined && match[3] === undefined;
  return isOneValue ? from : field.most;
}

function parseValue(word: string, field: Field): number | undefined {
  const named = field.names?.indexOf(word.toLowerCase()) ?? -1;
  if (named !== -1) return named + field.least;
  const value = /^\d+$/.test(word) ? Number(word) : Number.NaN;
  return value >= field.least && value <= field.most ? value : undefined;
}

/** Smallest distance between neighbours on a dial of `size`; the whole dial where there is one value. */
function smallestGap(values: readonly number[], size: number): number {
  const gaps = values.map((value, at) => (values[at + 1] ?? (values[0] ?? 0) + size) - value);
  return Math.min(...gaps);
}
