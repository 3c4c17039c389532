import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { PullRequestTasks } from '../../src/admin/tasks/pull-request-tasks.ts';
import { startConnectProxy } from '../support/fakes/connect-proxy.ts';
import { type CommandEnded, commandLine, complaintsOf } from '../support/harness/command-line.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { startWorksync } from '../support/harness/processes.ts';

let world: World;
let ours = '';
let theirs = '';
let address = '';

const JOB = {
  GITHUB_ACTIONS: 'true',
  GITHUB_SERVER_URL: 'https://github.com',
  GITHUB_REPOSITORY: 'acme/app',
  GITHUB_REPOSITORY_ID: '5001',
};

beforeAll(async () => {
  world = await createWorld();
  world.configure('other', { connections: { hub: GITHUB } });
  await world.reload();
  const tokenOf = async (name: string) =>
    (await world.workspaces().find(name)?.upstream.tokens.create('CI'))?.secret ?? '';
  ours = await tokenOf('test');
  theirs = await tokenOf('other');
  address = world.daemon().address;
  await world.bug();
  await world.pull({ number: 1, title: 'Fixes BUG-1 and BUG-9' });
  await world.pull({ number: 2, title: '::error::no key ##vso[task.complete]' });
  await world.settled();
});
afterAll(() => world.close());

/** The variables of jobs: the tests may run in one themselves. */
const OF_JOBS = /^(GITHUB|GITLAB|CI|BITBUCKET|WORKSYNC)(_|$)/;
afterEach(() => vi.unstubAllEnvs());

function environmentOf(number: number): Record<string, string> {
  return { ...JOB, GITHUB_REF: `refs/pull/${number}/merge`, WORKSYNC_URL: address, WORKSYNC_TOKEN: ours };
}

/** A job for the pull request of this number, or for one that only the arguments name. */
function ci(number: number, args: readonly string[] = [], env: Record<string, string> = {}): Promise<CommandEnded> {
  return ciWith({ ...environmentOf(number), ...env }, args);
}

async function ciWith(env: Record<string, string>, args: readonly string[]): Promise<CommandEnded> {
  for (const name of Object.keys(process.env)) if (OF_JOBS.test(name)) vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return commandLine('ci', ...args);
}

function ask(query: string, token = ours): Promise<Response> {
  return fetch(`${address}/ci/pull-request?${query}`, { headers: { authorization: `Bearer ${token}` } });
}

describe('worksync ci behind a proxy', () => {
  it('asks the daemon through it, and never shows its password', async () => {
    const proxy = await startConnectProxy({
      password: 'a-proxy-password',
      leadTo: () => ({ host: '127.0.0.1', port: Number(new URL(address).port) }),
    });
    onTestFinished(() => proxy.close());
    const env = { WORKSYNC_URL: 'http://worksync.example:8080', HTTP_PROXY: proxy.address };
    const answered = await ci(1, [], env);
    expect([answered.code, complaintsOf(answered)]).toEqual([0, '']);
    expect(answered.stdout).toContain('BUG-1');
    expect(proxy.asked).toEqual(['worksync.example:8080']);
    const refused = await ci(1, [], {
      ...env,
      HTTP_PROXY: proxy.address.replace('a-proxy-password', 'a-wrong-password'),
    });
    expect(refused.stderr).toContain('proxy_refused');
    expect(answered.stdout + answered.stderr + refused.stdout + refused.stderr).not.toMatch(/a-(proxy|wrong)-password/);
  });
});

describe('worksync ci', () => {
  it('tells the tasks of the pull request, and what is named and not linked, without a request of the quota', async () => {
    const before = await world.requests();
    const linked = await ci(1, ['--require']);
    expect([linked.code, complaintsOf(linked)]).toEqual([0, '']);
    expect(linked.stdout).toMatch(
      /^acme\/app#1 "Fixes BUG-1 and BUG-9" is linked to 1 task\n {2}BUG-1 +\w+ +It breaks\n/,
    );
    expect(linked.stdout).toContain(
      'named, but not linked:\n  "BUG-9" (title): there is no task and no item of that name\n',
    );
    const asked = JSON.parse((await ci(1, ['--json'])).stdout) as PullRequestTasks;
    expect(asked.pullRequest).toMatchObject({ connection: 'github', url: 'https://github.com/acme/app/pull/1' });
    expect(asked.tasks).toEqual([{ key: 'BUG-1', title: 'It breaks', status: expect.any(String), state: 'linked' }]);
    expect(await world.requests()).toEqual(before);
  });

  it('with --require a pull request without a task fails, and says what to write where', async () => {
    const scratch = folderOfTest('ci');
    const summary = join(scratch, 'summary.md');
    writeFileSync(summary, 'before\n');
    const failed = await ci(2, ['--require'], { GITHUB_STEP_SUMMARY: summary });
    expect(failed.code).toBe(1);
    const said = 'such as BUG-1, into the title, the description or the branch of the pull request.';
    expect(failed.stderr).toContain(said);
    expect(failed.stderr).toContain('not_linked');
    // One command of ours, none of whoever wrote the title.
    const commands = failed.stdout.split('\n').filter((line) => /::|##/.test(line));
    expect(commands).toEqual([expect.stringMatching(/^::error title=worksync::acme\/app#2 is linked to no task\. /)]);
    expect(readFileSync(summary, 'utf8')).toBe('before\n**worksync**: acme/app&#35;2 is linked to no task.\n');
    const told = await ci(2);
    expect([told.code, complaintsOf(told)]).toEqual([0, '']);
    expect(told.stdout).toContain('::warning title=worksync::');
  });

  it('waits for a pull request whose webhook is on its way', async () => {
    const early = await ci(3);
    expect(early).toMatchObject({ code: 75, stderr: expect.stringContaining('not_received') });
    expect(early.stderr).toContain('worksync does not know acme/app#3 yet; github may bring it');
    const running = startWorksync(['ci', '--wait', '3600', '--require'], { env: environmentOf(3) });
    let said = '';
    running.child.stderr?.on('data', (text: string) => (said += text));
    await expect.poll(() => said).toContain('waiting for at most');
    await world.pull({ number: 3, title: 'BUG-1 again' });
    await world.settled();
    expect(await running.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('is linked to 1 task') });
  });

  it('says what is wrong with address and token, and shows no token', async () => {
    const wrong = await ci(1, [], { WORKSYNC_TOKEN: 'wsg_a-token-that-there-is-not' });
    expect(wrong).toMatchObject({ code: 77, stderr: expect.stringContaining('gateway token create') });
    expect(wrong.stdout + wrong.stderr).not.toContain('wsg_a-token');
    expect(await ci(1, [], { WORKSYNC_TOKEN: '' })).toMatchObject({ code: 2 });
    const proxy = createServer((_request, response) => response.writeHead(502).end('<h1>Bad Gateway</h1>'));
    onTestFinished(() => void proxy.close());
    for (const url of ['http://127.0.0.1:1', await listenLocally(proxy)])
      expect(await ci(1, ['--url', url])).toMatchObject({ code: 75, stderr: expect.stringContaining('not_answering') });
  });
});

describe('the route', () => {
  it('answers of the workspace of the token alone', async () => {
    const body = await (await ask('target=acme/app%231', theirs)).text();
    expect(JSON.parse(body)).toMatchObject({ pullRequest: null, tasks: [], expectedFrom: ['hub'] });
    for (const secret of ['BUG-1 and', 'It breaks', '"github"']) expect(body).not.toContain(secret);
    expect((await ask('target=acme/app%231', 'wrong')).status).toBe(401);
  });
});
