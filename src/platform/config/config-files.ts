import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { SyncError } from '../../model/errors/sync-error.ts';
import { PROGRAM } from '../lib/program-folder.ts';
import { CONFIG_TEXT } from './daemon-options.ts';

/** The project's `config/`. */
export const CONFIG_FOLDER = join(PROGRAM, 'config');

/** Where configuration files are. */
export interface ConfigPlace {
  /** A file, or a folder of `*.yaml` and `*.yml`. Absent: `workspaces/` of the config folder, else its default. */
  readonly path?: string;
  /** Absent: `config/` of the working folder, then that of the installation. */
  readonly configFolder?: string;
}

/** The configuration files, sorted by name. Throws `config_unreadable` where the path leads to none. */
export function configFiles(input: ConfigPlace): readonly string[] {
  if (input.path !== undefined) return filesAt(input.path);
  const folder = input.configFolder ?? CONFIG_FOLDER;
  // The files in the working folder come first, because the folder of an installed package is not edited.
  const own = (input.configFolder ? [folder] : [resolve('config'), folder]).map(workspacesOf);
  return own.find((files) => files.length > 0) ?? [join(folder, 'default.yaml')];
}

function workspacesOf(folder: string): readonly string[] {
  const workspaces = join(folder, 'workspaces');
  return existsSync(workspaces) ? yamlFiles(workspaces) : [];
}

function filesAt(path: string): readonly string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new SyncError('config_unreadable', `${path}: there is no such file or folder`);
  if (!stat.isDirectory()) return [path];
  const files = yamlFiles(path);
  if (files.length === 0) {
    const hint = `Put a workspace file there, or mount it, or set ${CONFIG_TEXT}: config/examples/ has some to start from.`;
    throw new SyncError('config_unreadable', `${path}: the folder contains no *.yaml file`, { hint });
  }
  return files;
}

function yamlFiles(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((file) => /^[^.].*\.ya?ml$/.test(file))
    .sort()
    .map((file) => join(folder, file));
}

/** First line of the drafts that `worksync init` writes. */
const SCHEMA_LINE = /^# yaml-language-server: \$schema=(?:\S*\/)?schema\.json\r?$/;
/** The working folder may be that of another project, with other files in its `config/`. */
const MOST_FILES = 200;

/** Drafts of `worksync init`: files beside the folder `workspaces/`, which worksync does not read. */
export function draftFiles({ path, configFolder }: ConfigPlace): readonly string[] {
  const standard = configFolder ? [configFolder] : [resolve('config'), CONFIG_FOLDER];
  const folders = path === undefined ? standard : configFolderOf(resolve(path));
  return [...new Set(folders)]
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      yamlFiles(folder)
        .filter((file) => basename(file) !== 'default.yaml')
        .slice(0, MOST_FILES)
        .filter((file) => SCHEMA_LINE.test(firstLineOf(file))),
    );
}

function configFolderOf(path: string): readonly string[] {
  const workspaces = [path, dirname(path)].find((folder) => basename(folder) === 'workspaces');
  return workspaces === undefined ? [] : [dirname(workspaces)];
}

/** Returns an empty text for what is no file, or cannot be read. */
function firstLineOf(file: string): string {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return '';
  try {
    const handle = openSync(file, 'r');
    try {
      const bytes = Buffer.alloc(1_024);
      return bytes.toString('utf8', 0, readSync(handle, bytes)).split('\n', 1)[0] ?? '';
    } finally {
      closeSync(handle);
    }
  } catch {
    return '';
  }
}
