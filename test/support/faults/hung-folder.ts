import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

/**
 * Loaded before a program (`--import`): while there is a file `hung` beside it, the folder `HUNG_FOLDER` is on a file system that does
 * not answer. Each call then waits in the kernel for the writer of a pipe, as it would for a server. The folder never answers a call of
 * `watch`. Reads under way answer once somebody has opened the pipe to write.
 */
const FOLDER = process.env['HUNG_FOLDER'] ?? '';
const { closeSync, existsSync, openSync, promises } = fs;
const { open } = promises;
const PIPE = join(FOLDER, '../pipe');

const isIn = (path: unknown) => String(path).startsWith(FOLDER);
const isHung = (path: unknown) => isIn(path) && existsSync(join(FOLDER, '../hung'));

for (const [name, original] of Object.entries(fs))
  if (/^watch|Sync$/.test(name))
    Object.assign(fs, {
      [name](...args: unknown[]) {
        if (name.startsWith('watch') ? isIn(args[0]) : isHung(args[0])) closeSync(openSync(PIPE, 'r'));
        return (original as (...args: unknown[]) => unknown)(...args);
      },
    });
for (const [name, original] of Object.entries(promises))
  if (typeof original === 'function')
    Object.assign(promises, {
      async [name](...args: unknown[]) {
        if (isHung(args[0])) await (await open(PIPE, 'r')).close();
        return (original as (...args: unknown[]) => unknown)(...args);
      },
    });
syncBuiltinESMExports();
