import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { commandsIn } from '../../.ci/readme/page.ts';
import { LEFT_OUT, STEPS } from '../../.ci/readme.ts';
import { withInstallLines } from '../../.ci/release.ts';
import { COMMAND_FILES } from '../../src/cli/program.ts';
import { DAEMON_OPTIONS } from '../../src/platform/config/daemon-options.ts';
import { escapePattern } from '../../src/platform/lib/text.ts';
import { createMetrics } from '../../src/platform/observe/metrics.ts';
import { allCommands } from '../support/harness/command-line.ts';
import { TOP } from '../support/harness/processes.ts';

/** Every document, with its path from the top. The changelog is history. */
const DOCUMENTS = new Map(
  ['*.md', '.github/*.md', '{config,src,test}/**/*.md']
    .flatMap((pattern) => globSync(pattern, { cwd: TOP }))
    .filter((path) => !/CHANGELOG|TEMPLATE/.test(path))
    .map((path) => [path, read(path)]),
);
const CODE = new Map(
  ['{src,test}/**/*.ts', '.ci/**/*.ts']
    .flatMap((pattern) => globSync(pattern, { cwd: TOP }))
    .map((path) => [path, read(path)]),
);
const WORDS = new Set([...CODE.values()].flatMap((text) => text.match(/\w+/g) ?? []));

function read(path: string): string {
  return readFileSync(join(TOP, path), 'utf8');
}

function found(text: string, pattern: RegExp): string[] {
  return [...new Set(Array.from(text.matchAll(pattern), ([, name = '']) => name))];
}

function withoutBlocks(text: string): string {
  return text.replace(/```[\s\S]*?```/g, '');
}

function deadLinks(document: string, text: string): string[] {
  const links = found(withoutBlocks(text), /\]\(([^)\s]+)\)/g).filter((link) => !/^[a-z]+:/.test(link));
  return links.filter((link) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? document : join(dirname(document), path);
    if (!existsSync(join(TOP, target))) return true;
    return anchor !== undefined && !anchorsOf(target === document ? text : read(target)).includes(anchor);
  });
}

