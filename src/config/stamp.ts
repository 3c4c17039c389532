import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { configFiles, type LoadInput } from './load.ts';

/** The files of a configuration as they look from outside: differs when one of them was changed, added or taken away. */
export function stampOf(input: Pick<LoadInput, 'path' | 'configFolder'>, secretSources: readonly string[]): string {
  return [...filesOf(input), ...secretSources].map(lookOf).join('\n');
}

/** Where changes show: the folder of the files. */
export function folderOf(input: Pick<LoadInput, 'path' | 'configFolder'>): string | undefined {
  const [first] = filesOf(input);
  return first === undefined ? undefined : dirname(first);
}

/** What cannot be read now is a change like others: the load after it says what is wrong. */
function filesOf(input: Pick<LoadInput, 'path' | 'configFolder'>): readonly string[] {
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
