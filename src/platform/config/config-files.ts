import { basename, dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { SyncError } from '../../model/errors.ts';
import { PROGRAM } from '../lib/own-program.ts';
import { diskFiles, type FileContent, FileFault, type Files } from '../lib/regular-files.ts';
import { CONFIG_TEXT, environment, type Flags } from './daemon-options.ts';
import { type Environment, octal, readableByAll } from './interpolate.ts';

/** The project's `config/`. */
export const CONFIG_FOLDER = join(PROGRAM, 'config');

/** The place of configuration files. */
export interface ConfigPlace {
  /** A file, or a folder of `*.yaml` and `*.yml`. Absent: `workspaces/` of the config folder, else its default. */
  readonly path?: string;
  /** Absent: `config/` of the working folder, then that of the installation. */
  readonly configFolder?: string;
}

/** Returns the configuration files, sorted by name. Throws `config_unreadable` if the path leads to none. */
export function configFiles(input: ConfigPlace, files: Files = diskFiles): readonly string[] {
  const place = input.path ?? input.configFolder ?? CONFIG_FOLDER;
  try {
    return filesOf(input, files);
  } catch (error) {
    if (!(error instanceof FileFault)) throw error;
    throw new SyncError('config_unreadable', error.about(place), { cause: error });
  }
}

function filesOf(input: ConfigPlace, files: Files): readonly string[] {
  if (input.path !== undefined) return filesAt(input.path, files);
  const folder = input.configFolder ?? CONFIG_FOLDER;
  // The files in the working folder come first, because the folder of an installed package is not edited.
  const own = (input.configFolder ? [folder] : [resolve('config'), folder]).map((each) => workspacesOf(each, files));
  return own.find((found) => found.length > 0) ?? [join(folder, 'default.yaml')];
}

function workspacesOf(folder: string, files: Files): readonly string[] {
  const workspaces = join(folder, 'workspaces');
  return files.stat(workspaces) ? yamlFiles(workspaces, files) : [];
}

function filesAt(path: string, files: Files): readonly string[] {
  const stats = files.stat(path);
  if (!stats) throw new SyncError('config_unreadable', `${path}: there is no such file or folder`);
  if (stats.kind !== 'folder') return [path];
  const found = yamlFiles(path, files);
  if (found.length === 0) {
    const hint = `Put a workspace file there; in a container, mount the folder that has it. Or set ${CONFIG_TEXT}. config/examples/ has files to start from, and --config config/default.yaml runs the demo.`;
    throw new SyncError('config_unreadable', `${path}: the folder contains no *.yaml file`, { hint });
  }
  return found;
}

function yamlFiles(folder: string, files: Files): readonly string[] {
  return files
    .list(folder)
    .filter((file) => /^[^.].*\.ya?ml$/.test(file))
    .sort()
    .map((file) => join(folder, file));
}

/** First line of the drafts that `worksync init` writes. */
const SCHEMA_LINE = /^# yaml-language-server: \$schema=(?:\S*\/)?schema\.json\r?$/;
/** The working folder may be that of another project, with other files in its `config/`. */
const MOST_FILES = 200;
/** Drafts are smaller. */
const MAX_DRAFT_BYTES = 65_536;

/** Returns the drafts of `worksync init`: files beside the folder `workspaces/`, which worksync does not read. */
export function draftFiles({ path, configFolder }: ConfigPlace, files: Files = diskFiles): readonly string[] {
  const standard = configFolder ? [configFolder] : [resolve('config'), CONFIG_FOLDER];
  const folders = path === undefined ? standard : configFolderOf(resolve(path));
  return [...new Set(folders)]
    .flatMap((folder) => yamlFilesIfReadable(folder, files).slice(0, MOST_FILES))
    .filter((file) => SCHEMA_LINE.test(firstLineOf(file, files)));
}

function yamlFilesIfReadable(folder: string, files: Files): readonly string[] {
  try {
    return yamlFiles(folder, files).filter((file) => basename(file) !== 'default.yaml');
  } catch {
    return [];
  }
}

function configFolderOf(path: string): readonly string[] {
  const workspaces = [path, dirname(path)].find((folder) => basename(folder) === 'workspaces');
  return workspaces === undefined ? [] : [dirname(workspaces)];
}

/** Returns an empty text for what is no file, or cannot be read. */
function firstLineOf(file: string, files: Files): string {
  try {
    return files.read(file, MAX_DRAFT_BYTES).bytes.toString('utf8', 0, 1_024).split('\n', 1)[0] ?? '';
  } catch {
    return '';
  }
}

/** Returns a stamp of the files of a configuration that differs when one of them is changed, added or removed. */
export function stampOf(
  input: ConfigPlace & { readonly text?: string },
  secretSources: readonly string[],
  files: Files = diskFiles,
): string {
  const own = input.text === undefined ? readableFiles(input, files) : [];
  return [...own, ...secretSources].map((file) => versionOf(file, files)).join('\n');
}

/** An unreadable configuration counts as a change; the next load reports the reason. */
function readableFiles(input: ConfigPlace, files: Files): readonly string[] {
  try {
    return filesOf(input, files);
  } catch {
    return [];
  }
}

function versionOf(file: string, files: Files): string {
  try {
    return `${file} ${files.stat(file)?.version ?? 'does not exist'}`;
  } catch (error) {
    return `${file} ${(error as FileFault).code}`;
  }
}

/**
 * The `.env` file that was read, and how its variables are used. It is beside the configuration folder, where `worksync init`
 * writes it. Its variables serve `${NAME}` in configuration files and `WORKSYNC_*`, and nothing else: the file never becomes a part
 * of the process's environment, which comes before the file. `ci`, `healthcheck` and commands with `--url` do not read it, because
 * they run in checkouts that strangers write.
 */
export interface EnvFile {
  readonly path: string;
  /** The variables that it sets, without those that the environment sets too. */
  readonly used: readonly string[];
  /** The variables that the environment sets too, so that the file is not used for them. */
  readonly overridden: readonly string[];
  readonly warnings: readonly string[];
}

export interface CommandEnvironment {
  /** For `WORKSYNC_*` and for everything that is no configuration file. */
  readonly settings: Environment;
  /** For `${NAME}` in configuration files. */
  readonly variables: Environment;
  /** The path of `.env`, which may not exist; absent if the configuration is a text in a variable. */
  readonly place?: string;
  /** Absent if there is no `.env`. */
  readonly file?: EnvFile;
}

const LARGEST = 65_536;

/** Variables of Node, npm and every connection of the process, which belong to its own environment. */
const REFUSED = /^(?:NODE_|npm_|(?:HTTPS?|NO|ALL)_PROXY$|SSL_CERT_(?:FILE|DIR)$)/i;
/** Variables that determine the place of the configuration, and so of `.env`. */
const OF_CONFIG: readonly string[] = ['WORKSYNC_CONFIG', CONFIG_TEXT];

/**
 * Returns the environment of a command that reads the configuration folder. Throws `config_unreadable` and `config_invalid` for a
 * `.env` that cannot be used.
 */
export function commandEnvironment(
  flags: Pick<Flags, 'config'>,
  env: Environment = environment(),
  files: Files = diskFiles,
): CommandEnvironment {
  const place = reading(flags.config?.toString() ?? '.env', () => placeOf(flags, env, files));
  return withFile(place, env, files);
}

/** Returns the environment for one configuration file. A configuration in a variable has the process's environment alone. */
export function environmentOf(file: string, files: Files): CommandEnvironment {
  return withFile(file === CONFIG_TEXT ? undefined : besideConfig(dirname(resolve(file))), environment(), files);
}

function withFile(path: string | undefined, env: Environment, files: Files): CommandEnvironment {
  if (path === undefined) return { settings: env, variables: env };
  const kind = reading(path, () => files.stat(path)?.kind);
  // A folder of this name is a virtual environment of Python.
  if (kind === undefined || kind === 'folder') return { settings: env, variables: env, place: path };
  const content = reading(path, () => files.read(path, LARGEST));
  const { values: all, ignored } = valuesIn(path, content);
  const values = Object.entries(all);
  const used = values.filter(([name]) => !isSet(env, name));
  const settings = used.filter(([name]) => name.startsWith('WORKSYNC_'));
  return {
    settings: Object.freeze({ ...env, ...Object.fromEntries(settings) }),
    variables: Object.freeze({ ...env, ...Object.fromEntries(used) }),
    place: path,
    file: {
      path,
      used: used.map(([name]) => name),
      overridden: values.map(([name]) => name).filter((name) => isSet(env, name)),
      warnings: [...readableByAll(path, content.stats), ...ignored],
    },
  };
}

/** The path of `.env`; undefined if the configuration is a text in a variable. */
function placeOf(flags: Pick<Flags, 'config'>, env: Environment, files: Files): string | undefined {
  if (flags.config === undefined && env[CONFIG_TEXT]) return undefined;
  const given = flags.config?.toString() ?? env['WORKSYNC_CONFIG'];
  return besideConfig(folderOfFiles(given || undefined, files));
}

/** The `.env` beside the configuration folder. Workspace files are in that folder or in its `workspaces/`. */
function besideConfig(files: string): string {
  const config = basename(files) === 'workspaces' ? dirname(files) : files;
  return join(dirname(config), '.env');
}

function folderOfFiles(given: string | undefined, files: Files): string {
  if (given === undefined) return dirname(resolve(configFiles({}, files)[0] ?? ''));
  const isFolder = files.stat(given)?.kind === 'folder';
  return resolve(isFolder ? given : dirname(given));
}

/** Returns the variables that have a value, and a warning for each line that is ignored. */
function valuesIn(path: string, { bytes, stats: { mode, uid } }: FileContent) {
  const refuse = (problem: string, hint: string) => new SyncError('config_unreadable', `${path}: ${problem}`, { hint });
  if ((mode & 0o002) !== 0) throw refuse(`everybody may write to it (mode ${octal(mode)})`, `Run: chmod 600 ${path}`);
  const me = process.getuid?.() ?? uid;
  if (uid !== me && uid !== 0 && me !== 0)
    throw refuse('it belongs to another user, who may change it', 'Make it a file of the user that runs worksync.');
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  const values = parseEnv(text) as Readonly<Record<string, string>>;
  const problems = Object.keys(values).flatMap((name) => problemOf(name) ?? []);
  if (problems.length > 0) {
    const lines = problems.map(({ name, problem }) => `${path}:${lineOf(text, name)}: ${name} ${problem}`);
    const hint = 'Remove these lines from .env, and set the variables in the environment of the process.';
    throw new SyncError('config_invalid', lines.join('\n'), { hint });
  }
  return {
    values: Object.fromEntries(Object.entries(values).filter(([, value]) => value !== '')),
    ignored: ignoredLines(text, Object.values(values)).map(
      (line) => `${path}:${line}: ignored, because it is not NAME=value`,
    ),
  };
}

const ASSIGNMENT_OR_COMMENT = /^(?:#|(?:export\s+)?[\w.-]+\s*=|$)/;

/** Returns the numbers of the lines that are neither an assignment nor a part of a value with several lines. */
function ignoredLines(text: string, values: readonly string[]): readonly number[] {
  const inValues = new Set(values.flatMap((value) => value.split('\n').slice(1)).map((line) => line.trim()));
  return text.split('\n').flatMap((line, index) => {
    const content = line.trim();
    const isRead = ASSIGNMENT_OR_COMMENT.test(content) || inValues.has(content.replace(/["'`]$/, ''));
    return isRead ? [] : [index + 1];
  });
}

function reading<Result>(path: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FileFault)) throw error;
    const hint = 'Make it a file of at most 64 KiB that the user of worksync may read, or remove it.';
    throw new SyncError('config_unreadable', error.about(path), { cause: error, hint });
  }
}

function problemOf(name: string): { readonly name: string; readonly problem: string } | undefined {
  if (REFUSED.test(name)) return { name, problem: 'cannot be set in .env: set it in the environment of the process' };
  if (OF_CONFIG.includes(name))
    return {
      name,
      problem: 'cannot be set in .env, which is found beside the configuration: set it in the environment',
    };
  return undefined;
}

function lineOf(text: string, name: string): number {
  const lines = text.split('\n');
  return lines.findIndex((line) => line.replace(/^\s*(?:export\s+)?/, '').startsWith(name)) + 1;
}

/** A variable and the one with `_FILE` stand for the same value. */
function isSet(env: Environment, name: string): boolean {
  const plain = name.replace(/_FILE$/, '');
  return [plain, `${plain}_FILE`].some((each) => (env[each] ?? '') !== '');
}
