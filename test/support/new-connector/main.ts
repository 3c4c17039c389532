import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The names for each kind of connector, by the placeholders of the templates. */
const KINDS = {
  tracker: { things: 'items', Things: 'Items', noun: 'item', container: 'project', scope: 'projects: [web]' },
  git: {
    ...{ things: 'pull requests', Things: 'Pull requests', noun: 'pull' },
    ...{ container: 'repository', scope: 'repositories: [acme/api]' },
  },
} as const;
type Kind = keyof typeof KINDS;

type Names = NonNullable<ReturnType<typeof namesOf>>;

const ID = /^[a-z][a-z0-9]{1,29}(?:-[a-z0-9]{1,30}){0,3}$/;

/**
 * Returns the names of a connector by use; the keys are the words between underscores in the templates. Undefined if this cannot be
 * an id.
 */
function namesOf(id: string) {
  if (!ID.test(id)) return undefined;
  const words = id.split('-').map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  const joined = words.join('');
  return {
    /** `azure-boards` */
    id,
    /** In code: `azureBoards` */
    name: joined.charAt(0).toLowerCase() + joined.slice(1),
    /** For people: `Azure Boards` */
    title: words.join(' '),
    /** In names of headers: `Azure-Boards` */
    Id: words.join('-'),
    /** In variables: `AZURE_BOARDS` */
    ENV: id.toUpperCase().replaceAll('-', '_'),
    /** Before the numbers of its facts: `AZ` */
    FACT: id.slice(0, 2).toUpperCase(),
  };
}

/** Returns the text of a file with the new connector in it. */
type Edit = (text: string) => string;

/** Every place that lists connectors by hand; what is generated from the registry is not among them. */
function registrations({ id, name, title, ENV }: Names, kind: Kind): readonly (readonly [path: string, edit: Edit])[] {
  const key = id === name ? id : `'${id}'`;
  const facts = `  ${key}: {
    title: '${title}',
    sign: '#',
    pullPath: '/pulls/',
    pullAddress: /^\\/([^/]+\\/[^/]+)\\/pulls\\/(\\d{1,10})(?:\\/|$)/,
  },\n`;
  const isGit = kind === 'git';
  const [payload, label] = isGit ? ['pull.repository', 'path'] : ['item.project', 'key'];
  const law = `  ${key}: {
    id: numbered,
    name: ${isGit ? 'path' : 'plain'},
    render: (provider, { id, name }) => webhook(provider, () => ({ '${payload}': { id, ${label}: name } })),
  },\n`;
  const canary = `    ${key}: {
      ...{ connector: '${id}', apiUrl: api(port, '${id}'), ${isGit ? "repositories: ['acme/app']" : "projects: ['app']"} },
      token: secret('${ENV}_TOKEN'),
      ...hooks('${ENV}'),
    },\n`;
  return [
    ...(isGit ? [['src/model/git-providers.ts', (text: string) => before(text, '} satisfies', facts)] as const] : []),
    ['src/connectors/registry.ts', registered(`{ ${name} }`, `./${id}/index.ts`, name)],
    ['test/contracts/connectors/index.ts', registered(`{ profile as ${name} }`, `./${id}.ts`, name)],
    ['test/support/vendors/model-providers/index.ts', registered(`{ ${name} }`, `./${id}.ts`, name)],
    [
      'test/support/vendors/vendor-requests/index.ts',
      registered(`{ ${name} }`, `./${id}.ts`, id === name ? name : `${key}: ${name}`),
    ],
    ['test/laws/scope-names.test.ts', (text) => before(text, '  generic: {\n', law)],
    ['test/deep/canaries.test.ts', (text) => before(text, '    generic: {\n', canary)],
    ['README.md', (text) => before(text, '| anything that speaks', row(title, id, isGit))],
  ];
}

/** The formatter puts imports in order. */
function registered(names: string, file: string, entry: string): Edit {
  return (text) => listed(before(text, 'import ', `import ${names} from '${file}';\n`), entry);
}

