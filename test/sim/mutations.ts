import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { makeCopy } from './mutants/copy.ts';
import { draw } from './mutants/draw.ts';
import type { Mutation } from './mutants/operators.ts';
import { TOP } from './mutants/places.ts';
import { reachOf } from './mutants/reach.ts';
import { summary } from './mutants/report.ts';
import { openResults, type Result } from './mutants/results.ts';
import { tryOut, WAYS, type Way } from './mutants/ways.ts';

/**
 * Proves what tests and simulation are worth: `npm run sim:mutations -- --seed S --mutants N --runs R` draws N mistakes in the code
 * that matters most, makes each of them in a copy of the project, and tries there whether R runs of the simulation find it, the
 * unit tests of its room, and where these do not, laws and scenarios about it. `--ways sim` tries only that. `--results FILE`
 * keeps JSON lines, and tries nothing again that stands there; `--from` and `--to` cut the list into parts. `--short`
 * tries nothing more of a mistake that was found.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    mutants: { type: 'string', default: '60' },
    runs: { type: 'string', default: '25' },
    ways: { type: 'string', default: WAYS.join() },
    from: { type: 'string', default: '0' },
    to: { type: 'string' },
    results: { type: 'string' },
    short: { type: 'boolean', default: false },
  },
});
const seed = Number(values.seed);
const runs = Number(values.runs);
const ways = values.ways.split(',') as Way[];
const results = openResults(values.results);
const mutations = draw(seed, Number(values.mutants));
const copy = makeCopy();
let isReached: ReturnType<typeof reachOf> | undefined;
try {
  for (const [place, mutation] of mutations.entries()) {
    if (place < Number(values.from) || place >= Number(values.to ?? mutations.length)) continue;
    await tryAll(place, mutation);
  }
} finally {
  copy.remove();
}
const own = results.all.filter((each) => each.seed === seed);
print(summary(own));

async function tryAll(place: number, mutation: Mutation): Promise<void> {
  const about = describe(place, mutation);
  for (const way of ways) {
    const tried = results.all.filter((each) => each.place === place && each.seed === seed && each.from === about.from);
    // One finder is enough, unless all are asked for; the slow tests are for what the others do not find.
    if (tried.some((each) => each.way === way || (each.found !== null && (values.short || way === 'whole')))) continue;
    note({ ...about, way, found: await tryWay(way, mutation) });
  }
}

async function tryWay(way: Way, mutation: Mutation): Promise<string | null> {
  const { folder } = copy;
  const { file } = mutation;
  if (way === 'sim') {
    isReached ??= reachOf(folder, runs);
    if (!isReached(mutation)) return null;
  }
  return (await copy.during(mutation, () => tryOut(way, { folder, file, runs }))) ?? null;
}

function note(result: Result): void {
  if (results.has(result)) return;
  results.add(result);
  print(
    `${result.place} ${result.way} ${result.at} ${result.kind}: ${result.from.slice(0, 60)} → ${result.found ?? 'nothing'}`,
  );
}

function describe(place: number, { file, kind, start, end, text }: Mutation): Omit<Result, 'way' | 'found'> {
  const source = readFileSync(join(TOP, file), 'utf8');
  const at = `${file}:${source.slice(0, start).split('\n').length}`;
  const plain = (words: string) => words.replaceAll(/\s+/g, ' ');
  return { seed, place, at, kind, from: plain(source.slice(start, end)), to: plain(text) };
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
