import { diskFiles, type FileFault, type Files } from '../lib/regular-files.ts';
import { configFiles } from './config-files.ts';
import type { LoadInput } from './load.ts';

type ConfigPlace = Pick<LoadInput, 'path' | 'text' | 'configFolder'>;

/** Returns a stamp of the files of a configuration that differs when one of them is changed, added or removed. */
export function stampOf(input: ConfigPlace, secretSources: readonly string[], files: Files = diskFiles): string {
  return [...filesOf(input, files), ...secretSources].map((file) => lookOf(file, files)).join('\n');
}

/** An unreadable configuration counts as a change; the next load reports the reason. */
function filesOf(input: ConfigPlace, files: Files): readonly string[] {
  if (input.text !== undefined) return [];
  try {
    return configFiles(input, files);
  } catch {
    return [];
  }
}

function lookOf(file: string, files: Files): string {
  try {
    return `${file} ${files.stat(file)?.version ?? 'does not exist'}`;
  } catch (error) {
    return `${file} ${(error as FileFault).code}`;
  }
}
