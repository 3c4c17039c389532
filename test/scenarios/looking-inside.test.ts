import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CAPABILITY_DEFAULTS } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { commandLine } from '../support/harness/command-line.ts';
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
