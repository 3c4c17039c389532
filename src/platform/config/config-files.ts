import { existsSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
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
  // Nobody edits the folder of an installed package, so the files in the working folder come first.
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
