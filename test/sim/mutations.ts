import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { type Node, parseSync, Visitor } from 'oxc-parser';
import { chanceOf, oneOf } from '../bench/quota/references/chance.ts';
import { TOP } from '../support/harness/processes.ts';

/**
 * Measures what the tests find: `npm run sim:mutations -- --seed S --mutants N` draws N mistakes, makes each in a copy of the project,
 * and prints what showed it. `--from` and `--to` select a part of the list, `--ways closest` tries only the tests that load the fewest
 * files beside it.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    mutants: { type: 'string', default: '120' },
    ways: { type: 'string', default: 'closest,near,rest' },
    from: { type: 'string', default: '0' },
    to: { type: 'string' },
  },
});

interface Mutation {
  readonly file: string;
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The projects of a way, and which of the tests that load the file of the mistake it plays, the closest first. */
type Way = readonly [name: string, projects: readonly string[], pick: (tests: readonly string[]) => readonly string[]];

const CLOSEST = 20;
const NEAR = ['fast', 'whole', 'alone'];
const WAYS: readonly Way[] = [
  ['closest', NEAR, (tests) => tests.slice(0, CLOSEST)],
  ['near', NEAR, (tests) => tests.slice(CLOSEST)],
  ['rest', [...NEAR, 'postgres'], () => []],
  ['deep', ['deep'], (tests) => tests],
];
/** A process or a test that takes longer hangs, milliseconds. */
const PATIENCE = 600_000;
const PATIENCE_OF_TEST = 180_000;

// A seed may be the hash of a commit.
const seed = Number.parseInt(hash('sha256', values.seed, 'hex').slice(0, 12), 16);
const loads = loadedByTests();
const folder = mkdtempSync(join(tmpdir(), 'worksync-mutations-'));
const survivors: string[] = [];
const found = { all: 0, sync: 0 };
const tried = { all: 0, sync: 0 };
try {
  copyProject();
  const [from, to] = [Number(values.from), Number(values.to ?? values.mutants)];
  for (const [place, mutation] of draw(Number(values.mutants)).entries())
    if (place >= from && place < to) await tryAll(place, mutation);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const text of survivors) print(`survives: ${text}`);
print(`found ${found.all} of ${tried.all}, in src/sync ${found.sync} of ${tried.sync}`);

function copyProject(): void {
  // Some tests start the daemon as another user, who must be able to read it.
  chmodSync(folder, 0o755);
  for (const name of readdirSync(TOP))
    if (!['.git', 'node_modules', 'dist'].includes(name))
      cpSync(join(TOP, name), join(folder, name), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(folder, 'node_modules'));
}

async function tryAll(place: number, { file, kind, start, end, text }: Mutation): Promise<void> {
  const source = readFileSync(join(TOP, file), 'utf8');
  const line = source.slice(0, start).split('\n').length;
  const about = `${place} ${file}:${line} [${kind}] ${source.slice(start, end)} → ${text}`.replaceAll(/\s+/g, ' ');
  writeFileSync(join(folder, file), source.slice(0, start) + text + source.slice(end));
  let shown: string | undefined;
  for (const way of WAYS.filter(([name]) => values.ways.split(',').includes(name))) shown ??= await tryOut(way, file);
  writeFileSync(join(folder, file), source);
  print(`${about}: ${shown ?? 'nothing'}`);
  for (const part of file.startsWith('src/sync/') ? (['all', 'sync'] as const) : (['all'] as const)) {
    tried[part]++;
    if (shown !== undefined) found[part]++;
  }
  if (shown === undefined) survivors.push(about);
}

