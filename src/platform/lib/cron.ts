import { createTask, parse } from 'node-cron';

/** A cron expression, as pure calculation: it starts nothing. Its moments are those of the process's time zone. */
export interface CronTimes {
  /** Returns the first moment after this one, epoch milliseconds; undefined if there is none. */
  after(ms: number): number | undefined;
}

type Fields = ReturnType<typeof parse>;
/** Whether the expression matches this day, given as its midnight in UTC. */
type DayTest = (day: Date) => boolean;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The highest value of each field: seconds, minutes, hours, days, months, days of the week. */
const HIGHEST = [59, 59, 23, 31, 12, 6];
const WEEKDAY = 5;
/** A February with five Mondays comes after 40 years if 2100 lies in between. */
const MOST_YEARS = 41;

/**
 * Parses five fields, six with the seconds first, or a name such as `@daily`; undefined if the text is none of these, or matches
 * no moment at all. If both the day of the month and the day of the week are limited, a match of either is enough. A daily time
 * occurs once on each day, an hour later if the clock skips it; everything else follows elapsed time.
 */
export function parseCron(text: string): CronTimes | undefined {
  try {
    return timesOf(text.trim());
  } catch {
    return undefined;
  }
}

function timesOf(text: string): CronTimes | undefined {
  const parts = text.split(/\s+/);
  if (parts.length === 5) parts.unshift('0');
  const spelled = parts.map((part, field) => spell(part, field)).join(' ');
  const fields = parse(spelled);
  const isDay = dayTestOf(spelled);
  const isOneTime = fields.hour.length * fields.minute.length * fields.second.length === 1;
  const onDay = isOneTime ? oneTimeOn : firstOn;
  const after = (ms: number) => {
    for (const day of daysFrom(ms, fields.month, isDay)) {
      const at = onDay(day, ms, fields);
      if (at !== undefined && at > ms) return at;
    }
    return undefined;
  };
  return after(0) === undefined ? undefined : { after };
}

/** Reads each part of a field literally, or throws: node-cron reads `janfeb` as December, and `5-1` around the end. */
function spell(part: string, field: number): string {
  if (part.startsWith('@')) return part;
  if (/[a-z\d][a-z]{3}|[a-z]{3}[a-z\d]/i.test(part)) throw new Error(`"${part}" runs names together`);
  return part
    .split(',')
    .map((token) => spellToken(token, field))
    .join();
}

/** `5/20` begins at 5, which node-cron needs as a range. */
function spellToken(token: string, field: number): string {
  const highest = HIGHEST[field] ?? 0;
  const [, first, step] = /^(.+)\/(\d+)$/.exec(token) ?? [];
  if (Number(step) > highest + 1) throw new Error(`"${token}" has a step that is longer than the field`);
  const spelled = first !== undefined && /^\w+$/.test(first) ? `${first}-${highest}/${step}` : token;
  if (/\w-\w/.test(spelled) && goesBack(spelled, field)) throw new Error(`"${token}" goes backwards`);
  return spelled;
}

function goesBack(range: string, field: number): boolean {
  const [whole = range] = range.split('/');
  const alone = HIGHEST.map((_, index) => (index === field ? whole : '*')).join(' ');
  const { second, minute, hour, dayOfMonth, month, dayOfWeek } = parse(alone);
  const values = [second, minute, hour, dayOfMonth, month, dayOfWeek][field] ?? [];
  // Sunday is both 0 and 7.
  const ends = field === WEEKDAY && values.at(-1) === 0 ? values.slice(0, -1) : values;
  return ends.some((value, index) => index > 0 && value < (ends[index - 1] as typeof value));
}

function dayTestOf(expression: string): DayTest {
  const [, , , day, month, weekday] = expression.split(' ');
  if (day === undefined) return matching(expression);
  const isAny = (part: string | undefined) => part === '*' || part === '?';
  if (isAny(day) || isAny(weekday)) return matching(`0 0 0 ${day} ${month} ${weekday}`);
  const tests = [matching(`0 0 0 ${day} ${month} *`), matching(`0 0 0 * ${month} ${weekday}`)];
  return (date) => tests.some((test) => test(date));
}

/** Matches a day with node-cron: the last Friday, the nearest working day and the like. */
function matching(expression: string): DayTest {
  const task = createTask(expression, () => undefined, { timezone: 'UTC' });
  // node-cron keeps a list of all tasks that were not destroyed.
  void task.destroy();
  return (date) => task.match(date);
}

function* daysFrom(ms: number, months: readonly number[], isDay: DayTest): Generator<Date> {
  const from = new Date(ms);
  const day = new Date(Date.UTC(from.getFullYear(), from.getMonth(), from.getDate()));
  const lastYear = day.getUTCFullYear() + MOST_YEARS;
  while (day.getUTCFullYear() <= lastYear) {
    if (!months.includes(day.getUTCMonth() + 1)) {
      day.setUTCMonth(day.getUTCMonth() + 1, 1);
      continue;
    }
    if (isDay(day)) yield day;
    day.setUTCDate(day.getUTCDate() + 1);
  }
}

function oneTimeOn(day: Date, _ms: number, { hour, minute, second }: Fields): number {
  return localTime(day, 0, hour[0], minute[0], second[0]);
}

/** Returns the first moment of the day after this one, by elapsed time: an hour that occurs twice counts twice. */
function firstOn(day: Date, ms: number, { hour, minute, second }: Fields): number | undefined {
  const end = localTime(day, 1);
  let at = Math.max(localTime(day, 0), Math.floor(ms / SECOND) * SECOND + SECOND);
  while (at < end) {
    const time = new Date(at);
    if (!hour.includes(time.getHours())) at += HOUR - time.getMinutes() * MINUTE - time.getSeconds() * SECOND;
    else if (!minute.includes(time.getMinutes())) at += MINUTE - time.getSeconds() * SECOND;
    else if (!second.includes(time.getSeconds())) at += SECOND;
    else return at;
  }
  return undefined;
}

function localTime(day: Date, later: number, hour = 0, minute = 0, second = 0): number {
  const local = new Date(day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate() + later, hour, minute, second);
  return local.getTime();
}
