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

/** `connectors` and `translate`, as people meet them. */

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
    for (const { id, capabilities, options } of listed) {
      const connector = connectors.find((each) => each.id === id);
      expect(capabilities).toEqual({ ...CAPABILITY_DEFAULTS, ...connector?.capabilities });
      for (const option of options as Record<string, unknown>[])
        expect(option).toMatchObject({
          key: expect.any(String),
          type: expect.any(String),
          required: expect.any(Boolean),
        });
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

  it('reads well without --json', async () => {
    const { stdout } = await worksync(['connectors']);
    expect(stdout).toMatch(/^bitbucket: Bitbucket Cloud \(bitbucket\.org\)$/m);
    expect(stdout).toMatch(/^ {2}cannot .*supportsLabels/m);
    expect(stdout).toMatch(/^ {4}host +text +default: "github\.com"$/m);
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
    expect(printed.map((line) => line['outcome'])).toEqual([
      'items',
      'ignored',
      'ignored',
      'ignored',
      'ignored',
      'references',
    ]);
    expect(printed[0]).toEqual({
      file: merged,
      outcome: 'items',
      items: [expect.objectContaining({ kind: 'pull_request', connector: 'bitbucket', state: 'merged' })],
    });
    expect(printed.slice(1, 5).map((line) => line['reason'])).toEqual([
      expect.stringMatching(/^delivery_malformed: /),
      expect.stringMatching(/^file_unreadable: /),
      'event_not_recognised',
      'event_not_followed',
    ]);
    expect(printed[5]).toMatchObject({ items: [], references: [{ kind: 'pull_request' }] });
    expect(stderr.trimEnd().split('\n')).toEqual([
      expect.stringContaining('broken.json: '),
      expect.stringContaining('absent.json: '),
    ]);
  });

  it('takes the event as it is named, and what polls and fetches bring', async () => {
    const named = await worksync(['translate', 'bitbucket', '--event', 'repo:push', merged, '--json']);
    expect(lines(named.stdout)).toEqual([
      { file: merged, outcome: 'ignored', reason: 'event_not_followed', items: [] },
    ]);
    expect(named.code).toBe(0);
    const page = join(FIXTURES, 'pullrequests.list.json');
    const args = ['--source', 'poll', '--event', 'pullrequests.list', page, '--json'];
    const polled = await worksync(['translate', 'bitbucket', ...args]);
    expect(lines(polled.stdout)[0]).toMatchObject({ outcome: 'items' });
  });

  it('names the fields of a generic item that have another type', async () => {
    const project = { id: 'web' };
    const data = { id: '1', project, identifier: 'WEB-1', updatedAt: '2026-03-05T09:30:00Z', title: null, labels: 'a' };
    const item = file('item.json', JSON.stringify({ type: 'item.updated', timestamp: data.updatedAt, data }));
    expect(lines((await worksync(['translate', 'generic', item, '--json'])).stdout)).toMatchObject([
      { outcome: 'items', unread: ['labels', 'title'] },
    ]);
    const { stdout } = await worksync(['translate', 'generic', item]);
    expect(stdout).toContain('of another type, not read: labels, title');
  });

  it('leaves off what a connection leaves off, unless it is switched on', async () => {
    const issue = join(TOP, 'src/connectors/gitlab/fixtures/issue.open.json');
    const off = await worksync(['translate', 'gitlab', issue, '--json']);
    expect(lines(off.stdout)[0]).toMatchObject({ outcome: 'ignored', reason: expect.any(String) });
    const on = await worksync(['translate', 'gitlab', '--with', 'issues', issue, '--json']);
    expect(lines(on.stdout)[0]).toMatchObject({ outcome: 'items', items: [{ kind: 'work_item' }] });
  });

  it('is for people without --json; hostile text cannot act on a terminal [A9]', async () => {
    const payload = {
      pullrequest: {
        id: 7,
        updated_on: '2026-01-05T09:00:00+00:00',
        state: 'OPEN',
        title: '\u001b]0;owned\u0007\u202e',
        source: { branch: { name: 'feature' } },
        destination: {
          branch: { name: 'main' },
          repository: { uuid: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}', full_name: 'any/where' },
        },
      },
    };
    const { stdout } = await worksync(['translate', 'bitbucket', file('hostile.json', JSON.stringify(payload))]);
    expect(stdout).toMatch(/:pull:7$/m);
    expect(stdout).toMatch(/^ {4}state: "open"$/m);
    for (const character of ['\u001b', '\u0007', '\u202e']) expect(stdout).not.toContain(character);
  });

  it.each([
    [['translate', 'sourceforge', merged], 'there is no connector "sourceforge"; there are: azure-boards, bitbucket'],
    [['translate', 'bitbucket', '--source', 'poll', merged], '--event'],
    [['translate', 'gitlab', '--with', 'token', merged], 'expected one of archived'],
    [['translate', 'bitbucket'], 'missing required argument'],
  ])('%j is wrong usage', async (args, said) => {
    const { code, stderr } = await worksync(args);
    expect(code).toBe(2);
    expect(stderr).toContain(said);
  });
});

describe('config show', () => {
  /** The configuration in use, and where each value comes from. */

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
});
