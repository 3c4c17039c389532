import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { violations } from './checker.ts';
import { knownDays, unlikeKnown, writeKnown } from './known-days.ts';
import { drawPlan, type Plan } from './plan.ts';
import { play } from './play.ts';
import { createTemplates } from './templates.ts';

/**
 * `npm run sim -- --seed S --runs N` plays N runs from seed S on. A run that fails is shrunk, and one command repeats it:
 * `--keep` names the happenings of the plan that are left. `--events` prints what was seen, and
 * `--no-shrink` leaves failures as long as they are. `--kept` plays the failures of `kept.jsonl`, and `--known` the days
 * whose every line is known; `--write` records these anew. `--calm-every 5` plays a calm day only after each fifth seed, which takes
 * half of the time.
 */
const MOST_TOLD = 10;
const MOST_TRIES = 120;
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '1' },
    keep: { type: 'string' },
    kept: { type: 'boolean', default: false },
    known: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    events: { type: 'boolean', default: false },
    'calm-every': { type: 'string', default: '1' },
    shrink: { type: 'boolean', default: true },
  },
});
const templates = await createTemplates();
let virtual = 0;
let failed = 0;
const cpuBefore = process.cpuUsage();
const plans = values.known ? knownDays() : values.kept ? keptPlans() : drawnPlans();
try {
  for (const plan of plans) {
    const places = values.keep?.split(',').map(Number) ?? [...plan.happenings.keys()];
    const found = await run(plan, places);
    if (found.length === 0) continue;
    failed++;
    await tell(plan, places, found);
  }
} finally {
  templates.remove();
}
const { user, system } = process.cpuUsage(cpuBefore);
const hours = virtual / 3_600_000;
const speed = hours / ((user + system) / 60e6);
print(
  `${plans.length} runs, ${failed} failed; ${hours.toFixed(0)} virtual hours, ${speed.toFixed(0)} in a minute of CPU`,
);
process.exitCode = failed > 0 ? 1 : 0;

function drawnPlans(): readonly Plan[] {
  return Array.from({ length: Number(values.runs) }, (_, index) => drawPlan(Number(values.seed) + index));
}

/** Failures that the simulation found, shrunk, and their causes. Plans are whole: what a seed draws changes with what is drawn. */
function keptPlans(): readonly Plan[] {
  const lines = readFileSync(join(import.meta.dirname, 'kept.jsonl'), 'utf8')
    .trimEnd()
    .split('\n');
  return lines.map((line) => (JSON.parse(line) as { readonly why: string; readonly plan: Plan }).plan);
}

async function run(plan: Plan, places: readonly number[], isQuiet = false): Promise<readonly string[]> {
  const isCalm = plan.isKnown || plan.seed % Number(values['calm-every']) === 0;
  const { events, elapsed } = await play(only(plan, places), templates, isCalm);
  if (isQuiet) return violations(events);
  if (values.events) for (const event of events) print(JSON.stringify(event));
  virtual += elapsed;
  if (plan.isKnown && values.write) writeKnown(plan, events);
  return [...violations(events), ...(plan.isKnown ? unlikeKnown(plan, events) : [])];
}

async function tell(plan: Plan, places: readonly number[], found: readonly string[]): Promise<void> {
  print(`seed ${plan.seed} fails:`);
  for (const text of found.slice(0, MOST_TOLD)) print(`  ${text}`);
  if (plan.isKnown)
    return print('repeat it with: npm run sim -- --known; where it is meant so, --write writes it anew');
  const kindOf = (text: string) => text.split(':')[0];
  const kinds = new Set(found.map(kindOf));
  const isSame = (texts: readonly string[]) => texts.some((text) => kinds.has(kindOf(text)));
  const left = values.shrink ? await shrink(places, async (fewer) => isSame(await run(plan, fewer, true))) : places;
  for (const text of await run(plan, left, true)) print(`  of what is left: ${text}`);
  print(`repeat it with: npm run sim -- --seed ${plan.seed} --keep ${left.join(',')}`);
  print(`keep it in test/sim/kept.jsonl: ${JSON.stringify({ why: '', plan: only(plan, left) })}`);
}

function only(plan: Plan, places: readonly number[]): Plan {
  return { ...plan, happenings: places.flatMap((place) => plan.happenings[place] ?? []) };
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Fewer of these places with which it still fails: leaves out halves, then quarters, and so on down to single ones. */
async function shrink(
  places: readonly number[],
  fails: (places: readonly number[]) => Promise<boolean>,
): Promise<readonly number[]> {
  let left = places;
  let tries = 0;
  for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < left.length && tries < MOST_TRIES; ) {
      const fewer = left.filter((_, index) => index < from || index >= from + size);
      tries++;
      if (await fails(fewer)) left = fewer;
      else from += size;
    }
  }
  return left;
}
