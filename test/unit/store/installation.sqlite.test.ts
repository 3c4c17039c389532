import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../../src/lib/database/open.ts';
import { systemRandom } from '../../../src/lib/random.ts';
import { type Installation, openInstallation } from '../../../src/store/installation.ts';
import { OLD_MIGRATIONS } from '../../../src/store/takeover/old-migrations.ts';
import { folderOfTest } from '../../support/folder.ts';

function folder(): string {
  const path = folderOfTest('installation');
  return path;
}

async function open(path = folder()): Promise<Installation> {
  const installation = await openInstallation(path, { random: systemRandom() });
  onTestFinished(() => installation.close());
  return installation;
}

it('nobody else may read the file of a data folder', async () => {
  const { file } = await open();
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

it('the database of a workspace that was called worksync is not taken for it', async () => {
  const path = folder();
  await (await openDatabase({ file: join(path, 'worksync.db'), migrations: OLD_MIGRATIONS })).close();
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_newer',
    hint: expect.stringContaining('rename both the workspace and the file'),
  });
});

it('a damaged file says what is lost with it', async () => {
  const path = folder();
  writeFileSync(join(path, 'worksync.db'), 'no database at all '.repeat(400));
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_corrupt',
    hint: expect.stringContaining('log in again'),
  });
});
