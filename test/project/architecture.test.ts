import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

/** Who may import whom: the table of src/README.md as data. `pure` stands for model, lib and errors. */
const PURE = ['model', 'lib', 'errors'];
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'main.ts': ['*'],
  daemon: ['*'],
  cli: ['*'],
  demo: ['model', 'lib'],
  model: [],
  lib: [],
  errors: ['model'],
  observe: PURE,
  config: PURE,
  http: PURE,
  throttle: [...PURE, 'store'],
  store: PURE,
  lease: [...PURE, 'store'],
  replicas: [...PURE, 'http', 'lease'],
  workspace: [...PURE, 'http'],
  connectors: [...PURE, 'http', 'connectors/connector.ts', 'connectors/kit'],
  'connectors/kit': [...PURE, 'http', 'connectors/connector.ts'],
  intake: [...PURE, 'http', 'store', 'connectors/connector.ts'],
  reconcile: [...PURE, 'store', 'connectors/connector.ts'],
  convert: [...PURE, 'config', 'http', 'store', 'workspace', 'connectors/connector.ts', 'connectors/registry.ts'],
  outbox: [...PURE, 'store', 'workspace'],
  client: [...PURE, 'http', 'throttle/windows.ts', 'workspace'],
  'write-back': [...PURE, 'store', 'connectors/connector.ts', 'intake/pauses.ts'],
  learn: [...PURE, 'http', 'store', 'workspace'],
  gateway: [...PURE, 'http', 'store', 'workspace', 'learn', 'replicas'],
  operator: [
    ...PURE,
    'config',
    'store',
    'throttle',
    'workspace',
    'connectors/connector.ts',
    'intake',
    'reconcile',
    'outbox',
    'gateway',
    'lease',
    'replicas',
  ],
  web: [...PURE, 'http', 'store', 'workspace', 'operator', 'replicas'],
  'workspace-service': [...PURE, 'http', 'workspace/contract.ts', 'connectors/connector.ts'],
};

/** The only folders or files that may import a package. A package that is not listed may be imported nowhere. */
const PACKAGE_OWNERS: Readonly<Record<string, readonly string[]>> = {
  undici: ['http'],
  fastify: ['http'],
  'secure-json-parse': ['http'],
  'better-sqlite3': ['lib/database/sqlite.ts'],
  'lz4-napi': ['store/bodies.ts'],
  kysely: ['lib/database', 'store', 'workspace-service'],
  pg: ['lib/database'],
  'p-queue': ['throttle'],
  pino: ['observe'],
  'prom-client': ['observe'],
  'node-cron': ['lib/cron.ts'],
  '@octokit/webhooks': ['connectors/github', 'demo'],
  'universal-github-app-jwt': ['connectors/github'],
  parse5: ['connectors/azure-boards'],
  zod: ['config', 'connectors', 'workspace', 'workspace-service', 'reconcile', 'web/admin-bodies.ts'],
  re2js: ['lib/pattern.ts'],
  yaml: ['config'],
  'fastest-levenshtein': ['lib'],
  marked: ['web/markdown.ts'],
  commander: ['cli'],
  'close-with-grace': ['cli'],
};

/**
 * Rooms whose files bear the name of one noun: a command, the use case behind it, the contract of the workspace API, and the
 * reference service that answers by it. Each of them may have one file of a name; nobody else has one of that name.
 */
const NOUN_ROOMS = ['cli', 'operator', 'workspace/contract', 'workspace-service'];

/** What connectors share. */
const KIT = 'connectors/kit';

const SRC = join(import.meta.dirname, '../../src');

