import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { type Node, parseSync, Visitor } from 'oxc-parser';
import { chanceOf, oneOf } from '../bench/quota/references/chance.ts';

export const TOP = join(import.meta.dirname, '../..');

/** Migrations of released versions, and files that another project or the generator owns. */
const LEFT_OUT = /installation-migrations|(?:^|\/)generated/;

/** The files in which mistakes are made. */
function places(): string[] {
  const all = readdirSync(join(TOP, 'src'), { recursive: true, encoding: 'utf8' });
  return all
    .filter((name) => name.endsWith('.ts') && !LEFT_OUT.test(name))
    .map((name) => join('src', name))
    .sort();
}

/** Draws mistakes, half of them in `src/sync`: for each kind of mistake evenly from all folders, none twice. */
export function draw(seed: number, count: number): Mutation[] {
  const chance = chanceOf(seed, 'mutations');
  const all = places().flatMap((file) => mutationsOf(file, readFileSync(join(TOP, file), 'utf8')));
  const isSync = ({ file }: Mutation) => file.startsWith('src/sync/');
  const half = Math.ceil(count / 2);
  const ofSync = drawFrom(all.filter(isSync), half);
  const ofOthers = drawFrom(
    all.filter((each) => !isSync(each)),
    count - half,
  );
  return Array.from({ length: count }, (_, place) => (place % 2 === 0 ? ofSync : ofOthers).shift()).filter(
    (each) => each !== undefined,
  );

  function drawFrom(mutations: readonly Mutation[], most: number): Mutation[] {
    const kinds = [...Map.groupBy(mutations, ({ kind }) => kind).values()].map((each) => [
      ...Map.groupBy(each, folderOf).values(),
    ]);
    const drawn: Mutation[] = [];
    for (let turn = 0; drawn.length < most && kinds.some((folders) => folders.length > 0); turn++) {
      const folders = kinds[turn % kinds.length] as Mutation[][];
      if (folders.length === 0) continue;
      const folder = oneOf(chance, folders);
      const mutation = oneOf(chance, folder);
      drawn.push(mutation);
      folder.splice(folder.indexOf(mutation), 1);
      if (folder.length === 0) folders.splice(folders.indexOf(folder), 1);
    }
    return drawn;
  }
}

function folderOf({ file }: Mutation): string {
  return file
    .split('/')
    .slice(0, file.startsWith('src/sync/') ? 3 : 2)
    .join('/');
}

/** One mistake in one file: the text from `start` to `end` becomes `text`. */
export interface Mutation {
  readonly file: string;
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Found = Omit<Mutation, 'file'>;
type Place = Pick<Node, 'start' | 'end'>;

const BOUNDS: Readonly<Record<string, string>> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };

