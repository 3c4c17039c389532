import { parseArgs } from 'node:util';
import { violations } from './checker.ts';
import { KEPT } from './kept-seeds.ts';
import { knownDays, unlikeKnown, writeKnown } from './known-days.ts';
import { drawPlan, type Plan } from './plan.ts';
import { play } from './play.ts';
import { createTemplates } from './templates.ts';

/**
 * `npm run sim -- --seed S --runs N` plays N runs from seed S on. A run that fails is shrunk, and one command repeats it:
 * `--keep` names the happenings of the plan that are left. `--events` prints what was seen, and
 * `--no-shrink` leaves failures as long as they are. `--kept` plays failures that were found before, and `--known` the days
 * whose every line is known; `--write` records these anew. `--replicas 3` plays only plans with three replicas, and `--calm-every 5` a calm
 * day only after each fifth seed, which takes half of the time.
 */
const MOST_TOLD = 10;
/** More tries than this gain little. */
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
    replicas: { type: 'string' },
    'calm-every': { type: 'string', default: '1' },
    shrink: { type: 'boolean', default: true },
  },
});
const [first, runs] = [Number(values.seed), Number(values.runs)];
const templates = await createTemplates();
let virtual = 0;
let failed = 0;
const cpuBefore = process.cpuUsage();
let played = 0;
try {
  for (const plan of plans()) {
    played++;
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
print(`${played} runs, ${failed} failed; ${hours.toFixed(0)} virtual hours, ${speed.toFixed(0)} in a minute of CPU`);
process.exitCode = failed > 0 ? 1 : 0;

function* plans(): Generator<Plan> {
  if (values.known) yield* knownDays().filter(isOfReplicas);
  else if (values.kept) yield* KEPT.map(({ plan }) => plan);
  else yield* drawn(runs);
}

function* drawn(count: number): Generator<Plan> {
  for (let seed = first, found = 0; found < count; seed++) {
    const plan = drawPlan(seed);
    if (!isOfReplicas(plan)) continue;
    found++;
    yield plan;
  }
}

function isOfReplicas({ replicas }: Plan): boolean {
  return values.replicas === undefined || replicas === Number(values.replicas);
}

async function run(plan: Plan, places: readonly number[], isQuiet = false): Promise<readonly string[]> {
  const { events, elapsed } = await play(
    only(plan, places),
    templates,
    plan.isKnown || plan.seed % Number(values['calm-every']) === 0,
  );
  if (isQuiet) return violations(events);
  if (values.events) for (const event of events) print(JSON.stringify(event));
  virtual += elapsed;
  if (plan.isKnown && values.write) writeKnown(plan, events);
  return [...violations(events), ...(plan.isKnown ? unlikeKnown(plan, events) : [])];
}

async function tell(plan: Plan, places: readonly number[], found: readonly string[]): Promise<void> {
  print(`seed ${plan.seed} fails:`);
  for (const text of found.slice(0, MOST_TOLD)) print(`  ${text}`);
  const kinds = new Set(found.map(kindOf));
  const isSame = (texts: readonly string[]) => texts.some((text) => kinds.has(kindOf(text)));
  if (plan.isKnown)
    return print('repeat it with: npm run sim -- --known; where it is meant so, --write writes it anew');
  const left = values.shrink ? await shrink(places, async (fewer) => isSame(await run(plan, fewer, true))) : places;
  for (const text of await run(plan, left, true)) print(`  of what is left: ${text}`);
  for (const place of left) print(`  ${JSON.stringify(plan.happenings[place])}`);
  print(`repeat it with: npm run sim -- --seed ${plan.seed} --keep ${left.join(',')}`);
}

function kindOf(text: string): string {
  return /^[^:]*/.exec(text)?.[0] ?? '';
}

function only(plan: Plan, places: readonly number[]): Plan {
  return { ...plan, happenings: places.flatMap((place) => plan.happenings[place] ?? []) };
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/**
 * Fewer of these places with which it still fails: leaves out halves, then quarters, and so on down to single ones.
 *
 * @param fails plays what is left
 */
export async function shrink(
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
