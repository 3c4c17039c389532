import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { SyncError } from '../../../src/model/errors.ts';
import type { Environment } from '../../../src/platform/config/interpolate.ts';
import { type LoadedConfig, loadConfig } from '../../../src/platform/config/load.ts';
import type { ConnectorOptions } from '../../../src/platform/config/schema.ts';
import { folderOfTest } from '../harness/folder.ts';

const options = z
  .strictObject({
    projects: z.array(z.string()).min(1).describe('What is read.'),
    token: z.string().min(3).optional().describe('Credential.'),
    retries: z.int().min(0).default(1).describe('Tries.'),
    verbose: z.boolean().default(false).describe('Says more.'),
    login: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('app'), id: z.int() }),
        z.strictObject({ kind: z.literal('none') }),
      ])
      .optional()
      .describe('Who reads.'),
  })
  .describe('Options of a made-up vendor.');

/** A made-up vendor with every kind of option; without a token it allows a poll every five minutes. */
export const forge: ConnectorOptions = {
  id: 'forge',
  title: 'Forge',
  options,
  shortestPoll: (given: z.output<typeof options>) => (given.token === undefined ? 300_000 : 0),
};

export const tracker: ConnectorOptions = { id: 'tracker', title: 'Tracker', options: z.strictObject({}) };

export const apiOverrides = z.strictObject({
  versionHeader: z.string().optional(),
  routes: z.partialRecord(z.enum(['listTasks', 'createTask']), z.string()).optional(),
});

/** Writes the files into a folder of its own, which is removed after the test. */
export function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = folderOfTest('config');
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const FORGE_AND_TRACKER: readonly ConnectorOptions[] = [forge, tracker];

export function load(path: string, env: Environment = {}, connectors = FORGE_AND_TRACKER): LoadedConfig {
  return loadConfig({ path, env, connectors, apiOverrides });
}

export function loadText(text: string, env: Environment = {}, connectors = FORGE_AND_TRACKER): LoadedConfig {
  return load(folderOf({ 'work.yaml': text }), env, connectors);
}

/** Returns the SyncError that `call` throws; fails if it throws anything else. */
export function refusal(call: () => unknown): SyncError {
  try {
    call();
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

/** The problems of the files, with the folder's own name taken away. */
export function problemsOf(files: Readonly<Record<string, string>>, env: Environment = {}): readonly string[] {
  const folder = folderOf(files);
  const lines = linesOf(() => load(folder, env)).map((line) => line.replace(`${folder}/`, ''));
  if (lines.length === 0) throw new Error('nothing was refused');
  return lines;
}

/** Lines of errors in the files that are wrong, whether or not others are right. */
function linesOf(read: () => LoadedConfig): readonly string[] {
  try {
    return read().broken.flatMap(({ error }) => error.message.split('\n'));
  } catch (error) {
    if (error instanceof SyncError && error.code === 'config_invalid') return error.message.split('\n');
    throw error;
  }
}
