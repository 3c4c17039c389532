import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, it } from 'vitest';
import type { DaemonContext } from '../../../src/daemon/daemon-context.ts';
import { checkIntegrity } from '../../../src/daemon/open-store.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { Installation } from '../../../src/store/installation/installation.ts';
import { folderOfTest } from '../../support/harness/folder.ts';

type Checked = Installation;

/** A database whose earlier check was killed, and what its next check does. */
function setUp(parts: Partial<Checked> = {}, complaints: readonly string[] = []) {
  const folder = folderOfTest('integrity');
  const file = join(folder, 'test.db');
  for (const suffix of ['', '-wal', '-shm', '-journal']) writeFileSync(`${file}.check${suffix}`, 'of a killed check');
  const steps: string[] = [];
  const copies = () => readdirSync(folder);
  const asFile: Partial<NonNullable<Installation['asFile']>> = {
    async backup(copy) {
      steps.push(`copies beside ${copies().length} files`);
      writeFileSync(copy, 'a copy');
    },
  };
  const database = {
    ...{ file, asFile: asFile as NonNullable<Installation['asFile']>, size: () => 4_096 },
    condemn: (complaint: string) => void steps.push(`condemns: ${complaint}`),
    ...parts,
  };
  const checkFile = async (copy: string) => {
    steps.push(`checks ${basename(copy)}, ${existsSync(copy) ? 'which exists' : 'which is gone'}`);
    return complaints;
  };
  return {
    check: () =>
      checkIntegrity({ installation: database, checkFile, logger: silentLogger } as unknown as DaemonContext),
    steps,
    copies,
  };
}

it.each([[[]], [['page 3', 'page 4']]])('checks a copy where a killed check left one, with %j', async (complaints) => {
  const { check, steps, copies } = setUp({}, complaints);
  await check();
  const condemned = complaints.map((complaint) => `condemns: ${complaint}`);
  expect(steps).toEqual(['copies beside 0 files', 'checks test.db.check, which exists', ...condemned]);
  expect(copies()).toEqual([]);
});
