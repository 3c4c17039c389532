import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { type Running, type StartOptions, startWorksync } from './processes.ts';

/** A folder for each test of a file, and the programs that it started: both end with the test. */
export interface Scratch {
  readonly folder: string;
  start(args: readonly string[], options?: StartOptions): Running;
}

/** Call it once, before the hooks of the file. */
export function useScratch(name: string): Scratch {
  const running: Running[] = [];
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), `worksync-${name}-`));
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((process) => process.end('SIGKILL')));
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    get folder() {
      return folder;
    },
    start(args, options) {
      const process = startWorksync(args, options);
      running.push(process);
      return process;
    },
  };
}
