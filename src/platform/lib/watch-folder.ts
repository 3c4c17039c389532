import { type FSWatcher, watch } from 'node:fs';
import type { Cancel } from './clock.ts';

/**
 * Calls soon after something in the folder has changed. Only a hint: some file systems report nothing, or too much, and changes
 * behind a symbolic link go unseen; a caller that needs certainty must also check by itself.
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
