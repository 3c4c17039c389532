import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { installedPaths, LINUX, readLock, TOP } from '../../.ci/supply/lock.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { npm } from '../support/harness/npm.ts';
import { startNode } from '../support/harness/processes.ts';

/** npm installs exactly the production packages, without running their scripts. */
const folder = folderOfFile('production');

const isHere = process.platform === LINUX.os && process.arch === LINUX.cpu;
for (const name of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(TOP, name), join(folder, name));
const isInstalled = isHere && npm(folder, 'ci', '--omit=dev');

/** Packages with code of the machine, each used once. */
const NATIVE = `
const Database = require('better-sqlite3');
const { compressSync, uncompressSync } = require('lz4-napi');
const row = new Database(':memory:').prepare('select 6 * 7 as answer').get();
console.log(row.answer, String(uncompressSync(compressSync(Buffer.from('packed')))));
`;

it.runIf(isInstalled)('are those that are counted [A17]', () => {
  const { packages } = JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8')) as {
    packages: Record<string, object>;
  };
  expect(Object.keys(packages).toSorted()).toEqual(installedPaths(readLock(), LINUX).toSorted());
});

it.runIf(isInstalled)(
  'work, those with code of the machine too, though no script of theirs has run [A17]',
  async () => {
    expect(existsSync(join(folder, 'node_modules/better-sqlite3/build'))).toBe(false);
    const ended = await startNode(['-e', NATIVE], { cwd: folder }).ended;
    expect(ended).toEqual({ code: 0, stdout: '42 packed\n', stderr: '' });
  },
);
