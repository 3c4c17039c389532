import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { expect, it } from 'vitest';
import { configSource } from '../../../src/cli/config-source.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { LARGE_CONFIG, loadConfig } from '../../../src/platform/config/load.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { folderOfTest } from '../../support/harness/folder.ts';

const KIBIBYTE = 1_024;
/** Microseconds of this thread; to start the other one takes most of it. */
const LITTLE = 500_000;

function inputWith(text: string) {
  const path = join(folderOfTest('config-source'), 'own.yaml');
  writeFileSync(path, text);
  return { path, env: {}, connectors, apiOverrides };
}

it('a large configuration that is right is the same as read at once', async () => {
  const connection = '  main: { connector: github, repositories: [acme/web], webhookSecrets: a-secret-of-its-own }\n';
  const comment = `# ${'x'.repeat(2 * LARGE_CONFIG)}\n`;
  const input = inputWith(`${comment}connections:\n${connection}`);
  expect(await configSource(input, () => ({}), { secrets: [] }).load()).toEqual(loadConfig(input));
});

it('a malformed configuration of 512 KiB occupies another thread, and fails as it would at once', async () => {
  let keys = '';
  for (let index = 0; keys.length < 512 * KIBIBYTE; index++) keys += `key${index}: 1\n`;
  const input = inputWith(keys);
  const before = process.threadCpuUsage();
  const failure = await Promise.resolve(configSource(input, () => ({}), { secrets: [] }).load()).catch(
    (error: unknown) => error,
  );
  const { user, system } = process.threadCpuUsage(before);
  expect(failure).toMatchObject({ code: 'config_invalid', message: expect.stringContaining('unknown key "key0"') });
  expect((failure as Error).message.split('\n')).toHaveLength(100);
  expect(user + system).toBeLessThan(LITTLE);
});

it('reads `.env` anew with each load, and its stamp changes with the file', async () => {
  const folder = folderOfTest('config-source');
  const envFile = join(folder, '.env');
  const input = inputWith(
    `connections:\n  main: { connector: github, repositories: [acme/web], webhookSecrets: "\${TOKEN}", poll: off }\n`,
  );
  const source = configSource(input, (files) => parseEnv(files.read(envFile, 100).bytes.toString()), {
    envFile,
    secrets: [],
  });
  const before = await source.stamp();
  await expect(source.load()).rejects.toMatchObject({ code: 'ENOENT' });
  writeFileSync(envFile, 'TOKEN=a-token-of-its-own\n');
  expect(await source.stamp()).not.toBe(before);
  expect((await source.load()).secrets).toEqual(['a-token-of-its-own']);
});

it('reads no secret from a pipe: the error names the file and the reason', async () => {
  const pipe = join(folderOfTest('config-source'), 'secret');
  execFileSync('mkfifo', [pipe]);
  const input = inputWith(`connections:\n  main: { connector: github, webhookSecrets: "\${TOKEN}" }\n`);
  await expect(configSource(input, () => ({ TOKEN_FILE: pipe }), { secrets: [] }).load()).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringContaining(`TOKEN_FILE: ${pipe} is a named pipe, not a regular file`),
  });
});
