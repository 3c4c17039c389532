import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openTestInstallation } from '../../support/store.ts';

it('keeps its id, and another one has another', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-installation-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const open = async (name: string) => {
    const installation = await openTestInstallation({ file: join(folder, name) });
    await installation.close();
    return installation.id;
  };
  const id = await open('one.db');
  expect(id).toMatch(/^[0-9a-f]{12}$/);
  expect(await open('one.db')).toBe(id);
  expect(await open('other.db')).not.toBe(id);
});
