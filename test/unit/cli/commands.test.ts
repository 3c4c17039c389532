import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { configSource } from '../../../src/cli/config-source.ts';
import { askOwner } from '../../../src/cli/owner.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { LARGE_CONFIG, loadConfig } from '../../../src/platform/config/load.ts';
import { daemonFile } from '../../../src/store/daemon-file.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { allCommands, commandLine } from '../../support/harness/command-line.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { listenLocally } from '../../support/harness/listen.ts';

/** What all commands have in common, looked at in every one of them. */

const LEAVES = await allCommands();

describe.each(LEAVES.map(({ path, command }) => [path.join(' '), { path, command }] as const))('%s', (name, leaf) => {
  const { path, command } = leaf;

  it('explains itself, with an example that begins as it does', async () => {
    const { code, stdout } = await commandLine(...path, '--help');
    expect(code).toBe(0);
    expect(command.description()).not.toBe('');
    const examples = [...stdout.matchAll(/worksync(?: --)? ([a-z][^\n]*)/g)].map((match) => match[1] as string);
    const begins = path.at(-1) === 'list' ? path.slice(0, -1).join(' ') : name;
    expect(examples.filter((example) => example.startsWith(begins))).not.toEqual([]);
  });

  it('suggests an option for what is nearly one', async () => {
    const [option] = command.createHelp().visibleOptions(command);
    const misspelt = `${option?.long?.slice(0, -1)}q`;
    const required = command.options.filter(({ mandatory }) => mandatory);
    const given = required.flatMap(({ long, required: takesValue }) => [
      long as string,
      ...(takesValue ? ['github'] : []),
    ]);
    const { code, stdout, stderr } = await commandLine(...path, ...given, misspelt);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(`unknown option '${misspelt}'\n(Did you mean `);
  });
});

const GROUPS = [...new Set(LEAVES.flatMap(({ path }) => path.map((_, depth) => path.slice(0, depth).join(' '))))];

it.each(GROUPS)('"%s" suggests a command for what is nearly one', async (group) => {
  const path = group === '' ? [] : group.split(' ');
  const [leaf] = LEAVES.filter((each) => each.path.join(' ').startsWith(group) && each.path.length > path.length);
  const known = leaf!.path[path.length] as string;
  const { code, stderr } = await commandLine(...path, `${known}x`);
  expect(code).toBe(2);
  expect(stderr).toMatch(new RegExp(`did you mean "?${known}`, 'i'));
});

/** The data folder of a daemon that answers everything with this status. */
async function daemonAnswering(status: number): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end('<html>a proxy</html>'));
  const address = await listenLocally(server);
  onTestFinished(() => void server.close());
  const data = folderOfTest('owner');
  writeFileSync(daemonFile(data), JSON.stringify({ address, token: 'token' }));
  return data;
}

it.each([200, 400, 422])(
  'reports an answer of the daemon with status %d that is not JSON as malformed',
  async (status) => {
    const asked = askOwner(await daemonAnswering(status), 'GET', '/status.json');
    await expect(asked).rejects.toMatchObject({ code: 'answer_malformed' });
  },
);

it('reports a workspace that the daemon does not have', async () => {
  const asked = askOwner(await daemonAnswering(404), 'POST', '/admin/workspaces/demo/questions/quota');
  await expect(asked).rejects.toMatchObject({ code: 'not_found', hint: expect.stringContaining('--config') });
});

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