/** Calls that only log or count. Without them the work is the same. */
const TELLS = /^(?:await )?(?:[\w#]+\??\.)*#?(?:logger|meter|tracer|spans?|tell\w*)\b/;

/** By which somebody changes only what is still as it was read. */
const CHANGES = /\b(?:updateTable|deleteFrom|doUpdateSet)\(/;

/** Conditions on the columns of a lease, also in reads. */
const LEASED = /^\(?'(?:\w+\.)?(?:incarnation|epoch|expires_at)'/;

/** All mistakes that can be made in a file. */
function mutationsOf(file: string, source: string): Mutation[] {
  const found: Found[] = [];
  const add = (kind: string, { start, end }: Place, text: string) => void found.push({ kind, start, end, text });
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
      const next = BOUNDS[node.operator];
      if (next) add('a bound is moved by one', node, `${textOf(node.left)} ${next} ${textOf(node.right)}`);
    },
    ExpressionStatement(node) {
      const { expression } = node;
      const isAwaited = expression.type === 'AwaitExpression';
      const isCarriedOut = isAwaited || ['CallExpression', 'AssignmentExpression'].includes(expression.type);
      if (!isCarriedOut || TELLS.test(textOf(expression))) return;
      add('a statement is left out', node, ';');
      if (isAwaited) add('an await is lost', node, `void ${textOf(expression.argument)};`);
    },
    CallExpression(node) {
      const { callee } = node;
      const given = source.slice(callee.end, node.end);
      const [work] = node.arguments;
      const split = work && splitOf(textOf(callee), textOf(work));
      if (split) add('a transaction is split', node, split);
      const rows = /^(.*?)\s*\.where$/s.exec(textOf(callee))?.[1];
      if (rows !== undefined) add('a condition of a filter is dropped', node, rows);
      if (/\.(?:filter|some|find)$/.test(textOf(callee)) && work)
        add('a condition of a filter is dropped', work, '() => true');
      const open = withoutFence(textOf(callee), given);
      if (open) add('a fence is forgotten', node, open);
    },
  });
  visitor.visit(parseSync(file, source).program);
  return found.map((each) => ({ file, ...each }));
}

/** Puts each statement into a transaction of its own. */
function splitOf(callee: string, work: string): string | undefined {
  const [, database, apart] = /^(.*?)\s*\.(?:commit(?:Relaxed)?|(transaction\(\)\s*\.execute))$/s.exec(callee) ?? [];
  if (database === undefined) return undefined;
  return `(${work})(${database}${apart === undefined ? '.query' : ''})`;
}

function withoutFence(callee: string, given: string): string | undefined {
  if (/(?:^|\.)fence(?:Of)?\??\.?$/.test(callee)) return 'undefined';
  if (/(?:^|\.)isTrusted$/.test(callee)) return 'true';
  const [, rows] = /^(.*?)\s*\.where$/s.exec(callee) ?? [];
  if (rows === undefined) return undefined;
  const isGuard = CHANGES.test(rows) && (/\.where\(/.test(rows) || /doUpdateSet\(/.test(rows));
  return isGuard || LEASED.test(given) ? rows : undefined;
}

/** Returns the test files that import a file of `src`, directly or not, those that load the fewest files first. */
export function createTestsThatLoad(): (file: string) => readonly string[] {
  const loads = new Map<string, ReadonlySet<string>>();
  const all = readdirSync(join(TOP, 'test'), { recursive: true, encoding: 'utf8' });
  for (const name of all.filter((each) => each.endsWith('.test.ts'))) {
    const loaded = new Set<string>();
    const left = [join('test', name)];
    for (let file = left.pop(); file !== undefined; file = left.pop()) {
      if (loaded.has(file)) continue;
      loaded.add(file);
      left.push(...importsOf(file));
    }
    loads.set(join('test', name), loaded);
  }
  return (file) => {
    const found = [...loads].filter(([, loaded]) => loaded.has(file));
    return found.toSorted(([, one], [, other]) => one.size - other.size).map(([test]) => test);
  };
}

const known = new Map<string, readonly string[]>();

/** Returns the files of the project that a file imports, also those that it loads later. */
function importsOf(file: string): readonly string[] {
  const before = known.get(file);
  if (before) return before;
  const source = readFileSync(join(TOP, file), 'utf8');
  const { module } = parseSync(file, source);
  const named = [
    ...module.staticImports.filter(({ entries }) => entries.length === 0 || entries.some(({ isType }) => !isType)),
    ...module.staticExports.flatMap(({ entries }) => entries),
  ].flatMap(({ moduleRequest }) => moduleRequest?.value ?? []);
  const later = module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) =>
    source.slice(start, end).replaceAll(/['"`]/g, ''),
  );
  const found = [...named, ...later]
    .filter((each) => each.startsWith('.') && each.endsWith('.ts'))
    .map((each) => relative(TOP, join(TOP, dirname(file), each)));
  known.set(file, found);
  return found;
}

/**
 * How a mistake is looked for: by the closest tests of `npm test` that load its file, by the others that load it, by all of
 * `npm test`, and by the deep tests that load its file.
 */
export const WAYS = ['closest', 'near', 'rest', 'deep'] as const;
export type Way = (typeof WAYS)[number];

const PROJECTS: Readonly<Record<Way, readonly string[]>> = {
  closest: ['fast', 'whole', 'alone'],
  near: ['fast', 'whole', 'alone'],
  rest: ['fast', 'whole', 'alone', 'postgres'],
  deep: ['deep'],
};

/** Test files. Most mistakes are found by these. */
const CLOSEST = 20;
/** A process that takes longer hangs, milliseconds. */
const PATIENCE = 600_000;
/** A test that takes longer hangs, milliseconds. */
const PATIENCE_OF_TEST = 180_000;

/**
 * Returns what showed the mistake; undefined: nothing.
 *
 * @param folder the project with the mistake
 * @param tests the test files that load the file of the mistake, the closest first
 */
export async function tryOut(way: Way, folder: string, tests: readonly string[]): Promise<string | undefined> {
  const files = { closest: tests.slice(0, CLOSEST), near: tests.slice(CLOSEST), rest: [], deep: tests }[way];
  if (way !== 'rest' && files.length === 0) return undefined;
  const { code, isLate, output } = await run(
    [
      ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', '--bail', '1'],
      ...PROJECTS[way].flatMap((project) => ['--project', project]),
      ...['--passWithNoTests', '--reporter', 'default', '--testTimeout', String(PATIENCE_OF_TEST), ...files],
    ],
    folder,
  );
  if (isLate) return 'it hangs';
  return code === 0 ? undefined : (/FAIL .*|Error: .*/.exec(output)?.[0].trim().slice(0, 160) ?? 'it ends');
}

interface Ended {
  readonly code: number | null;
  readonly isLate: boolean;
  readonly output: string;
}

function run(args: readonly string[], cwd: string): Promise<Ended> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1' };
    const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    let isLate = false;
    const collect = (text: Buffer) => {
      output += text.toString();
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    // Together with the processes that it started.
    const timer = setTimeout(() => {
      isLate = true;
      process.kill(-(child.pid as number), 'SIGKILL');
    }, PATIENCE);
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, isLate, output });
    });
  });
}
