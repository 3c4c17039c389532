import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Random } from '../../platform/lib/clock.ts';
import { ApiError, invalid } from '../http/api-error.ts';

/**
 * Bytes of uploaded files on disk, each named by the SHA-256 of its content: equal files are one, and no name of a client is ever
 * part of a path.
 *
 * A file is complete, synced and in its place before its row is committed. A process killed in between leaves a file without a
 * row, or a part of one; the next start removes both.
 */
export interface FileStore {
  /** Signs upload addresses. Stored beside the files, not in the database, because an address outlives a restart. */
  readonly signingKey: Buffer;
  /**
   * Receives the bytes in pieces, and never has more than one piece in memory. Resolves with their digest. Throws 413 at the
   * first byte too many, 400 for too few or if the sender disconnects.
   */
  receive(body: Readable, size: number): Promise<string>;
  open(digest: string): Promise<FileHandle>;
}

/** A write has ended only when it is on the disk, because a later sync is not allowed everywhere. */
const WRITE_THROUGH = constants.O_WRONLY | constants.O_CREAT | constants.O_DSYNC;

const KEY_FILE = 'signing.key';
const KEY_BYTES = 32;

/** Opens the folder, and removes files without a row. Called while no file is being received. */
export async function openFileStore(folder: string, random: Random, named: ReadonlySet<string>): Promise<FileStore> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await syncFolder(dirname(folder));
  await sweep(folder, named);
  return {
    signingKey: await readSigningKey(join(folder, KEY_FILE), random),
    receive: async (body, size) => {
      const part = join(folder, `${random.bytes(16).toString('hex')}.part`);
      try {
        const digest = await writePart(part, body, size);
        await rename(part, join(folder, digest));
        await syncFolder(folder);
        return digest;
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
    },
    open: (digest) => open(join(folder, digest), 'r'),
  };
}

async function sweep(folder: string, named: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(folder))
    if (name !== KEY_FILE && !named.has(name)) await rm(join(folder, name), { recursive: true });
}

/** A key that a killed process wrote in part is replaced: it has signed nothing. */
async function readSigningKey(file: string, random: Random): Promise<Buffer> {
  const present = await readFile(file).catch(() => undefined);
  if (present?.length === KEY_BYTES) return present;
  const key = random.bytes(KEY_BYTES);
  const handle = await open(file, WRITE_THROUGH | constants.O_TRUNC, 0o600);
  try {
    await handle.writeFile(key);
  } finally {
    await handle.close();
  }
  return key;
}

async function writePart(file: string, body: Readable, size: number): Promise<string> {
  const handle = await open(file, WRITE_THROUGH | constants.O_EXCL, 0o600);
  try {
    return await copy(body, size, handle);
  } finally {
    await handle.close();
  }
}

async function copy(body: Readable, size: number, to: FileHandle): Promise<string> {
  const digest = createHash('sha256');
  let received = 0;
  for await (const piece of piecesOf(body)) {
    received += piece.length;
    if (received > size) throw new ApiError('payload_too_large', `more than the announced ${size} bytes were sent`);
    digest.update(piece);
    await to.writeFile(piece);
  }
  if (received < size) throw invalid(`${received} bytes were sent, ${size} were announced`);
  return digest.digest('hex');
}

/**
 * A refusal must reach the sender, who may read it only after sending the last byte. So if the reader stops early, the rest is
 * discarded, and the connection stays open.
 */
async function* piecesOf(body: Readable): AsyncGenerator<Buffer> {
  try {
    yield* body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  } catch (error) {
    throw invalid(`the upload broke off: ${(error as Error).message}`);
  } finally {
    body.resume();
  }
}

/**
 * Makes the names of a folder survive a power failure, if that is allowed: Node's permission model, under which the container
 * runs, forbids it. There the file system's own journal writes the name within seconds.
 */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_ACCESS_DENIED') throw error;
  } finally {
    await handle.close();
  }
}