/** Anchors of a page as hosts make them of its headings: lower case, hyphens for spaces, no other signs. */
function anchorsOf(text: string): string[] {
  return found(withoutBlocks(text), /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** Files that people and tests write. */
const UNTRACKED = /^config\/(?:workspaces\/|team\.yaml)|^test\/browser\/pictures/;

/** Files and folders that a document names in code, and that are neither beside it nor at the top nor in `src`. */
function deadFiles(document: string, text: string): string[] {
  const named = found(
    text.replaceAll(/\]\([^)]*\)/g, ''),
    /(?<!\[)`([\w.<>/-]+\.(?:ts|md)|(?:src|test|config|\.ci|\.github)\/[\w.<>/-]+)`/g,
  );
  return named.filter((name) => !UNTRACKED.test(name) && filesOf(document, name).length === 0);
}

/** Files of a name, where `<id>` stands for any name. One without a folder may also be below the place of the document. */
function filesOf(document: string, name: string): string[] {
  const pattern = name.replaceAll(/<\w+>/g, '*').replace(/\/$/, '');
  const here = dirname(document);
  const below = pattern.includes('/') ? [] : [join(here, '**', pattern)];
  const exclude = (path: string) => path.includes('node_modules');
  return [...[here, '.', 'src'].map((base) => join(base, pattern)), ...below].flatMap((place) =>
    globSync(place, { cwd: TOP, exclude }),
  );
}

/** Names of code that no code has: in camel case anywhere, or of a file that does not declare them. */
function deadSymbols(document: string, text: string): string[] {
  const names = found(withoutBlocks(text), /`(?:\w+\.)*([A-Za-z]\w*[a-z][A-Z]\w*)(?:\(\))?`/g);
  const nowhere = names.filter((name) => !WORDS.has(name));
  const ofFiles = [
    ...text.matchAll(/((?:`\w+`(?:, | and )?)+) of `([\w./-]+\.ts)`/g),
    ...Array.from(text.matchAll(/`([\w./-]+\.ts)`: (`\w+`)/g), ([all, file, names]) => [all, names, file] as const),
  ];
  const notThere = ofFiles.flatMap(([, symbols = '', file = '']) => {
    const sources = filesOf(document, file).map((path) => CODE.get(path) ?? '');
    const symbolsOf = found(symbols, /`(\w+)`/g);
    return symbolsOf
      .filter((symbol) => !sources.some((source) => declares(source, symbol)))
      .map((each) => `${each} of ${file}`);
  });
  return [...nowhere, ...notThere];
}

function declares(source: string, symbol: string): boolean {
  const name = escapePattern(symbol);
  return new RegExp(
    String.raw`\b(?:const|let|function|function\*|class|interface|type) (?:\{[^}]*\b)?${name}\b|^ +(?:readonly |async )?${name}[?:(,]`,
    'm',
  ).test(source);
}

describe.each([...DOCUMENTS])('%s', (document, text) => {
  it('links to files and headings that exist', () => {
    expect(deadLinks(document, text)).toEqual([]);
  });

  it('names files and folders that exist', () => {
    expect(deadFiles(document, text)).toEqual([]);
  });

  it('names symbols that exist', () => {
    expect(deadSymbols(document, text)).toEqual([]);
  });

  it('has blocks of YAML that a parser accepts', () => {
    const blocks = found(text, /```yaml\n([\s\S]*?)```/g).flatMap((block) => parseAllDocuments(block));
    expect(blocks.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
  });
});

it.each(globSync('src/decisions/*.md', { cwd: TOP }))(
  'decisions %s is listed in src/README.md, and named by the file that it explains',
  (path) => {
    expect(DOCUMENTS.get('src/README.md')).toContain(`](${path.replace('src/', '')})`);
    expect([...CODE.values()].some((text) => text.startsWith(`// Design: ${path}\n`))).toBe(true);
  },
);

describe('comments', () => {
  it('begin with a verb or a noun phrase, never with a relative clause', () => {
    const opening = /^\s*(?:\/\*\*|\*|\/\/) ((?:What|Of|Those|Who|The same)\b.*)/gm;
    expect([...CODE].flatMap(([path, text]) => found(text, opening).map((line) => `${path}: ${line}`))).toEqual([]);
  });
});

/** Rules of the contract and facts of vendors by page; each begins a point of a list, such as `- **W38**`. */
const RULES = new Map(
  ['src/workspace-api/contract.md', ...globSync('src/connectors/*/README.md', { cwd: TOP })].map((page) => [
    page,
    found(DOCUMENTS.get(page) ?? '', /^- \*\*([A-Z]{1,2}\d+)\*\*/gm),
  ]),
);
const CONTRACT = [...RULES.keys()][0]!;
const RULE = /\b(?:W\d+|[A-Z]{2}\d{1,2})\b/g;
const NO_RULES = ['LZ4', 'RE2'];

describe('a rule of the contract, or a fact of a vendor', () => {
  const defined = [...RULES.values()].flat();
  const citing = ['{src,config,test}/**/*.{ts,md,json,yaml}']
    .flatMap((pattern) => globSync(pattern, { cwd: TOP, exclude: (path) => path.includes('fixtures') }))
    .map((path) => [path, read(path)] as const);
  const citedIn = (text: string) => (text.match(RULE) ?? []).filter((name) => !NO_RULES.includes(name));

  it('exists if it is cited; the folder of a vendor cites only its own and the contract', () => {
    const dead = citing.flatMap(([path, text]) => {
      const own = [...RULES.keys()].find((page) => page !== CONTRACT && path.startsWith(`${dirname(page)}/`));
      const known = own === undefined ? defined : [...RULES.get(own)!, ...RULES.get(CONTRACT)!];
      return citedIn(text)
        .filter((name) => !known.includes(name))
        .map((name) => `${path}: ${name}`);
    });
    expect(dead).toEqual([]);
  });

  it('of the contract has a test whose title begins with its name', () => {
    const titles = [...CODE].flatMap(([path, text]) =>
      path.startsWith('test/') ? found(text, /(?:^\s*|\()['"`]((?:W\d+,? )+)/gm) : [],
    );
    const tested = titles.flatMap(citedIn);
    expect(RULES.get(CONTRACT)!.filter((name) => !tested.includes(name))).toEqual([]);
  });
});

const README = DOCUMENTS.get('README.md')!;
const OPERATING = DOCUMENTS.get('config/operating.md')!;
const GUIDES = [
  'README.md',
  '.github/CONTRIBUTING.md',
  '.github/SECURITY.md',
  'config/README.md',
  'config/operating.md',
]
  .map((page) => DOCUMENTS.get(page))
  .join('\n');
const NAMES: readonly string[] = COMMAND_FILES.flatMap(({ names }) => names);

function section(page: string, heading: string): string {
  const [, rest] = page.split(`\n${heading}\n`);
  if (rest === undefined) throw new Error(`no heading ${heading}`);
  return rest.split(new RegExp(`\n#{1,${heading.indexOf(' ')}} `))[0]!;
}

function rows(text: string): string[][] {
  return [...text.matchAll(/^\|(?! -)(.*)\|$/gm)]
    .slice(1)
    .map(([, cells = '']) => cells.split('|').map((cell) => cell.trim()));
}

describe('README', () => {
  it('has exactly the commands that .ci/readme.ts runs or leaves out, also after a release', () => {
    const isLeftOut = (command: string) => LEFT_OUT.some(([pattern]) => pattern.test(command));
    const commands = new Set(commandsIn(README));
    expect([...commands].filter((command) => !isLeftOut(command)).toSorted()).toEqual(Object.keys(STEPS).toSorted());
    const added = commandsIn(withInstallLines(README, 'acme/worksync')).filter((command) => !commands.has(command));
    expect(added).toEqual([expect.stringMatching(/^npx /), expect.stringMatching(/^docker run /)]);
    expect(added.filter((command) => !isLeftOut(command))).toEqual([]);
  });

  it('links to each page beside it and in config', () => {
    const pages = [...DOCUMENTS.keys()].filter((page) => /^(?:config|\.github)\/[^/]+$/.test(page));
    expect(pages.filter((page) => !README.includes(`](${page}`))).toEqual([]);
  });
});

describe('the guides', () => {
  const commands = rows(section(OPERATING, '## Commands').split('exit code')[0]!);

  it('name scripts that package.json has', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = found(GUIDES, /npm run (?:-s )?([a-z:]+)/g);
    expect(named).toContain('check');
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  it('have a row for each command and subcommand, and name no other', async () => {
    const named = new Set(commands.map(([name = '']) => name.replaceAll('`', '').split(' ')[0]));
    expect(named).toEqual(new Set(NAMES));
    const elsewhere = found(GUIDES, /(?:src\/main\.ts|worksync --|`worksync) (?:worksync )?([a-z]+)/g);
    expect(elsewhere.filter((name) => !NAMES.includes(name))).toEqual([]);
    const missing = (await allCommands()).filter(({ path: [group = '', subcommand = ''] }) => {
      if (group === 'api') return false;
      const own = commands.filter(([name = '']) => name.startsWith(`\`${group}`));
      return !own.flat().join(' ').includes(subcommand);
    });
    expect(missing.map(({ path }) => path.join(' '))).toEqual([]);
  });

  it('list the options of the daemon, and no variable that nothing reads', () => {
    const table = rows(section(DOCUMENTS.get('config/README.md')!, '## Options of the daemon'));
    const expected = DAEMON_OPTIONS.map(({ flag, env }) => [`\`${flag.split(' ')[0]}\``, `\`${env}\``]);
    expect(table.map((cells) => cells.slice(0, 2))).toEqual(expected);
    const examples = globSync('config/examples/*', { cwd: TOP }).map(read);
    const readers = [...CODE].filter(([path]) => /^src\/(?:platform\/config|cli)\//.test(path)).map(([, text]) => text);
    const variables = new Set([
      ...readers.flatMap((text) => found(text, /'(WORKSYNC_[A-Z_]+)'/g)),
      ...examples.flatMap((text) => found(text, /\$\{(\w+)\}/g)),
    ]);
    const named = found(GUIDES, /\b((?:WORKSYNC|GITHUB)_[A-Z_]+)\b/g).map((name) => name.replace(/_FILE$/, ''));
    expect(named.filter((name) => !variables.has(name))).toEqual([]);
  });

  it('name metrics that are exposed', async () => {
    const exposed = found(await createMetrics({ version: 'test' }).expose(), /^# TYPE (\w+) /gm);
    const named = found(GUIDES, /`(worksync_[a-z_]+)`/g);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !exposed.includes(name))).toEqual([]);
  });
});
