import { type FSWatcher, watch } from 'node:fs';
import type { Cancel } from './clock.ts';

/**
 * Calls soon after something in the folder has changed. Only a hint: some file systems tell nothing, or too much, and what
 * stands behind a symbolic link changes unseen; whoever needs to know looks by itself too.
 */
export function watchFolder(folder: string, onChange: () => void): Cancel {
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, onChange);
    watcher.on('error', () => watcher?.close());
  } catch {
    // The folder is not there, or the system has no watcher left.
  }
  return () => watcher?.close();
}
