import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { askQuestions } from '../../src/cli/init-questions.ts';
import { commandLine } from '../support/command-line.ts';
import { folderOfTest } from '../support/folder.ts';

/** A first configuration, from each example. */

const URL_OF_OURS = 'https://ours.example.com/api/v1';
const EXAMPLES = readdirSync(join(import.meta.dirname, '../../config/examples')).map((file) => basename(file, '.yaml'));

let folder = '';

beforeEach(() => {
  folder = folderOfTest('init');
});
afterEach(() => {
  vi.unstubAllEnvs();
});

it.each(EXAMPLES)('%s: what it writes is valid once its variables are set [U1]', async (from) => {
  const { code, json } = await commandLine(
    'init',
    '--from',
    from,
    '--name',
    'ours',
    '--url',
    URL_OF_OURS,
    '--folder',
    folder,
    '--json',
  );
  const file = join(folder, 'config/workspaces/ours.yaml');
  expect(code).toBe(0);
  expect(json()).toEqual([{ written: [file, join(folder, '.env.example')] }]);
  const variables = readFileSync(join(folder, '.env.example'), 'utf8').matchAll(/^(\w+)=$/gm);
  const names = [...variables].map((match) => match[1] as string);
  const checked = () => commandLine('check', '--offline', '--config', file, '--json');
  if (names.length > 0) expect((await checked()).code).toBe(78);
  const key = join(folder, 'app.pem');
  writeFileSync(
    key,
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs1', format: 'pem' }),
    { mode: 0o600 },
  );
  vi.stubEnv('GITHUB_PRIVATE_KEY_FILE', key);
  for (const name of names.filter((each) => each !== 'GITHUB_PRIVATE_KEY'))
    vi.stubEnv(name, name.endsWith('_ID') ? '12345' : keyFor(name));
  const { code: ended, stderr } = await checked();
  expect({ ended, stderr }).toEqual({ ended: 0, stderr: '' });
  const content = readFileSync(file, 'utf8');
  expect(content).not.toContain('work.example.com');
  const schema = /^# yaml-language-server: \$schema=(.+)$/m.exec(content)?.[1] ?? '';
  expect(JSON.parse(readFileSync(join(file, '..', schema), 'utf8'))).toHaveProperty('$schema');
});

function keyFor(name: string): string {
  return name === 'BITBUCKET_API_TOKEN' ? 'ada@example.com:a-token-of-some-length' : `value-of-${name.toLowerCase()}`;
}

it('writes what is named of the files to deploy, as they are, and suggests a name for what is nearly one', async () => {
  const deploy = join(import.meta.dirname, '../../config/deploy');
  const args = ['--with', 'gitlab-ci', '--with', 'kubernetes', '--with', 'gitlab-ci'];
  const { code, json } = await commandLine('init', '--folder', folder, '--json', ...args);
  expect(code).toBe(0);
  const [{ written }] = json() as [{ written: string[] }];
  const copies = written.slice(2).map((path) => basename(path));
  expect(copies).toEqual(['gitlab-ci.yaml', 'kubernetes.yaml']);
  for (const name of copies)
    expect(readFileSync(join(folder, 'deploy', name), 'utf8')).toBe(readFileSync(join(deploy, name), 'utf8'));
  const misspelt = await commandLine('init', 'workspace', '--folder', folder, '--with', 'gitlab-cy');
  expect(misspelt.code).toBe(2);
  expect(misspelt.stderr).toContain('there is no template "gitlab-cy" (did you mean "gitlab-ci"?)');
});

it('overwrites nothing without --force', async () => {
  writeFileSync(join(folder, '.env.example'), 'MINE=1\n');
  const refused = await commandLine('init', '--folder', folder);
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toContain(`already there: ${join(folder, '.env.example')}`);
  expect(readdirSync(folder)).toEqual(['.env.example']);
  expect(await commandLine('init', '--folder', folder, '--force')).toMatchObject({ code: 0 });
  expect(readFileSync(join(folder, '.env.example'), 'utf8')).toContain('GITHUB_TOKEN=\n');
});

it.each([
  [['--from', 'githup'], 'there is no example "githup" (did you mean "github"?)'],
  [['--name', '../x'], '--name ../x: expected lower-case letters, digits and hyphens'],
  [['--name', 'x'.repeat(41)], 'at most 40 of them'],
  [['--url', 'ftp://x/api/v1'], '--url ftp://x/api/v1: expected the https address'],
])('%j is wrong usage', async (args, message) => {
  const { code, stderr } = await commandLine('init', '--folder', folder, ...args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
  expect(readdirSync(folder)).toEqual([]);
});

it('asks for what no flag says, and takes the standard answer for none [U1]', async () => {
  const input = new PassThrough();
  const output = new PassThrough();
  const asked = askQuestions(
    [
      { key: 'from', text: 'Start from', standard: 'github' },
      { key: 'name', text: 'Name' },
      { key: 'url', text: 'Address' },
    ],
    input,
    output,
  );
  // Each is answered when it was asked.
  const lines = ['\n', ' ours \n', '\n'];
  output.on('data', (text) => String(text).endsWith(': ') && input.write(lines.shift() ?? ''));
  expect(await asked).toEqual({ from: 'github', name: 'ours' });
});
