import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

/** The only folders or files that may import a package. A package that is not listed may be imported nowhere. */
const PACKAGE_OWNERS: Readonly<Record<string, readonly string[]>> = {
  undici: ['platform/http'],
  fastify: ['platform/http'],
  'secure-json-parse': ['platform/http'],
  'better-sqlite3': ['platform/database/sqlite.ts'],
  'lz4-napi': ['store/deliveries/inbox.ts'],
  kysely: ['platform/database', 'store', 'reference-service'],
  pg: ['platform/database'],
  'p-queue': ['sync/quota', 'web/page-routes.ts'],
  pino: ['platform/observe'],
  'prom-client': ['platform/observe'],
  'node-cron': ['platform/lib/cron.ts'],
  '@octokit/webhooks': ['connectors/github', 'reference-service/demo'],
  'universal-github-app-jwt': ['connectors/github'],
  parse5: ['connectors/azure-boards'],
  zod: ['platform/config', 'connectors', 'workspace-api', 'reference-service', 'sync/reconcile', 'admin', 'web'],
  re2js: ['platform/lib/pattern.ts'],
  yaml: ['platform/config'],
  'fastest-levenshtein': ['platform/lib'],
  marked: ['web/markdown.ts'],
  commander: ['cli'],
  'close-with-grace': ['cli'],
};

/**
 * Folders whose files bear the name of one noun: a command, the use case behind it, the contract of the workspace API, and the
 * reference service that answers by it. Each of them may have one file of a name; no other folder has one of that name.
 */
const NOUN_ROOMS = ['cli', 'admin', 'workspace-api/contract', 'reference-service'];

/** The folder of code that connectors share. */
const KIT = 'connectors/kit';

const SRC = join(import.meta.dirname, '../../src');

/** Allowed imports by folder, as the table of src/README.md says. A folder stands for all files below it. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Array.from(
    readFileSync(join(SRC, 'README.md'), 'utf8').matchAll(/^\| `([\w./-]+)` +\|[^|]*\|([^|`]*)\|$/gm),
    ([, folder, allowed = '']) => [
      folder,
      allowed
        .replace('everything', '*')
        .split(',')
        .map((word) => word.trim()),
    ],
  ),
);

interface SourceFile {
  /** Relative to src, with forward slashes. */
  readonly path: string;
  readonly code: string;
  readonly imports: readonly string[];
}

const FILES: readonly SourceFile[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => {
    const code = withoutComments(readFileSync(join(SRC, path), 'utf8'));
    return { path, code, imports: importsOf(code) };
  });

function importsOf(code: string): string[] {
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

/** The row of the table that is about this file. */
function layerOf(path: string): string {
  const folder = folderOf(path);
  return folder in MAY_IMPORT ? folder : path.split('/').slice(0, 2).join('/');
}

function isAllowed(file: SourceFile, target: string): boolean {
  const [from, to] = [layerOf(file.path), layerOf(target)];
  if (!isInterface(file.path, target)) return false;
  return from === to || (MAY_IMPORT[from] ?? []).some((allowed) => ['*', to, folderOf(target)].includes(allowed));
}

/**
 * Only the registry imports a vendor's folder; others use the interface, the registry and the kit. A vendor imports its own folder,
 * the interface and the kit.
 */
function isInterface(path: string, target: string): boolean {
  const [own, other] = [vendorFolder(path), vendorFolder(target)];
  const isVendor = other.startsWith('connectors/') && !other.endsWith('.ts') && other !== KIT;
  if (path === 'connectors/registry.ts' || own === other || /^(cli|daemon|main\.ts)/.test(path)) return true;
  if (own.startsWith('connectors/')) return !isVendor && target !== 'connectors/registry.ts';
  return !isVendor;
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
    const file = (path: string, ...imports: string[]): SourceFile => ({ path, code: '', imports });
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
    const folders = new Set(FILES.map(({ path }) => layerOf(path)));
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

  it.each([
    ['SQL', /\bsql\.raw\((?!String\.raw`[^`$]*`\))/],
    ['code', /\beval\(|\bFunction\(/],
  ])('makes no %s of texts [A15]', (_what, pattern) => {
    expect(FILES.filter(({ code }) => pattern.test(code)).map(({ path }) => path)).toEqual([]);
  });

  it('compares what proves a caller in one function, which takes constant time [A2]', () => {
    expect(FILES.filter(({ code }) => code.includes('timingSafeEqual')).map(({ path }) => path)).toEqual([
      'platform/lib/digest.ts',
    ]);
    const proof = String.raw`[\w.]*(?:[sS]ecret|[sS]ignature|[tT]oken|[pP]assword|[hH]mac|[aA]piKey|[nN]once|state|wanted|expected)`;
    const byPart = String.raw`\.(?:startsWith|equals|includes)\(`;
    const compares = new RegExp(
      String.raw`\b${proof}\)? [!=]== (?!undefined|null|''|')|[!=]== ${proof}\b|\b${proof}${byPart}(?![A-Z_]+\))|${byPart}${proof}\)`,
    );
    const wrong = FILES.filter(({ path }) =>
      /^(?:web\/(?:access\/|[^/]+$)|gateway|cluster|daemon|workspace-api)|\/verify\.ts$|signature\.ts$/.test(path),
    ).flatMap(({ path, code }) =>
      code
        .split('\n')
        .filter((line) => compares.test(line))
        .map((line) => `${path}: ${line.trim()}`),
    );
    expect(wrong).toEqual([]);
  });

  it('asks the database in store/ only, apart from the reference service, which has its own [A15]', () => {
    const queries =
      /\.(selectFrom|selectJoined|selectOver|selectNoFrom|insertInto|replaceInto|updateTable|deleteFrom|mergeInto|executeQuery)\(|\bsql(<[^>`]*>)?`/;
    const rooms = ['store', 'reference-service'];
    const wrong = FILES.filter(({ path }) => !rooms.includes(folderOf(path)) && !path.startsWith('platform/database/'))
      .filter(({ code }) => queries.test(code))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  it.each([
    ['time', /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bhrtime\b/],
    ['chance', /\bMath\.random\(|\brandomUUID\(|\brandomBytes\(|\brandomInt\(/],
    ['timers', /(?<!\bsocket\.)\bsetTimeout\(|\bsetInterval\(|node:timers/],
    ['environment', /\bprocess\.env\b/],
  ])('takes ambient %s only in platform/', (_what, pattern) => {
    const wrong = FILES.filter(({ path }) => !/^platform\/(lib|database|config)\//.test(path))
      .filter(({ code }) => pattern.test(code))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  it('applies schemas to what vendors say in the kit only, which makes a SyncError of what does not fit', () => {
    const parses = /(?<!\b(?:JSON|Date))\.(?:safeParse|parse)(?:Async)?\(/g;
    const wrong = FILES.filter(({ path }) => path.startsWith('connectors/') && vendorFolder(path) !== KIT)
      // Options without credentials are the connector's own words.
      .flatMap(({ path, code }) =>
        [...code.replaceAll('options.parse(', '').matchAll(parses)].map(([call]) => `${path}${call}`),
      );
    expect(wrong).toEqual([]);
  });

  it('never branches on the name of a connector outside connectors/', () => {
    const vendors = readdirSync(join(SRC, 'connectors'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
      .map((entry) => entry.name);
    const branch = new RegExp(`[!=]==\\s*['"](${vendors.join('|')})['"]|case\\s+['"](${vendors.join('|')})['"]`);
    const wrong = FILES.filter(({ path }) => !['connectors', 'reference-service'].includes(folderOf(path)))
      .filter(({ code }) => branch.test(code))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
