import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { SyncError } from '../model/errors/sync-error.ts';
import { CONFIG_FOLDER } from '../platform/config/load.ts';
import { unknownName } from './named.ts';
import { refuseWrongName } from './refuse-wrong-name.ts';

/** What a first configuration is made of. */
export interface Wish {
  /** A file of `config/examples/`, without its ending. */
  readonly from: string;
  /** Of the workspace, and so of its file. */
  readonly name: string;
  /** Base address of the workspace API; absent: that of the example stays, to be replaced by hand. */
  readonly url?: string;
  /** Files of `config/deploy/`, without their endings: how to run it, and what CI does with it. */
  readonly with?: readonly string[];
  /** Where everything is written. */
  readonly folder: string;
}

interface NewFile {
  readonly path: string;
  readonly content: string;
}

const EXAMPLES = join(CONFIG_FOLDER, 'examples');
const TEMPLATES = join(CONFIG_FOLDER, 'deploy');
/** Every example that talks to a workspace names this one. */
const EXAMPLE_URL = 'https://work.example.com/api/v1';
const SCHEMA_LINE = /^# yaml-language-server: .*$/m;

export const exampleNames = () => namesIn(EXAMPLES);
const templateNames = () => namesIn(TEMPLATES);

function namesIn(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
    .sort();
}

/**
 * Writes a workspace file from an example, `.env.example` with the variables that it needs, and what `with` names into
 * `deploy/`: each file says at its top where it belongs.
 *
 * @param overwrite whether files that are there already are replaced
 * @returns the files written; throws `usage` for an unknown example or template, or a wrong name, `conflict` where one is there
 */
export function writeFirstConfig(wish: Wish, overwrite: boolean): readonly string[] {
  const files = firstConfig(wish);
  const present = files.filter(({ path }) => existsSync(path)).map(({ path }) => path);
  if (present.length > 0 && !overwrite)
    throw new SyncError('conflict', `already there: ${present.join(', ')}`, {
      hint: 'Name another folder with --folder, or replace them with --force. Nothing was written.',
    });
  for (const { path, content } of files) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { flag: overwrite ? 'w' : 'wx' });
  }
  return files.map(({ path }) => path);
}

function firstConfig({ from, name, url, with: templates = [], folder }: Wish): readonly NewFile[] {
  const known = exampleNames();
  if (!known.includes(from)) throw unknownName('example', from, known);
  const missing = templates.find((each) => !templateNames().includes(each));
  if (missing !== undefined) throw unknownName('template', missing, templateNames());
  refuseWrongName('--name', name);
  if (url !== undefined && !isApiAddress(url))
    throw new SyncError('usage', `--url ${url}: expected the https address of the workspace API, ending in /api/v1`);
  const path = join(folder, 'config/workspaces', `${name}.yaml`);
  const schema = relative(dirname(path), join(CONFIG_FOLDER, 'schema.json'));
  const content = readFileSync(join(EXAMPLES, `${from}.yaml`), 'utf8')
    .replace(SCHEMA_LINE, () => `# yaml-language-server: $schema=${schema}`)
    .replaceAll(EXAMPLE_URL, () => url ?? EXAMPLE_URL);
  return [
    { path, content },
    { path: join(folder, '.env.example'), content: environmentOf(content) },
    ...[...new Set(templates)].map((each) => ({
      path: join(folder, 'deploy', `${each}.yaml`),
      content: readFileSync(join(TEMPLATES, `${each}.yaml`), 'utf8'),
    })),
  ];
}

function isApiAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.pathname.endsWith('/api/v1') && url.search === '';
}

/** Each variable of the file, without a value. */
function environmentOf(content: string): string {
  const names = new Set([...content.matchAll(/\$\{(\w+)/g)].map((match) => match[1] as string));
  const head =
    '# Copy to .env and fill in. In place of each, its name with _FILE may hold the path of a file with the value.\n';
  return `${head}${[...names].map((name) => `${name}=\n`).join('')}`;
}
