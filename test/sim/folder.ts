import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { folderOfTests } from '../support/harness/memory-disk.ts';

export function makeFolder(): string {
  return mkdtempSync(join(folderOfTests(), 'worksync-sim-'));
}
