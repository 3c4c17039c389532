import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

/**
 * Loaded before a program (`--import`): once there is a file `hung` beside it, the folder `HUNG_FOLDER` is on a file system that does
 * not answer. Each call then waits in the kernel for the writer of a pipe, as it would for a server. The file `watched` beside it
 * appears when the folder is watched.
 */
const FOLDER = process.env['HUNG_FOLDER'] ?? '';
const { existsSync, openSync, promises, writeFileSync } = fs;
const PIPE = join(FOLDER, '../pipe');

const isHung = (path: unknown) => String(path).startsWith(FOLDER) && existsSync(join(FOLDER, '../hung'));

for (const name of ['statSync', 'readdirSync', 'openSync', 'readFileSync', 'watch'] as const) {
  const original = fs[name] as (...args: unknown[]) => unknown;
  Object.assign(fs, {
    [name](...args: unknown[]) {
      if (isHung(args[0])) openSync(PIPE, 'r');
      if (name === 'watch' && args[0] === FOLDER) writeFileSync(join(FOLDER, '../watched'), '');
      return original(...args);
    },
  });
}
const { open } = promises;
for (const name of ['stat', 'readdir', 'open'] as const) {
  const original = promises[name] as (...args: unknown[]) => Promise<unknown>;
  Object.assign(promises, {
    async [name](...args: unknown[]) {
      if (isHung(args[0])) await open(PIPE, 'r');
      return original(...args);
    },
  });
}
syncBuiltinESMExports();