/** Puts an entry into the one list of the file, in the order of names. */
function listed(text: string, entry: string): string {
  const list = /(?<= = [[{]\n)(?: {2}.+,\n)+(?=[\]}];\n)/.exec(text);
  if (!list) throw new Error('the file has no list to put the connector into');
  const lines = list[0].split(/(?<=\n)/);
  const at = lines.findIndex((line) => wordOf(line) > wordOf(entry));
  const inserted = lines.toSpliced(at === -1 ? lines.length : at, 0, `  ${entry},\n`);
  return text.slice(0, list.index) + inserted.join('') + text.slice(list.index + list[0].length);
}

function wordOf(line: string): string {
  return line.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
}

function before(text: string, anchor: string, added: string): string {
  const at = text.indexOf(anchor);
  if (at === -1) throw new Error(`the file has no "${anchor.trim()}" to put the connector before`);
  return text.slice(0, at) + added + text.slice(at);
}

/** As wide as the other rows of the table. */
function row(title: string, id: string, isGit: boolean): string {
  const [pulls, items] = isGit ? ['yes', '–'] : ['–', 'yes'];
  return `| ${title.padEnd(45)} | ${pulls?.padEnd(13)} | ${items?.padEnd(10)} | ${`[${id}](src/connectors/${id}/README.md)`.padEnd(53)} |\n`;
}

const TEMPLATES = join(import.meta.dirname, 'template');

class Refused extends Error {}

/**
 * Writes the files of a new connector and registers it wherever connectors are listed. Nothing is written where the id
 * cannot be used. Throws `Refused`.
 *
 * @param top the folder of the project
 * @returns the files that were written or changed, relative to `top`
 */
function createConnector(top: string, id: string, kind: string): readonly string[] {
  const names = namesOf(id);
  if (!names) throw new Refused(`"${id}" is no usable id: write lower-case words with dashes, as azure-boards`);
  if (kind !== 'tracker' && kind !== 'git')
    throw new Refused(`"${kind}" is no kind of connector: write tracker or git`);
  if (existsSync(join(top, 'src/connectors', id))) throw new Refused(`src/connectors/${id} is there already`);
  const edited = registrations(names, kind).map(
    ([path, edit]) => [path, edit(readFileSync(join(top, path), 'utf8'))] as const,
  );
  const made = filesOf(names, kind);
  for (const [path, text] of [...made, ...edited]) {
    mkdirSync(dirname(join(top, path)), { recursive: true });
    writeFileSync(join(top, path), text);
  }
  const paths = [...made, ...edited].map(([path]) => path);
  format(top, paths);
  run(top, process.execPath, ['src/main.ts', 'generate']);
  return paths;
}

/** The templates under their final names: `__id__.ts.txt` becomes `linear.ts`, and so do the words in it. */
function filesOf(names: Names, kind: Kind): readonly (readonly [path: string, text: string])[] {
  const words = Object.entries({ ...names, ...KINDS[kind] });
  const filled = (text: string) => words.reduce((so, [word, value]) => so.replaceAll(`__${word}__`, value), text);
  return ['both', kind].flatMap((folder) =>
    readdirSync(join(TEMPLATES, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.txt'))
      .map(
        (path) =>
          [filled(path.slice(0, -'.txt'.length)), filled(readFileSync(join(TEMPLATES, folder, path), 'utf8'))] as const,
      ),
  );
}

/** Long names break lines elsewhere than short ones. */
function format(top: string, paths: readonly string[]): void {
  const written = paths.filter((path) => /\.(?:ts|md)$/.test(path));
  run(top, join(top, 'node_modules/.bin/biome'), ['check', '--write', ...written]);
}

function run(cwd: string, command: string, args: readonly string[]): void {
  execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** `npm run new:connector <id> [tracker|git]`: exit code 2 where the id cannot be used, and nothing was written then. */
const [id = '', kind = 'tracker'] = process.argv.slice(2);
try {
  const paths = createConnector(join(import.meta.dirname, '../../..'), id, kind);
  process.stdout.write(`${paths.map((path) => `  ${path}\n`).join('')}
A ${kind === 'git' ? 'git provider' : 'tracker'} that nobody runs yet, whose tests pass:

  npm test -- test/contracts -t ${id}

Now make it the vendor's, by src/connectors/README.md.
`);
} catch (thrown) {
  if (!(thrown instanceof Refused)) throw thrown;
  process.stderr.write(`${thrown.message}\n`);
  process.exitCode = 2;
}
