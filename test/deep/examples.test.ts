import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folderOfTest } from '../support/harness/folder.ts';
import { TOP, worksync } from '../support/harness/processes.ts';

function variablesOf(file: string): string[] {
  const text = readFileSync(join(TOP, 'config/examples', file), 'utf8');
  return [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name);
}

describe('config/examples', () => {
  const files = readdirSync(join(TOP, 'config/examples'));
  const values = {
    WORKSYNC_API_KEY: 'a-key-of-the-workspace',
    GITHUB_TOKEN: 'a-token',
    GITHUB_APP_ID: '1',
    GITHUB_INSTALLATION_ID: '2',
  };

  it.each(files)('%s starts as it is, once its variables are set', async (file) => {
    const scratch = folderOfTest('docs');
    try {
      const key = join(scratch, 'key.pem');
      writeFileSync(key, privateKey(), { mode: 0o600 });
      // The workspace and the provider cannot be reached from here; the configuration is what counts.
      const data = join(scratch, 'data');
      const named = variablesOf(file).filter((name) => name !== 'GITHUB_PRIVATE_KEY');
      const secrets = Object.fromEntries(named.map((name) => [name, 'a-secret-of-sixteen-or-more']));
      const env = { ...secrets, ...values, GITHUB_PRIVATE_KEY_FILE: key, WORKSYNC_DATA: data };
      const { code, stdout, stderr } = await worksync(['check', '--json', '--config', `config/examples/${file}`], {
        env,
      });
      expect(stderr).toBe('');
      expect(code).toBeLessThan(2);
      expect(JSON.parse(stdout.split('\n')[0] ?? '')).toMatchObject({
        level: 'ok',
        message: expect.stringContaining('is valid'),
      });
    } finally {
    }
  });
});

function privateKey(): string {
  const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}
