import { closeSync, fsyncSync, openSync } from 'node:fs';

/**
 * Makes the names in a folder durable: until then a power failure may take back that a file was made or renamed, however well
 * its content was synchronised.
 */
export function syncFolder(folder: string): void {
  const opened = openSync(folder, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