/** Returns what showed the mistake; undefined: nothing. */
async function tryOut([name, projects, pick]: Way, file: string): Promise<string | undefined> {
  const byLoad = [...loads].filter(([, loaded]) => loaded.has(file)).toSorted(([, a], [, b]) => a.size - b.size);
  const files = pick(byLoad.map(([test]) => test));
  if (name !== 'rest' && files.length === 0) return undefined;
  const args = [
    ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', '--bail', '1'],
    ...projects.flatMap((project) => ['--project', project]),
    ...['--passWithNoTests', '--reporter', 'default', '--testTimeout', String(PATIENCE_OF_TEST), ...files],
  ];
  const env = { ...process.env, NO_COLOR: '1' };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => void (output += String(piece)));
  return new Promise((resolve) => {
    // Together with the processes that it started.
    const timer = setTimeout(() => {
      process.kill(-(child.pid as number), 'SIGKILL');
      resolve('it hangs');
    }, PATIENCE);
    child.once('close', (code) => {
      clearTimeout(timer);
      const said = /FAIL .*|Error: .*/.exec(output)?.[0].trim().slice(0, 160) ?? 'it ends';
      resolve(code === 0 ? undefined : said);
    });
  });
}

/** Draws mistakes, half of them in `src/sync`: for each kind of mistake evenly from all folders, none twice. */
function draw(count: number): Mutation[] {
  const chance = chanceOf(seed, 'mutations');
  // Migrations of released versions, and files that the generator or another project owns, are left out.
  const files = filesBelow('src').filter((name) => !/installation-migrations|(?:^|\/)generated/.test(name));
  const all = files.sort().flatMap((file) => mutationsOf(file, readFileSync(join(TOP, file), 'utf8')));
  const half = Math.ceil(count / 2);
  const [ofSync, others] = [true, false].map((isSync) =>
    all.filter(({ file }) => file.startsWith('src/sync/') === isSync),
  ) as [Mutation[], Mutation[]];
  const [first, second] = [drawFrom(ofSync, half), drawFrom(others, count - half)];
  return Array.from({ length: count }, (_, place) => (place % 2 === 0 ? first : second).shift()).filter(
    (each) => each !== undefined,
  );

  function drawFrom(mutations: readonly Mutation[], most: number): Mutation[] {
    const kinds = [...Map.groupBy(mutations, ({ kind }) => kind).values()].map((each) => [
      ...Map.groupBy(each, ({ file }) =>
        file
          .split('/')
          .slice(0, file.startsWith('src/sync/') ? 3 : 2)
          .join('/'),
      ).values(),
    ]);
    const drawn: Mutation[] = [];
    for (let turn = 0; drawn.length < most && kinds.some((folders) => folders.length > 0); turn++) {
      const folders = kinds[turn % kinds.length] as Mutation[][];
      if (folders.length === 0) continue;
      const own = oneOf(chance, folders);
      const mutation = oneOf(chance, own);
      drawn.push(mutation);
      own.splice(own.indexOf(mutation), 1);
      if (own.length === 0) folders.splice(folders.indexOf(own), 1);
    }
    return drawn;
  }
}

