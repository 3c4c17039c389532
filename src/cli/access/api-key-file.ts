import { closeSync, existsSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { syncFolder } from '../../platform/lib/folders.ts';
import { diskFiles, type FileFault } from '../../platform/lib/regular-files.ts';
import type { CommandClient } from '../workspace-client.ts';

/** Creates a key, and writes its secret to the file if there is one. */
export function createKey(client: CommandClient, description: string, file: KeyFile | undefined) {
  const create = async () => (await client.createApiKey({ body: { description } }, {})).body;
  return storingSecret(file, create, ({ secret }) => secret);
}

/** Creates something, and writes the secret of the answer to the file if there is one. */
export async function storingSecret<Created>(
  file: KeyFile | undefined,
  create: () => Promise<Created>,
  secretOf: (created: Created) => string,
): Promise<Created> {
  file?.begin();
  try {
    const created = await create();
    file?.write(secretOf(created));
    return created;
  } catch (error) {
    const { status } = asSyncError(error);
    if (status !== undefined && status >= 400 && status < 500) file?.abandon();
    throw error;
  }
}

export type KeyFile = ReturnType<typeof keyFile>;

/**
 * A file with one API key, mode 0600, replaced in one step: who reads it sees the old secret or the new one. Beside it
 * stands `<file>.new` from before a key is created until its secret is in place, so that a repeated call knows what
 * an interrupted one left. Throws `usage` where the file cannot be written, or holds something that is no key.
 */
export function keyFile(path: string) {
  refuseOther(path);
  const next = `${path}.new`;
  return {
    path,
    /** Puts a secret in place that an interrupted run has written, if it belongs to a key with one of the prefixes. */
    finish(keyPrefixes: readonly string[]): void {
      const secret = read(next);
      if (isWhole(secret) && keyPrefixes.some((prefix) => secret.startsWith(prefix))) place(next, path);
    },
    /** Whether the file holds the secret of the key with this prefix. */
    holds: (keyPrefix: string) => isWhole(read(path)) && read(path).startsWith(keyPrefix),
    /** Whether a run was interrupted between the creation of a key and the write of its secret. */
    wasCutOff: () => existsSync(next) && !isWhole(read(next)),
    /** Call it before a key is created. */
    begin: () => put(next, ''),
    write(secret: string): void {
      put(next, `${secret}\n`);
      place(next, path);
    },
    /** Call it if it is certain that no key was created. */
    abandon: () => rmSync(next, { force: true }),
  };
}

const MAX_BYTES = 65_536;

/** The line's end is written last. */
function isWhole(secret: string): boolean {
  return secret.endsWith('\n');
}

function place(next: string, path: string): void {
  renameSync(next, path);
  syncFolder(dirname(path));
}

function refuseOther(path: string): void {
  if (/^[\x21-\x7e]{0,512}\n?$/.test(read(path))) return;
  throw new SyncError('usage', `${path} contains something other than a key`, { hint: 'Name another file.' });
}

function read(path: string): string {
  try {
    return diskFiles.read(path, MAX_BYTES).bytes.toString('utf8');
  } catch (error) {
    if ((error as FileFault).code === 'ENOENT') return '';
    throw unusable(path, error);
  }
}

function put(path: string, text: string): void {
  try {
    const file = openSync(path, 'w', 0o600);
    try {
      fchmodSync(file, 0o600);
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    syncFolder(dirname(path));
  } catch (error) {
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): SyncError {
  return new SyncError('usage', `${path} cannot be used: ${(error as Error).message}`, { cause: error });
}
