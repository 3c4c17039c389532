import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { SyncError } from '../model/errors.ts';
import { parseJson } from '../platform/http/parse-json.ts';
import { MEBIBYTE } from '../platform/lib/quantities.ts';
import { diskFiles, FileFault } from '../platform/lib/regular-files.ts';

/** Adds `--<name>` and `--<name>-file`, of which one may be given: a text as it is, from a file, or from standard input (`-`). */
export function withText(command: Command, name: 'content' | 'description'): Command {
  return command
    .option(`--${name} <text>`, `the ${name}; - reads standard input`, (text) => (text === '-' ? readText(text) : text))
    .addOption(
      new Option(`--${name}-file <file>`, `a file with the ${name}; - reads standard input`)
        .argParser(readText)
        .conflicts(name),
    );
}

const STANDARD_INPUT = 0;
const MAX_BYTES = 1_024 * MEBIBYTE;

/** Reads a file, or standard input (`-`). Throws `usage`. */
export function readBytes(file: string): Buffer {
  try {
    return file === '-' ? readFileSync(STANDARD_INPUT) : diskFiles.read(file, MAX_BYTES).bytes;
  } catch (error) {
    const name = nameOf(file);
    const problem = error instanceof FileFault ? error.about(name) : `cannot read ${name}: ${(error as Error).message}`;
    throw new SyncError('usage', problem, { cause: error });
  }
}

function readText(file: string): string {
  const bytes = readBytes(file);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new SyncError('usage', `${nameOf(file)} is not UTF-8 text`, { cause: error });
  }
}

/** Reads JSON: as it is, or from `@<file>` or standard input (`@-`). Throws `usage`. */
export function jsonOf(text: string): unknown {
  const file = text.startsWith('@') ? text.slice(1) : undefined;
  const bytes = file === undefined ? Buffer.from(text) : readBytes(file);
  try {
    return parseJson(bytes);
  } catch (error) {
    const name = file === undefined ? 'the text' : nameOf(file);
    throw new SyncError('usage', `${name} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}
