import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../../src/platform/database/open.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { type Installation, openInstallation } from '../../../src/store/installation.ts';
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

it.each(['worksync.db', 'team.db'])('leaves %s of a version before the first release untouched', async (name) => {
  const path = folder();
  const file = join(path, name);
  await (await openDatabase({ file, migrations: { '001_sessions': { up: async () => undefined } } })).close();
  const before = readFileSync(file);
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_too_old',
    hint: expect.stringContaining('start with an empty data folder at least 15 minutes after'),
  });
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(readdirSync(path)).toEqual([name]);
});

it('a damaged file says what is lost with it', async () => {
  const path = folder();
  writeFileSync(join(path, 'worksync.db'), 'no database at all '.repeat(400));
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_corrupt',
    hint: expect.stringContaining('log in again'),
  });
});
