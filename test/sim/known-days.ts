import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Event } from './history.ts';
import { drawPlan, type Happening, type Plan } from './plan.ts';

/**
 * Days without disturbances, of which each request, log line and number of rows is known. A change of what the daemon does shows here
 * what it costs: `--write` records the days anew if the change is intended. The files hold a row for each ten minutes.
 */
const FOLDER = join(import.meta.dirname, 'known');

/** Busy days, three with one process and one with three, without rules for statuses. */
const SEEDS = [119, 153, 253, 395];
/** A day with two git providers and a tracker, on which rules and people move the tasks. */
const MOVING = 473;

/** Actions of people. Other happenings depend on everything before them. */
const BY_PEOPLE: readonly Happening['do'][] = [
  ...(['pull', 'issue', 'comment', 'look', 'task', 'finish', 'remark', 'rename', 'unlink', 'link'] as const),
  ...(['set-status', 'edit-record', 'others', 'reload', 'restart', 'backfill', 'pause-backfill'] as const),
];

export function knownDays(): Plan[] {
  const still = SEEDS.map((seed): Plan => {
    const { workflow: _, happenings, ...plan } = drawPlan(seed, false);
    return { ...plan, happenings: happenings.filter((each) => each.do !== 'set-status') };
  });
  return [...still, drawPlan(MOVING, false)].map((plan) => {
    return { ...plan, happenings: plan.happenings.filter((each) => BY_PEOPLE.includes(each.do)), isKnown: true };
  });
}

/** Returns at most one difference, because later ones may follow from it, with the lines of its ten minutes. */
export function unlikeKnown({ seed }: Plan, events: readonly Event[]): string[] {
  const path = fileOf(seed);
  const known = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  const periods = periodsOf(events);
  const rows = periods.map(rowOf);
  const at = Array.from({ length: Math.max(known.length, rows.length) }).findIndex(
    (_, row) => known[row] !== rows[row],
  );
  if (at === -1) return [];
  const details = periods[at]?.lines.map(({ text }) => `  ${text}`).join('\n');
  return [`known: day ${seed} is now\n${rows[at] ?? ''}\nand was\n${known[at] ?? ''}\n${details ?? ''}`];
}

export function writeKnown({ seed }: Plan, events: readonly Event[]): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(fileOf(seed), `${periodsOf(events).map(rowOf).join('\n')}\n`);
}

const fileOf = (seed: number) => join(FOLDER, `day-${seed}.txt`);

const PERIOD_MS = 600_000;
/** Requests have lines of their own. */
const REQUEST_LOG = 'info request answered';

interface Line {
  /** Lines of one group are counted together. */
  readonly group: string;
  readonly text: string;
}

interface Period {
  /** `1:20` after the beginning. */
  readonly start: string;
  readonly lines: Line[];
}

function periodsOf(events: readonly Event[]): Period[] {
  const before = new Map<string, string>();
  const periods: Period[] = [];
  for (const event of events) {
    const line = lineOf(event, before);
    if (!line) continue;
    const start = timeOf(Math.floor(event.at / PERIOD_MS) * PERIOD_MS);
    let period = periods.at(-1);
    if (period?.start !== start) periods.push((period = { start, lines: [] }));
    period.lines.push({ ...line, text: `${timeOf(event.at)}.${event.at % 60_000} ${line.text}` });
  }
  return periods;
}

/** The hash of all lines with their moments, and the number of lines of each group. */
function rowOf({ start, lines }: Period): string {
  const groups = new Map<string, number>();
  for (const { group } of lines) groups.set(group, (groups.get(group) ?? 0) + 1);
  const digest = hash('sha256', lines.map(({ text }) => text).join('\n'), 'hex').slice(0, 8);
  const counts = [...groups]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([group, count]) => `${count} ${group}`);
  return `${start} ${digest}: ${counts.join(', ')}`;
}

function lineOf(event: Event, before: Map<string, string>): Line | undefined {
  switch (event.what) {
    case 'happened':
      return { group: 'happenings', text: `* ${JSON.stringify(event.happening)}` };
    case 'calm':
      return { group: 'happenings', text: `= ${event.name}` };
    case 'sent': {
      const { from, method, url, body } = event;
      return { group: `${method} ${new URL(url).host}`, text: `${from} ${method} ${url} ${body}` };
    }
    case 'hook':
      return { group: 'webhooks', text: `webhook of ${event.connection}: ${event.status}` };
    case 'said':
      if (event.text === REQUEST_LOG) return undefined;
      return { group: 'log lines', text: `${event.process} says: ${event.text}` };
    case 'counted':
      return { group: `${event.name} ${event.count}`, text: `counted: ${event.name} ${event.count}` };
    case 'started':
    case 'stopped':
      return { group: event.what, text: `${event.process} ${event.what}` };
    case 'owner':
      return { group: 'owners', text: `replica ${event.replica} owns the workspace, time ${event.epoch}` };
    case 'rows': {
      const rows = changedRows(event.counts, before);
      return rows === undefined ? undefined : { group: 'changed numbers of rows', text: `rows: ${rows}` };
    }
    default:
      return undefined;
  }
}

function changedRows(counts: readonly (readonly [string, string])[], before: Map<string, string>): string | undefined {
  const changed = counts.filter(([table, count]) => before.get(table) !== count);
  for (const [table, count] of changed) before.set(table, count);
  return changed.length === 0 ? undefined : changed.map(([table, count]) => `${table} ${count}`).join('; ');
}

function timeOf(at: number): string {
  return `${Math.floor(at / 3_600_000)}:${String(Math.floor((at / 60_000) % 60)).padStart(2, '0')}`;
}
