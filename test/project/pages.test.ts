import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { OLDEST_POSTGRES } from '../../src/admin/check-server.ts';
import { COMMAND_FILES } from '../../src/cli/commands.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { CODES } from '../../src/model/errors/codes.ts';
import { DAEMON_OPTIONS } from '../../src/platform/config/daemon-options.ts';
import { OLDEST_NODE } from '../../src/platform/lib/oldest-node.ts';
import { createMetrics } from '../../src/platform/observe/metrics.ts';
import { allCommands } from '../support/harness/command-line.ts';
import { worksync } from '../support/harness/processes.ts';

const TOP = join(import.meta.dirname, '../..');
const MOST_WORDS = 1_200;
const README = read('README.md');
const CONFIG = read('config/README.md');
const OPERATING = read('config/operating.md');
const FOLDERS = ['.', '.github', 'config', 'config/deploy', 'src'];
const PAGES = FOLDERS.flatMap((folder) =>
  readdirSync(join(TOP, folder), { recursive: folder === 'src', encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.endsWith('TEMPLATE.md'))
    .map((path) => join(folder, path)),
);
const ALL = ['README.md', '.github/CONTRIBUTING.md', '.github/SECURITY.md', 'config/README.md', 'config/operating.md']
  .map(read)
  .join('\n');

function read(path: string): string {
  return readFileSync(join(TOP, path), 'utf8');
}

/** The text under a heading, up to the next one of its level or above. */
function section(page: string, heading: string): string {
  const start = page.indexOf(`\n${heading}\n`);
  expect(page).toContain(`\n${heading}\n`);
  const rest = page.slice(start + heading.length + 2);
  const level = heading.indexOf(' ');
  return rest.slice(0, rest.search(new RegExp(`\n#{1,${level}} `)) + 1 || undefined);
}

/** First and further cells of the rows of the tables in a text. */
function rows(text: string): string[][] {
  return [...text.matchAll(/^\|(?! -)(.*)\|$/gm)]
    .slice(1)
    .map(([, cells = '']) => cells.split('|').map((cell) => cell.trim()));
}

function found(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, name = '']) => name))];
}

function withoutCode(text: string): string {
  return text.replace(/```[\s\S]*?```/g, '');
}

