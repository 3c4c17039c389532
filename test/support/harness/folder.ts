import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

/** A folder that is gone when the test is over: for tests, and for what runs before each of them. */
export function folderOfTest(name: string): string {
  const folder = newFolder(name);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A folder that is gone when all tests of the file are over. Call it outside of them. */
export function folderOfFile(name: string): string {
  const folder = newFolder(name);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function newFolder(name: string): string {
  return mkdtempSync(join(tmpdir(), `worksync-${name}-`));
}
