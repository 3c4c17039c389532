import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DURATIONS } from '../../src/admin/effective-config.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';

/** The configuration in use, and where each value comes from. */

const TOKEN = 'ghp_a-token-of-some-length';
const SECRET = 'a-secret-of-sixteen-or-more';
const hidden = (text: string) => `****(${text.length}, ${createHash('sha256').update(text).digest('hex').slice(0, 8)})`;

let folder = '';
let file = '';

beforeEach(() => {
  folder = folderOfTest('show');
  file = join(folder, 'team.yaml');
  vi.stubEnv('SHOWN_TOKEN', TOKEN);
  vi.stubEnv('WORKSYNC_PORT', '9090');
  writeFileSync(
    file,
    `workspace:
  url: https://api.example.com/api/v1
  apiKey: literal-key-of-the-workspace
quota: { requests: 300 }
connections:
  hooks:
    connector: github
    token: \${SHOWN_TOKEN}
    repositories: [acme/app]
    webhookSecrets: ${SECRET}
`,
  );
});
afterEach(() => {
  vi.unstubAllEnvs();
});

it('names the origin of each value, and shows no secret', async () => {
  const { code, stdout, stderr, json } = await commandLine('config', 'show', '--config', file, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const told = new Map(json().map(({ of, key, value, origin }) => [`${of} ${key}`, [value, origin]]));
  expect(told.get('daemon config')).toEqual([file, 'flag --config']);
  expect(told.get('daemon port')).toEqual(['9090', 'env WORKSYNC_PORT']);
  expect(told.get('daemon data')).toEqual(['data', 'default']);
  expect(told.get('team quota.requests')).toEqual([300, `${file}:4`]);
  expect(told.get('team quota.burst')).toEqual([40, 'default']);
  // Defaults are shown as one would write them, also each duration.
  expect(told.get('team retention.bodies')).toEqual(['14d', 'default']);
  for (const key of DURATIONS) expect(told.get(`team ${key}`)?.[0]).toMatch(/^\d+(?:s|m|h|d)$/);
  expect([...told].filter(([, [value]]) => typeof value === 'number' && value >= 1_000)).toEqual([]);
  expect(told.get('team workspace.apiKey')).toEqual([hidden('literal-key-of-the-workspace'), `${file}:3`]);
  expect(told.get('team connections.hooks.token')).toEqual([hidden(TOKEN), `${file}:8, env SHOWN_TOKEN`]);
  expect(told.get('team connections.hooks.webhookSecrets')).toEqual([hidden(SECRET), `${file}:10`]);
  for (const secret of [TOKEN, SECRET, 'literal-key-of-the-workspace', btoa(TOKEN)])
    expect(stdout).not.toContain(secret);
});

it('is for people without --json', async () => {
  const { stdout } = await commandLine('config', 'show', '--config', file);
  expect(stdout).toMatch(/^daemon\n {2}config +\S+team\.yaml +flag --config\n/);
  expect(stdout).toMatch(/\n\nteam\n {2}workspace\.url +https:\/\/api\.example\.com\/api\/v1 +\S+team\.yaml:2\n/);
});

it('suggests a workspace for what is nearly one, and names a broken file beside the others', async () => {
  expect(await commandLine('config', 'show', '--config', file, '--workspace', 'taem')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "team"'),
  });
  writeFileSync(join(folder, 'other.yaml'), 'connections: 7\n');
  const { code, stdout, stderr } = await commandLine('config', 'show', '--config', folder);
  expect(code).toBe(78);
  expect(stdout).toContain('\n\nteam\n');
  expect(stderr).toContain('worksync: other: ');
});

it('shows the words of this version, with the line of a former one and a notice', async () => {
  const rules = 'rules: { workflow: { rules: [{ when: { workItem: started }, set: { status: in_progress } }] } }\n';
  const stories =
    'connections:\n  stories:\n    connector: shortcut\n    token: a-token-of-some-length\n    teams: [web]\n';
  writeFileSync(file, `${rules}${stories}    doneState: Shipped\n`);
  const { json, stderr } = await commandLine('config', 'show', '--config', file, '--json');
  const shown = json().filter(({ key }) => /done|completedStatus|workItem/.test(key));
  expect(shown.map(({ key, value, origin }) => [key, value, origin])).toEqual([
    ['rule 1 of rules.workflow: when.workItem', ['in_progress'], `${file}:1`],
    ['connections.stories.completedStatus', 'Shipped', `${file}:7`],
  ]);
  expect(stderr).toContain('the key is called "completedStatus"');
});

it('shows what a variable holds, each value with its line there', async () => {
  vi.stubEnv('WORKSYNC_CONFIG', folder);
  vi.stubEnv(
    'WORKSYNC_CONFIG_YAML',
    `name: one
connections: { hooks: { connector: github, repositories: [acme/one], webhookSecrets: ${SECRET} } }
---
name: two
connections: { hooks: { connector: github, repositories: [acme/two], webhookSecrets: "\${SHOWN_TOKEN}" } }
`,
  );
  const { code, stdout, json } = await commandLine('config', 'show', '--json');
  const told = new Map(json().map(({ of, key, value, origin }) => [`${of} ${key}`, [value, origin]]));
  expect(code).toBe(0);
  expect(told.get('daemon config')).toEqual([null, 'env WORKSYNC_CONFIG_YAML']);
  expect(told.get('one connections.hooks.repositories')).toEqual([['acme/one'], 'WORKSYNC_CONFIG_YAML:2']);
  expect(told.get('two connections.hooks.webhookSecrets')).toEqual([
    hidden(TOKEN),
    'WORKSYNC_CONFIG_YAML:5, env SHOWN_TOKEN',
  ]);
  expect(stdout).not.toContain(SECRET);
  expect(stdout).not.toContain('team');
});
