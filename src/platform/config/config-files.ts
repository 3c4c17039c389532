import { basename, dirname, join, resolve } from 'node:path';
import { SyncError } from '../../model/errors/sync-error.ts';
import { PROGRAM } from '../lib/program-folder.ts';
import { diskFiles, FileFault, type Files } from '../lib/regular-files.ts';
import { CONFIG_TEXT } from './daemon-options.ts';

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
    return configFiles(input, files);
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
