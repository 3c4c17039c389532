import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TOP } from './draw.ts';
import type { Mutation } from './operators.ts';

/** A copy of the project in which mistakes are made. */
export interface Copy {
  readonly folder: string;
  /** With this mistake in it, for as long as the work takes. */
  during<Result>(mutation: Mutation, work: () => Promise<Result>): Promise<Result>;
  remove(): void;
}

const LEFT = new Set(['.git', 'node_modules', 'dist']);

export function makeCopy(): Copy {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-mutations-'));
  // Some tests start the daemon as another user, who must be able to read it.
  chmodSync(folder, 0o755);
  for (const name of readdirSync(TOP))
    if (!LEFT.has(name)) cpSync(join(TOP, name), join(folder, name), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    async during({ file, start, end, text }, work) {
      const source = readFileSync(join(TOP, file), 'utf8');
      writeFileSync(join(folder, file), source.slice(0, start) + text + source.slice(end));
      try {
        return await work();
      } finally {
        writeFileSync(join(folder, file), source);
      }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
