import { hash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createTestsThatLoad, draw, type Mutation, TOP, tryOut, WAYS, type Way } from './mutants.ts';

/**
 * Measures what the tests find: `npm run sim:mutations -- --seed S --mutants N` draws N mistakes, makes each in a copy of the project,
 * and reports whether a test fails. `--results FILE` keeps JSON lines, so that an interrupted run goes on. `--from` and `--to` select a
 * part of the list, `--ways closest` tries only the tests that load the fewest files beside it.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    mutants: { type: 'string', default: '120' },
    ways: { type: 'string', default: 'closest,near,rest' },
    from: { type: 'string', default: '0' },
    to: { type: 'string' },
    results: { type: 'string' },
  },
});
/** A seed may be the hash of a commit. */
const seed = Number.parseInt(hash('sha256', values.seed, 'hex').slice(0, 12), 16);
const ways = WAYS.filter((way) => values.ways.split(',').includes(way));
const results = openResults(values.results);
const mutations = draw(seed, Number(values.mutants));
const testsThatLoad = createTestsThatLoad();
const copy = makeCopy();
try {
  for (const [place, mutation] of mutations.entries())
    if (place >= Number(values.from) && place < Number(values.to ?? mutations.length)) await tryAll(place, mutation);
} finally {
  copy.remove();
}
print(summary(results.all.filter((each) => each.seed === seed)));

/** Tries the ways in their order until one finds the mistake. */
async function tryAll(place: number, mutation: Mutation): Promise<void> {
  const about = describe(place, mutation);
  for (const way of ways) {
    const known = results.all.filter((each) => each.place === place && each.seed === seed && each.from === about.from);
    if (known.some((each) => each.way === way || each.found !== null)) continue;
    const tests = testsThatLoad(mutation.file);
    const found = (await copy.during(mutation, () => tryOut(way, copy.folder, tests))) ?? null;
    results.add({ ...about, way, found });
    print(`${place} ${way} ${about.at} ${about.kind}: ${about.from.slice(0, 60)} → ${found ?? 'nothing'}`);
  }
}

function describe(place: number, { file, kind, start, end, text }: Mutation): Omit<Result, 'way' | 'found'> {
  const source = readFileSync(join(TOP, file), 'utf8');
  const at = `${file}:${source.slice(0, start).split('\n').length}`;
  const plain = (words: string) => words.replaceAll(/\s+/g, ' ');
  return { seed, place, at, kind, from: plain(source.slice(start, end)), to: plain(text) };
}

/** One line for each mistake that nothing found, and the totals. */
function summary(all: readonly Result[]): string {
  const tried = [...Map.groupBy(all, ({ place }) => place).values()];
  const isFound = (tries: readonly Result[]) => tries.some(({ found }) => found !== null);
  const survivors = tried.filter((tries) => !isFound(tries)).map(([first]) => first as Result);
  const part = (some: readonly (readonly Result[])[]) => `${some.filter(isFound).length} of ${some.length}`;
  const ofSync = tried.filter(([first]) => first?.at.startsWith('src/sync/'));
  const lines = survivors.map(({ at, kind, from, to }) => `survives: ${at} ${kind}: ${from} → ${to}`);
  return [...lines, `found ${part(tried)}, in src/sync ${part(ofSync)}`].join('\n');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** A copy of the project in which mistakes are made. */
export interface Copy {
  readonly folder: string;
  /** With this mistake in it, for as long as the work takes. */
  during<Result>(mutation: Mutation, work: () => Promise<Result>): Promise<Result>;
  remove(): void;
}

const LEFT = new Set(['.git', 'node_modules', 'dist']);

export function makeCopy(): Copy {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-mutations-'));
  // Some tests start the daemon as another user, who must be able to read it.
  chmodSync(folder, 0o755);
  for (const name of readdirSync(TOP))
    if (!LEFT.has(name)) cpSync(join(TOP, name), join(folder, name), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    async during({ file, start, end, text }, work) {
      const source = readFileSync(join(TOP, file), 'utf8');
      writeFileSync(join(folder, file), source.slice(0, start) + text + source.slice(end));
      try {
        return await work();
      } finally {
        writeFileSync(join(folder, file), source);
      }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** One mistake, tried in one way. */
export interface Result {
  readonly seed: number;
  /** Its place among those that the seed draws. */
  readonly place: number;
  readonly at: string;
  readonly kind: string;
  /** The original text and its replacement. */
  readonly from: string;
  readonly to: string;
  readonly way: Way;
  /** The test that found it, or why it cannot be observed; null if no test found it. */
  readonly found: string | null;
}

/** Results of this run and of those before it, as JSON lines: a run that was interrupted goes on, and may be cut into parts. */
export interface Results {
  readonly all: readonly Result[];
  add(result: Result): void;
}

export function openResults(file: string | undefined): Results {
  const lines = file !== undefined && existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  const all = lines.map((line) => JSON.parse(line) as Result);
  return {
    all,
    add(result) {
      all.push(result);
      if (file !== undefined) appendFileSync(file, `${JSON.stringify(result)}\n`);
    },
  };
}
