import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Event } from './history.ts';
import { drawPlan, type Happening, type Plan } from './plan.ts';

/**
 * Days on which nothing is disturbed, and which are known to the line: each request with its moment, what the log says, and how many
 * rows are left. Who changes what the daemon does sees here what that costs, and writes the days anew where it was meant.
 */
const FOLDER = join(import.meta.dirname, 'known');

/** On which much happens: three of one process, and one of three. No rules decide about statuses there. */
const SEEDS = [119, 153, 253, 395];
/** Two git providers and a tracker; rules and people move the tasks. */
const MOVING = 473;

/** What people do. All else comes from somewhere else, and at moments that depend on everything before. */
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

/** What is otherwise than it is known; at most one line, for all that comes after may follow from it. */
export function unlikeKnown({ seed }: Plan, events: readonly Event[]): string[] {
  const path = fileOf(seed);
  const known = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  const lines = [...portraitOf(events), ''];
  const at = Array.from({ length: Math.max(known.length, lines.length) }).findIndex(
    (_, line) => known[line] !== lines[line],
  );
  if (at === -1) return [];
  return [`known: day ${seed}, line ${at + 1} is "${lines[at] ?? ''}", and was "${known[at] ?? ''}"`];
}

export function writeKnown({ seed }: Plan, events: readonly Event[]): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(fileOf(seed), [...portraitOf(events), ''].join('\n'));
}

const fileOf = (seed: number) => join(FOLDER, `day-${seed}.txt`);

/** Characters of what is sent; of all others a hash. */
const MOST_SHOWN = 120;
/** Each request stands here itself. */
const OF_REQUESTS = 'info request answered';

/** A day as a reader sees it: who asks what of whom and when, what is said of it, and which rows it leaves. One line each. */
function portraitOf(events: readonly Event[]): string[] {
  const before = new Map<string, string>();
  return events.flatMap((event) => {
    const text = lineOf(event, before);
    return text === undefined ? [] : [`${timeOf(event.at)} ${text}`];
  });
}

function lineOf(event: Event, before: Map<string, string>): string | undefined {
  switch (event.what) {
    case 'happened':
      return `* ${JSON.stringify(event.happening)}`;
    case 'calm':
      return `= ${event.name}`;
    case 'sent':
      return `${event.from} ${event.method} ${shown(event.url)} ${shown(event.body)}`.trim();
    case 'hook':
      return `webhook of ${event.connection}: ${event.status}`;
    case 'said':
      return event.text === OF_REQUESTS ? undefined : `${event.process} says: ${event.text}`;
    case 'counted':
      return `counted: ${event.name} ${event.count}`;
    case 'started':
    case 'stopped':
      return `${event.process} ${event.what}`;
    case 'owner':
      return `replica ${event.replica} owns the workspace, time ${event.epoch}`;
    case 'rows':
      return rowsOf(event.counts, before);
    default:
      return undefined;
  }
}

/** Those that are others than before. */
function rowsOf(counts: readonly (readonly [string, string])[], before: Map<string, string>): string | undefined {
  const changed = counts.filter(([table, count]) => before.get(table) !== count);
  for (const [table, count] of changed) before.set(table, count);
  return changed.length === 0 ? undefined : `rows: ${changed.map(([table, count]) => `${table} ${count}`).join('; ')}`;
}

function shown(text: string): string {
  const rest = text.slice(MOST_SHOWN);
  return text.slice(0, MOST_SHOWN) + (rest === '' ? '' : `… ${hash('sha256', rest, 'hex').slice(0, 6)}`);
}

/** `1:02:03.004` after the beginning. */
function timeOf(at: number): string {
  const pad = (value: number, length = 2) => String(Math.floor(value)).padStart(length, '0');
  return `${Math.floor(at / 3_600_000)}:${pad((at / 60_000) % 60)}:${pad((at / 1_000) % 60)}.${pad(at % 1_000, 3)}`;
}
