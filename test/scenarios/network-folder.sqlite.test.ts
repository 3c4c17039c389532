import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { afterEach, expect, it } from 'vitest';
import { type Logger, silentLogger } from '../../src/platform/lib/telemetry.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';

/** A data folder on a file system that other machines share. */

const NFS = 0x6969;
const EXT4 = 0xef53;

let world: World;
const own = fs.statfsSync;
afterEach(async () => {
  useStatfs(own);
  await world.close();
});

function useStatfs(statfs: typeof fs.statfsSync): void {
  fs.statfsSync = statfs;
  syncBuiltinESMExports();
}

/** The warnings of a daemon whose data folder lies on a file system of this type. */
async function warningsOn(type: number): Promise<readonly (readonly [fields: object, message: string])[]> {
  useStatfs(((path: string) => Object.assign(own(path), { type })) as typeof own);
  const warnings: [object, string][] = [];
  const logger: Logger = { ...silentLogger, warn: (...entry) => void warnings.push(entry), child: () => logger };
  world = await createWorld({ logger });
  return warnings;
}

const ABOUT_FILE_SYSTEM = expect.stringContaining('file system');

it.runIf(process.platform === 'linux')('warns at the start, and names the folder and the file system', async () => {
  const warnings = await warningsOn(NFS);
  expect(warnings).toContainEqual([{ folder: world.dataFolder, fileSystem: 'NFS' }, ABOUT_FILE_SYSTEM]);
  await world.settled();
});

it('does not warn about a local one', async () => {
  expect(await warningsOn(EXT4)).not.toContainEqual([expect.anything(), ABOUT_FILE_SYSTEM]);
});
