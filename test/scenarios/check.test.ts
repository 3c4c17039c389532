import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/connectors/connector.ts';
import { acquireDataFolder } from '../../src/store/installation/installation.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { createWorld, GITHUB, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

const ADMIN = 'an-admin-token-for-tests-only-and-a-long-one';
const LIMITED = 'an-admin-token-of-one-workspace-for-tests-only';

let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

/** A daemon whose workspace's clock is so many milliseconds ahead of its own. */
async function open(ahead: number, options: Partial<WorldOptions> = {}): Promise<World> {
  let clock: World['clock'] | undefined;
  const opened = await createWorld({
    tokens: [
      { secret: ADMIN, role: 'admin', workspaces: null },
      { secret: LIMITED, role: 'admin', workspaces: ['test'] },
    ],
    http: (own) => ({
      ...own,
      async request(request) {
        const answer = await own.request(request);
        const date = clock && { date: new Date(clock.now() + ahead).toUTCString() };
        return { ...answer, headers: { ...answer.headers, ...date } };
      },
    }),
    ...options,
  });
  clock = opened.clock;
  world = opened;
  return opened;
}

/** As the command asks a running daemon. */
async function check({ daemon }: World, token = ADMIN): Promise<readonly Finding[]> {
  const answer = await fetch(`${daemon().adminAddress}/admin/check`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Finding[];
}

const about = (findings: readonly Finding[], subject: string) => findings.filter((each) => each.subject === subject);

describe('a running daemon', () => {
  it('tells of clock, quota, deliveries, database, disk and version', async () => {
    const opened = await open(0);
    await opened.deliver('pull_request', pullEvent({ number: 1, updated: '2026-01-01T00:00:00Z' }));
    await opened.settled();
    const findings = await check(opened);
    const subjects = new Set(findings.map(({ subject }) => subject));
    const expected = ['clock', 'test: workspace', 'test: github', 'database', 'version'];
    expect(expected.filter((subject) => !subjects.has(subject))).toEqual([]);
    expect(about(findings, 'test: workspace').map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^quota: \d+ of \d+ requests left in 15 min, \d+ of \d+/),
    );
    expect(about(findings, 'test: github').map(({ message }) => message)).toContainEqual(
      expect.stringContaining('last webhook'),
    );
    // How much space a server has it tells nobody.
    expect(about(findings, 'disk')).toHaveLength(ON_POSTGRES ? 0 : 1);
  });

  it('tells nothing of its machine to who knows of some workspaces only', async () => {
    const subjects = (await check(await open(0), LIMITED)).map(({ subject }) => subject);
    expect(subjects).toContain('test: workspace');
    expect(subjects.filter((subject) => !subject.startsWith('test'))).toEqual([]);
  });
});

describe('without a daemon that answers', () => {
  it.each([
    ['locked', 75],
    ['unreachable', 1],
  ])('%s is told beside everything else, and ends with %i', async (code, exit) => {
    const scratch = folderOfTest('check');
    const data = join(scratch, 'data');
    const config = join(scratch, 'own.yaml');
    // Nobody listens on port 1, and no browser or daemon ever will.
    const workspace = { url: 'http://127.0.0.1:1/api/v1', apiKey: 'a-key-of-mine' };
    writeFileSync(config, JSON.stringify({ workspace, connections: { hooks: GITHUB } }));
    const other = code === 'locked' ? acquireDataFolder(data) : undefined;
    try {
      const ended = await commandLine('check', '--json', '--config', config, '--data', data);
      const findings = ended.json() as Finding[];
      expect(ended.code).toBe(exit);
      expect(about(findings, 'own')).toMatchObject([{ level: 'ok' }]);
      expect(findings.find(({ message }) => message.startsWith(code))).toMatchObject({
        level: 'error',
        hint: expect.stringContaining(code === 'locked' ? 'stop it' : 'Nothing listens'),
      });
    } finally {
      other?.release();
    }
  });
});
