import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Event } from './history.ts';
import { drawPlan, type Happening, type Plan } from './plan.ts';
import { portraitOf } from './portrait.ts';

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
