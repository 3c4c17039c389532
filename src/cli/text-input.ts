import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { MEBIBYTE } from '../platform/lib/quantities.ts';
import { diskFiles, FileFault } from '../platform/lib/regular-files.ts';

/** Adds `--<name>` and `--<name>-file`: a text as it is, from a file, or from standard input (`-`). */
export function withText(command: Command, name: 'content' | 'description'): Command {
  return command
    .option(`--${name} <text>`, `the ${name}; - reads standard input`)
    .option(`--${name}-file <file>`, `a file with the ${name}; - reads standard input`);
}

/** The text that the flags of `withText` name; undefined where there are none. Throws `usage`. */
export function textOf(flags: Readonly<Record<string, unknown>>, name: 'content' | 'description'): string | undefined {
  const given = flags[name] as string | undefined;
  const file = flags[`${name}File`] as string | undefined;
  if (given !== undefined && file !== undefined) throw new SyncError('usage', `give --${name} or --${name}-file`);
  if (given === '-' || file === '-') return readFile(STANDARD_INPUT, 'standard input');
  return file === undefined ? given : readFile(file, file);
}

const STANDARD_INPUT = 0;
/** The largest file that a command sends. */
const MAX_BYTES = 1_024 * MEBIBYTE;

/** Throws `usage` where it cannot be read or is no text. */
function readFile(file: string | number, name: string): string {
  return decode(readBytes(file, name), name);
}

/** Throws `usage` where it cannot be read. */
export function readBytes(file: string | number, name: string): Buffer {
  try {
    return typeof file === 'number' ? readFileSync(file) : diskFiles.read(file, MAX_BYTES).bytes;
  } catch (error) {
    const problem = error instanceof FileFault ? error.about(name) : `cannot read ${name}: ${(error as Error).message}`;
    throw new SyncError('usage', problem, { cause: error });
  }
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new SyncError('usage', `${name} is not UTF-8 text`, { cause: error });
  }
}
