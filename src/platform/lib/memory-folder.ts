import { statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const FORM = /^:memory:([a-z0-9-]{0,32})$/;
const PREFIX = 'worksync-memory-';

/**
 * The folder that `:memory:` stands for, or `:memory:name` where several are needed; undefined for any other text. Each user
 * has another one, and the commands beside a daemon find the same. On Linux it lies in memory.
 */
export function memoryFolder(text: string): string | undefined {
  const name = FORM.exec(text)?.[1];
  if (name === undefined) return undefined;
  return join(placeOf(), [`${PREFIX}${process.getuid?.() ?? 'user'}`, name].filter(Boolean).join('-'));
}

/** Whether what lies in this folder ends with the process that owns it. */
export function isMemoryFolder(path: string): boolean {
  return dirname(path) === placeOf() && path.includes(`/${PREFIX}`);
}

function placeOf(): string {
  return statSync('/dev/shm', { throwIfNoEntry: false })?.isDirectory() ? '/dev/shm' : tmpdir();
}