/** Anchors of a page as hosts make them of its headings: lower case, hyphens for spaces, no other signs. */
function anchorsOf(text: string): string[] {
  return found(withoutCode(text), /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

describe('README', () => {
  it('is short enough to be read', () => {
    expect(README.split(/\s+/).filter(Boolean).length).toBeLessThanOrEqual(MOST_WORDS);
  });

  it('names the two commands of a newcomer, the second of them the tests', () => {
    expect(README).toContain('npm ci && npm start');
    expect(README).toContain('npm ci && npm test');
  });

  it('leads to each page that people read first', () => {
    const links = found(README, /\]\(([^)#\s]+)/g);
    const expected = PAGES.filter((page) => page !== 'README.md' && dirname(page).split('/').length < 2);
    expect(expected.filter((page) => !links.includes(page))).toEqual([]);
  });
});

describe('the pages', () => {
  it('name scripts that package.json has', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = found(ALL, /npm run (?:-s )?([a-z:]+)/g);
    expect(named).toEqual(expect.arrayContaining(['worksync', 'demo', 'check', 'bench']));
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  it('have a row for each command, and name no other', async () => {
    const { stdout } = await worksync(['--help']);
    const commands = found(stdout.split('Commands:')[1]?.split('Exit codes')[0] ?? '', /^ {2}([a-z]+) /gm);
    const named = rows(section(OPERATING, '## Commands').split('exit code')[0] ?? '').map(([name = '']) =>
      name.replaceAll('`', ''),
    );
    expect(new Set([...named.map((name) => name.split(' ')[0]), 'help'])).toEqual(new Set(commands));
    expect((await worksync(['workspace', 'serve', '--help'])).code).toBe(0);
    const elsewhere = found(ALL, /(?:src\/main\.ts|worksync --|`worksync) ([a-z]+)/g);
    expect(elsewhere.filter((name) => !commands.includes(name))).toEqual([]);
  });

  it('name each subcommand in the row of its command', async () => {
    const program = new Command();
    for (const { load } of COMMAND_FILES) (await load())(program, {} as never, () => undefined as never);
    const table = rows(section(OPERATING, '## Commands').split('exit code')[0] ?? '');
    const missing = program.commands.flatMap((group) => {
      const own = table
        .filter(([name = '']) => name.startsWith(`\`${group.name()}`))
        .flat()
        .join(' ');
      return group.commands
        .map((each) => each.name())
        .filter((name) => !own.includes(name))
        .map((name) => `${group.name()} ${name}`);
    });
    expect(missing).toEqual([]);
  });

  it('name the commands without --json', async () => {
    const without = (await allCommands()).filter(
      ({ command }) => !command.options.some(({ long }) => long === '--json'),
    );
    const named = found(section(OPERATING, '### JSON').split('take')[0] ?? '', /`(\w+)`/g);
    expect(named.toSorted()).toEqual(without.map(({ path }) => path.join(' ')).toSorted());
  });

  it("name each error code of the gateway's own, and no other", () => {
    const sources = readdirSync(join(TOP, 'src/gateway')).map((name) => read(`src/gateway/${name}`));
    const codes = sources.flatMap((text) => found(text, /(?:refuse\((?:\d+|status), |retrySoon\()'(\w+)'/g));
    const named = rows(section(OPERATING, '## Gateway')).flatMap(([, code = '']) => found(code, /`(\w+)`/g));
    expect(new Set(named)).toEqual(new Set(codes));
  });

  it('list the versions that the program accepts, and each vendor', () => {
    const text = section(OPERATING, '### Versions and support');
    const supported = Object.fromEntries(rows(text).map(([of = '', ...cells]) => [of, cells.join(' ')]));
    expect(supported['Node']).toContain(`Node ${OLDEST_NODE.replace(/\.0$/, '')} and later`);
    expect(supported['PostgreSQL']).toMatch(new RegExp(`^${OLDEST_POSTGRES} and later`));
    const database = new Database(':memory:');
    expect(supported['SQLite']).toContain(String(database.prepare('SELECT sqlite_version()').pluck().get()));
    database.close();
    const titles = connectors.map(({ title }) => title).filter((title) => title !== 'Generic');
    expect(titles.filter((title) => !supported['vendors']?.includes(title))).toEqual([]);
  });

  it('explain codes that exist', () => {
    const codes = rows(section(OPERATING, '### Troubleshooting')).flatMap((cells) => found(cells[1] ?? '', /`(\w+)`/g));
    expect(codes.length).toBeGreaterThan(10);
    expect(codes.filter((code) => !(code in CODES))).toEqual([]);
  });

  it('explain every exit code that the registry of errors knows', () => {
    const exits = rows(section(OPERATING, '## Commands').split('exit code')[1] ?? '').map(([code]) => Number(code));
    const known = Object.values(CODES).flatMap((entry) => ('exit' in entry ? [entry.exit] : []));
    expect([...new Set(known)].filter((exit) => !exits.includes(exit))).toEqual([]);
  });

  it("name the daemon's options as they are, and no variable that nobody reads", () => {
    const table = rows(section(CONFIG, '## Options of the daemon'));
    const expected = DAEMON_OPTIONS.map(({ flag, env }) => [`\`${flag.split(' ')[0]}\``, `\`${env}\``]);
    expect(table.map((cells) => cells.slice(0, 2))).toEqual(expected);
    const examples = readdirSync(join(TOP, 'config/examples')).map((name) => read(`config/examples/${name}`));
    const readers = ['src/platform/config', 'src/cli'].flatMap((room) =>
      readdirSync(join(TOP, room)).map((name) => read(`${room}/${name}`)),
    );
    const variables = new Set([
      ...readers.flatMap((text) => found(text, /'(WORKSYNC_[A-Z_]+)'/g)),
      ...examples.flatMap((text) => found(text, /\$\{(\w+)\}/g)),
    ]);
    const named = found(ALL, /\b((?:WORKSYNC|GITHUB)_[A-Z_]+)\b/g).map((name) => name.replace(/_FILE$/, ''));
    expect(named.filter((name) => !variables.has(name))).toEqual([]);
  });

  it('name metrics that are exposed', async () => {
    const exposed = found(await createMetrics({ version: 'test' }).expose(), /^# TYPE (\w+) /gm);
    const named = found(ALL, /`(worksync_[a-z_]+)`/g);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !exposed.includes(name))).toEqual([]);
  });
});

describe.each(PAGES)('%s', (page) => {
  it('has blocks of YAML that a parser takes', () => {
    const blocks = found(read(page), /```yaml\n([\s\S]*?)```/g).flatMap((text) => parseAllDocuments(text));
    expect(blocks.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
  });

  it('links to what is there, and to headings that are there', () => {
    const links = found(withoutCode(read(page)), /\]\(([^)\s]+)\)/g).filter((link) => !/^[a-z]+:/.test(link));
    const broken = links.filter((link) => {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(TOP, target))) return true;
      return anchor !== undefined && !anchorsOf(read(target)).includes(anchor);
    });
    expect(broken).toEqual([]);
  });
});