function mutationsOf(file: string, source: string): Mutation[] {
  const made: Mutation[] = [];
  type Place = Pick<Node, 'start' | 'end'>;
  const add = (kind: string, { start, end }: Place, text: string) => void made.push({ file, kind, start, end, text });
  const textOf = ({ start, end }: Place) => source.slice(start, end);
  const invert = (test: Place) => add('a condition is inverted', test, `!(${textOf(test)})`);
  const visitor = new Visitor({
    IfStatement: ({ test }) => invert(test),
    ConditionalExpression: ({ test }) => invert(test),
    LogicalExpression(node) {
      add('an operand is dropped', node, textOf(node.left));
      add('an operand is dropped', node, textOf(node.right));
    },
    BinaryExpression(node) {
      const next = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }[node.operator as string];
      if (next) add('a bound is moved by one', node, `${textOf(node.left)} ${next} ${textOf(node.right)}`);
    },
    ExpressionStatement(node) {
      const { expression } = node;
      const isAwaited = expression.type === 'AwaitExpression';
      const isCarriedOut = isAwaited || ['CallExpression', 'AssignmentExpression'].includes(expression.type);
      // Without what only logs or counts the work is the same.
      const tells = /^(?:await )?(?:[\w#]+\??\.)*#?(?:logger|meter|tracer|spans?|tell\w*)\b/;
      if (!isCarriedOut || tells.test(textOf(expression))) return;
      add('a statement is left out', node, ';');
      if (isAwaited) add('an await is lost', node, `void ${textOf(expression.argument)};`);
    },
    CallExpression(node) {
      const callee = textOf(node.callee);
      const [work] = node.arguments;
      const split = work && splitOf(callee, textOf(work));
      if (split) add('a transaction is split', node, split);
      const rows = /^(.*?)\s*\.where$/s.exec(callee)?.[1];
      if (rows !== undefined) add('a condition of a filter is dropped', node, rows);
      if (/\.(?:filter|some|find)$/.test(callee) && work) add('a condition of a filter is dropped', work, '() => true');
      const open = withoutFence(callee, rows, source.slice(node.callee.end, node.end));
      if (open) add('a fence is forgotten', node, open);
    },
  });
  visitor.visit(parseSync(file, source).program);
  return made;
}

/** Puts each statement into a transaction of its own. */
function splitOf(callee: string, work: string): string | undefined {
  const [, database, apart] = /^(.*?)\s*\.(?:commit(?:Relaxed)?|(transaction\(\)\s*\.execute))$/s.exec(callee) ?? [];
  return database && `(${work})(${database}${apart === undefined ? '.query' : ''})`;
}

/** Removes a check before a change: a fence, `isTrusted`, or the condition under which a row is updated or deleted. */
function withoutFence(callee: string, rows: string | undefined, given: string): string | undefined {
  if (/(?:^|\.)fence(?:Of)?\??\.?$/.test(callee)) return 'undefined';
  if (/(?:^|\.)isTrusted$/.test(callee)) return 'true';
  if (rows === undefined) return undefined;
  const changes = /\b(?:updateTable|deleteFrom|doUpdateSet)\(/.test(rows);
  const isGuard = changes && (/\.where\(/.test(rows) || /doUpdateSet\(/.test(rows));
  return isGuard || /^\(?'(?:\w+\.)?(?:incarnation|epoch|expires_at)'/.test(given) ? rows : undefined;
}

/** By test file, the files of the project that it imports, directly or not. */
function loadedByTests(): ReadonlyMap<string, ReadonlySet<string>> {
  const known = new Map<string, readonly string[]>();
  const tests = filesBelow('test').filter((name) => name.endsWith('.test.ts'));
  return new Map(
    tests.map((test) => {
      const loaded = new Set<string>();
      for (const left = [test]; left.length > 0; ) {
        const file = left.pop() as string;
        if (loaded.has(file)) continue;
        loaded.add(file);
        if (!known.has(file)) known.set(file, importsOf(file));
        left.push(...(known.get(file) ?? []));
      }
      return [test, loaded];
    }),
  );
}

function importsOf(file: string): readonly string[] {
  const source = readFileSync(join(TOP, file), 'utf8');
  const { module } = parseSync(file, source);
  const named = [
    ...module.staticImports.filter(({ entries }) => entries.length === 0 || entries.some(({ isType }) => !isType)),
    ...module.staticExports.flatMap(({ entries }) => entries),
  ].flatMap(({ moduleRequest }) => moduleRequest?.value ?? []);
  const later = module.dynamicImports.map(({ moduleRequest: { start, end } }) =>
    source.slice(start, end).replaceAll(/['"`]/g, ''),
  );
  return [...named, ...later]
    .filter((each) => each.startsWith('.') && each.endsWith('.ts'))
    .map((each) => relative(TOP, join(TOP, dirname(file), each)));
}

function filesBelow(start: string): string[] {
  const all = readdirSync(join(TOP, start), { recursive: true, encoding: 'utf8' });
  return all.filter((name) => name.endsWith('.ts')).map((name) => join(start, name));
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