interface SourceFile {
  /** Relative to src, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const FILES: readonly SourceFile[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8');
    return { path: path.replaceAll('\\', '/'), text, imports: importsOf(text) };
  });

function importsOf(text: string): string[] {
  const code = withoutComments(text);
  const patterns = [/\bfrom\s+['"]([^'"]+)['"]/g, /\bimport\s+['"]([^'"]+)['"]/g, /\bimport\(\s*['"]([^'"]+)['"]/g];
  return patterns.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1] as string));
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

function folderOf(path: string): string {
  return path.split('/')[0] as string;
}

function targetOf(file: SourceFile, specifier: string): string {
  return relative(SRC, normalize(join(SRC, dirname(file.path), specifier))).replaceAll('\\', '/');
}

function isAllowed(file: SourceFile, target: string): boolean {
  const from = folderOf(file.path);
  const to = folderOf(target);
  if (from === 'connectors') return connectorMayImport(file, target);
  if (from === to) return true;
  return (MAY_IMPORT[from] ?? []).some((allowed) => allowed === '*' || allowed === to || allowed === target);
}

/** A connector imports its own folder, the kit and the interface, never a sibling; only the registry knows them all. */
function connectorMayImport(file: SourceFile, target: string): boolean {
  const own = vendorFolder(file.path);
  if (file.path === 'connectors/registry.ts' || own === vendorFolder(target)) return true;
  const allowed = MAY_IMPORT[own === KIT ? KIT : 'connectors'] ?? [];
  return [folderOf(target), target, vendorFolder(target)].some(
    (name) => name !== 'connectors' && allowed.includes(name),
  );
}

/** `connectors/github/api.ts` → `connectors/github` */
function vendorFolder(path: string): string {
  return path.split('/').slice(0, 2).join('/');
}

function isOwner(path: string, owners: readonly string[]): boolean {
  return owners.some((owner) => path === owner || path.startsWith(`${owner}/`));
}

/** The room by which a name may be told from the same name elsewhere; undefined where a name must be the only one. */
function nounRoomOf(path: string): string | undefined {
  return NOUN_ROOMS.find((room) => path.startsWith(`${room}/`));
}

function baseOf(path: string): string {
  return path.split('/').at(-1) as string;
}

/** Files that import each other, directly or by others, types included: each list is one knot (Tarjan). */
function circlesOf(files: readonly SourceFile[]): string[][] {
  const targets = new Map(
    files.map((file) => [
      file.path,
      file.imports.filter((specifier) => specifier.startsWith('.')).map((specifier) => targetOf(file, specifier)),
    ]),
  );
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (path: string): number => {
    const number = order.size;
    order.set(path, number);
    lowest.set(path, number);
    open.push(path);
    for (const target of targets.get(path) ?? []) {
      if (!targets.has(target)) continue;
      const reached = order.has(target) ? (open.includes(target) ? (order.get(target) ?? 0) : number) : visit(target);
      lowest.set(path, Math.min(lowest.get(path) ?? number, reached));
    }
    const low = lowest.get(path) ?? number;
    if (low === number) {
      const knot = open.splice(open.indexOf(path));
      if (knot.length > 1 || targets.get(path)?.includes(path)) circles.push(knot);
    }
    return low;
  };
  for (const path of targets.keys()) if (!order.has(path)) visit(path);
  return circles;
}

describe('architecture', () => {
  it('has no circle of imports, types included', () => {
    const file = (path: string, ...imports: string[]): SourceFile => ({ path, text: '', imports });
    const knot = [file('a.ts', './b.ts'), file('b.ts', './c.ts', './d.ts'), file('c.ts', './a.ts'), file('d.ts')];
    expect(circlesOf(knot)).toEqual([['a.ts', 'b.ts', 'c.ts']]);
    expect(circlesOf(FILES)).toEqual([]);
  });

  it('gives each file name one meaning', () => {
    // A vendor's folder has the files that every vendor's has, and the kit what those of one name share.
    const vendors = FILES.filter(({ path }) => path.startsWith('connectors/') && vendorFolder(path) !== KIT);
    const roles = new Set(vendors.map(({ path }) => baseOf(path)));
    const others = FILES.filter((file) => !vendors.includes(file))
      .map(({ path }) => path)
      .filter((path) => vendorFolder(path) !== KIT || !roles.has(baseOf(path)));
    const same = [...Map.groupBy(others, baseOf).values()].filter((paths) => paths.length > 1);
    const wrong = same.filter((paths) => {
      const rooms = paths.map(nounRoomOf);
      return rooms.includes(undefined) || new Set(rooms).size < rooms.length;
    });
    expect(wrong).toEqual([]);
  });

  it('has a row for every folder of src', () => {
    const folders = new Set(FILES.map(({ path }) => folderOf(path)));
    expect([...folders].filter((folder) => !(folder in MAY_IMPORT))).toEqual([]);
  });

  it('imports only what the layer table allows', () => {
    const wrong = FILES.flatMap((file) =>
      file.imports
        .filter((specifier) => specifier.startsWith('.'))
        .map((specifier) => targetOf(file, specifier))
        .filter((target) => !isAllowed(file, target))
        .map((target) => `${file.path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it('leaves each package to the folder that owns it', () => {
    const wrong = FILES.flatMap((file) =>
      file.imports
        .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
        .map((specifier) =>
          specifier
            .split('/')
            .slice(0, specifier.startsWith('@') ? 2 : 1)
            .join('/'),
        )
        .filter((name) => !isOwner(file.path, PACKAGE_OWNERS[name] ?? []))
        .map((name) => `${file.path} imports ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  it('makes no SQL of texts: statements have parameters', () => {
    const raw = (text: string) => /\bsql\.raw\((?!String\.raw`[^`$]*`\))/.test(withoutComments(text));
    const texts = ['sql.raw(given)', 'sql.raw(`given`)', 'sql.raw(String.raw`a constant`)', '// sql.raw(given)'];
    expect(texts.map(raw)).toEqual([true, true, false, false]);
    expect(FILES.filter(({ text }) => raw(text)).map(({ path }) => path)).toEqual([]);
  });

  it('asks the database in store/ only, apart from the reference service, which has its own', () => {
    const queries =
      /\.(selectFrom|selectJoined|selectOver|selectNoFrom|insertInto|replaceInto|updateTable|deleteFrom|mergeInto|executeQuery)\(|\bsql(<[^>`]*>)?`/;
    const rooms = ['store', 'workspace-service'];
    const wrong = FILES.filter(({ path }) => !rooms.includes(folderOf(path)) && !path.startsWith('lib/database/'))
      .filter(({ text }) => queries.test(withoutComments(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  it.each([
    ['time', /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bhrtime\b/],
    ['chance', /\bMath\.random\(|\brandomUUID\(|\brandomBytes\(|\brandomInt\(/],
    ['timers', /(?<!\bsocket\.)\bsetTimeout\(|\bsetInterval\(|node:timers/],
    ['environment', /\bprocess\.env\b/],
  ])('takes ambient %s only in lib/ and config/', (_what, pattern) => {
    const wrong = FILES.filter(({ path }) => !['lib', 'config'].includes(folderOf(path)))
      .filter(({ text }) => pattern.test(withoutComments(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  it('applies schemas to what vendors say in the kit only, which makes a SyncError of what does not fit', () => {
    const parses = /(?<!\b(?:JSON|Date))\.(?:safeParse|parse)(?:Async)?\(/g;
    const wrong = FILES.filter(({ path }) => path.startsWith('connectors/') && vendorFolder(path) !== KIT)
      // Options without credentials are the connector's own words.
      .map(({ path, text }) => ({ path, text: withoutComments(text).replaceAll('options.parse(', '') }))
      .flatMap(({ path, text }) => [...text.matchAll(parses)].map(([call]) => `${path}${call}`));
    expect(wrong).toEqual([]);
  });

  it('never branches on the name of a connector outside connectors/', () => {
    const vendors = readdirSync(join(SRC, 'connectors'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
      .map((entry) => entry.name);
    const branch = new RegExp(`[!=]==\\s*['"](${vendors.join('|')})['"]|case\\s+['"](${vendors.join('|')})['"]`);
    const wrong = FILES.filter(({ path }) => !['connectors', 'workspace-service', 'demo'].includes(folderOf(path)))
      .filter(({ text }) => branch.test(withoutComments(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
