import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { DURATIONS } from '../../src/admin/installation/effective-config.ts';
import { CAPABILITY_DEFAULTS } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { TOP } from '../support/harness/processes.ts';

const FIXTURES = join(TOP, 'src/connectors/bitbucket/fixtures');
const merged = join(FIXTURES, 'pullrequest.fulfilled.json');
let scratch = '';

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'worksync-looking-'));
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(scratch, name);
  writeFileSync(path, text);
  return path;
}

const worksync = (args: readonly string[]) => commandLine(...args);

const lines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('connectors', () => {
  it('says of each what it can do, every flag, and which options it takes', async () => {
    const { code, stdout } = await worksync(['connectors', '--json']);
    expect(code).toBe(0);
    const listed = lines(stdout);
    expect(listed.map(({ id }) => id)).toEqual(connectors.map(({ id }) => id).toSorted());
    for (const { id, capabilities } of listed) {
      const connector = connectors.find((each) => each.id === id);
      expect(capabilities).toEqual({ ...CAPABILITY_DEFAULTS, ...connector?.capabilities });
    }
    const github = listed.find(({ id }) => id === 'github');
    expect(github?.['options']).toContainEqual({
      key: 'host',
      type: 'text',
      required: false,
      default: 'github.com',
      description: expect.stringContaining('Host of the GitHub'),
    });
  });
});

describe('translate', () => {
  it('prints one line per file, in their order, and goes on after a bad one', async () => {
    const broken = file('broken.json', '{"pullrequest":');
    const strange = file('strange.json', '{"hello":1}');
    const push = join(FIXTURES, 'repo.push.json');
    const drifted = join(FIXTURES, 'pullrequest.unknown-state.json');
    const absent = join(scratch, 'absent.json');
    const files = [merged, broken, absent, strange, push, drifted];
    const { code, stdout, stderr } = await worksync(['translate', 'bitbucket', ...files, '--json']);
    expect(code).toBe(1);
    const printed = lines(stdout);
    expect(printed.map((line) => line['file'])).toEqual(files);
    expect(printed).toMatchObject([
      { outcome: 'items', items: [{ kind: 'pull_request', connector: 'bitbucket', state: 'merged' }] },
      { outcome: 'ignored', reason: expect.stringMatching(/^delivery_malformed: /) },
      { outcome: 'ignored', reason: expect.stringMatching(/^file_unreadable: /) },
      { outcome: 'ignored', reason: 'event_not_recognised' },
      { outcome: 'ignored', reason: 'event_not_followed' },
      { outcome: 'references', items: [], references: [{ kind: 'pull_request' }] },
    ]);
    expect(stderr).toMatch(/broken\.json: [\s\S]*absent\.json: /);
  });

  it('is for people without --json; hostile text cannot act on a terminal [A9]', async () => {
    const repository = { uuid: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}', full_name: 'any/where' };
    const pullrequest = {
      ...{ id: 7, updated_on: '2026-01-05T09:00:00+00:00', state: 'OPEN', title: '\u001b]0;owned\u0007\u202e' },
      source: { branch: { name: 'feature' } },
      destination: { branch: { name: 'main' }, repository },
    };
    const { stdout } = await worksync([
      'translate',
      'bitbucket',
      file('hostile.json', JSON.stringify({ pullrequest })),
    ]);
    expect(stdout).toMatch(/:pull:7$/m);
    expect(stdout).toMatch(/^ {4}state: "open"$/m);
    for (const character of ['\u001b', '\u0007', '\u202e']) expect(stdout).not.toContain(character);
  });
});

describe('config show', () => {
  const TOKEN = 'ghp_a-token-of-some-length';
  const SECRET = 'a-secret-of-sixteen-or-more';
  const hidden = (text: string) =>
    `****(${text.length}, ${createHash('sha256').update(text).digest('hex').slice(0, 8)})`;

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
});
