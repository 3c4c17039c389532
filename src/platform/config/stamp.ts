import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { configFiles } from './config-files.ts';
import type { LoadInput } from './load.ts';

type ConfigPlace = Pick<LoadInput, 'path' | 'text' | 'configFolder'>;

/** The files of a configuration as they look from outside: differs when one of them was changed, added or taken away. */
export function stampOf(input: ConfigPlace, secretSources: readonly string[]): string {
  return [...filesOf(input), ...secretSources].map(lookOf).join('\n');
}

/** Where changes show: the folder of the files; undefined where the configuration is no file. */
export function folderOf(input: ConfigPlace): string | undefined {
  const [first] = filesOf(input);
  return first === undefined ? undefined : dirname(first);
}

/** What cannot be read now is a change like others: the load after it says what is wrong. */
function filesOf(input: ConfigPlace): readonly string[] {
  if (input.text !== undefined) return [];
  try {
    return configFiles(input);
  } catch {
    return [];
  }
}

function lookOf(file: string): string {
  try {
    const { ino, size, mtimeMs, ctimeMs } = statSync(file);
    return [file, ino, size, mtimeMs, ctimeMs].join(' ');
  } catch {
    return `${file} does not exist`;
  }
}
