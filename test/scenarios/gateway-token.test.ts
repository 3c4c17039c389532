import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { osUser } from '../../src/platform/lib/os-user.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';

/** Gateway tokens by real commands, with and without a daemon; two embedded workspaces. */

let scratch = '';
let daemon: Running | undefined;
let flags: readonly string[] = [];

const WORKSPACE = `
connections:
  hooks: { connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off }
`;

beforeEach(() => {
  scratch = folderOfTest('gateway');
  for (const name of ['alpha', 'beta']) writeFileSync(join(scratch, `${name}.yaml`), WORKSPACE);
  flags = ['--config', scratch, '--data', join(scratch, 'data')];
});

afterEach(async () => {
  await daemon?.end('SIGKILL');
  daemon = undefined;
});

/** @returns the address of the gateway */
async function run(): Promise<string> {
  daemon = startWorksync(['run', ...flags, '--port', '0', '--log-level', 'debug']);
  const said = await daemon.says('webhooks at /webhooks/beta');
  return `http://127.0.0.1:${/127\.0\.0\.1:(\d+)\//.exec(said)?.[1]}/api/v1`;
}

const gateway = (...args: string[]) => worksync(['gateway', 'token', ...args, ...flags]);

async function create(workspace: string): Promise<{ id: string; secret: string }> {
  const { code, stdout, stderr } = await gateway('create', '--description', 'CI', '--workspace', workspace, '--json');
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringMatching(/^created gwt_\w+; its secret is shown once:\n$/),
  });
  return JSON.parse(stdout) as { id: string; secret: string };
}

const ask = (address: string, secret: string, path = '/workspaces/current/tasks', init: RequestInit = {}) =>
  fetch(address + path, {
    ...init,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
  });

describe('worksync gateway token', () => {
  it('makes tokens before the daemon runs; each opens its workspace, until it is revoked beside the daemon', async () => {
    const made = await create('alpha');
    expect(made.secret).toMatch(/^wsg_[\w-]{43}$/);
    const address = await run();
    const second = await create('beta');
    for (const { secret } of [made, second]) expect((await ask(address, secret)).status).toBe(200);

    const bug = await ask(address, second.secret, '/workspaces/current/bugs', {
      method: 'POST',
      body: '{"title":"Of beta"}',
    });
    expect(bug.status).toBe(201);
    const { workspaceId } = (await bug.json()) as { workspaceId: string };
    const lists = await Promise.all([made, second].map(async ({ secret }) => (await ask(address, secret)).json()));
    expect(lists).toMatchObject([{ tasks: [] }, { tasks: [{ title: 'Of beta' }] }]);
    expect((await ask(address, made.secret, '/workspaces/beta/tasks')).status).not.toBe(200);
    expect((await ask(address, made.secret, `/workspaces/${workspaceId}/tasks`)).status).toBe(403);

    const uses = await worksync(['quota', '--by', 'caller', '--workspace', 'beta', ...flags]);
    expect(uses.stdout).toMatch(new RegExp(`\\n3 +3 +3 +gateway token "CI" \\(${second.id}\\)\\n`));

    const listed = await gateway('list', '--workspace', 'alpha');
    expect(listed.stdout).toMatch(new RegExp(`^${made.id}  active  created \\S+Z  CI\\n$`));
    expect(await gateway('revoke', made.id, '--workspace', 'alpha')).toMatchObject({
      code: 0,
      stdout: `revoked ${made.id}\n`,
    });
    expect((await ask(address, made.secret)).status).toBe(401);
    expect((await ask(address, second.secret)).status).toBe(200);
    expect((await gateway('list', '--workspace', 'alpha', '--json')).stdout).toMatch(/"revokedAt":"\d{4}-/);
    expect(await gateway('revoke', made.id, '--workspace', 'alpha')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('not_found'),
    });

    // The first was made without a daemon, the others by it; the command said who runs it.
    const log = await worksync(['audit', '--json', '--data', join(scratch, 'data')]);
    const told = log.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    const actor = `command ${osUser()}`;
    expect(told).toMatchObject([
      { action: 'gateway-token-revoke', workspace: 'alpha', subject: made.id, count: 0, actor },
      { action: 'gateway-token-revoke', workspace: 'alpha', subject: made.id, count: 1, actor },
      { action: 'gateway-token-create', workspace: 'beta', subject: 'CI', details: second.id, outcome: 'done', actor },
      { action: 'gateway-token-create', workspace: 'alpha', subject: 'CI', details: made.id, outcome: 'done', actor },
    ]);

    const ended = await daemon?.end();
    const data = join(scratch, 'data');
    const files = readdirSync(data, { withFileTypes: true }).filter((entry) => entry.isFile());
    const stored = files.map(({ name }) => readFileSync(join(data, name), 'latin1'));
    for (const { secret } of [made, second]) {
      for (const text of [...stored, ended?.stdout, ended?.stderr]) expect(text).not.toContain(secret);
    }
  });

  it('needs a workspace named where there are several, and so does an unknown key at the gateway', async () => {
    expect(await gateway('list')).toMatchObject({ code: 2, stderr: expect.stringContaining('alpha, beta') });
    expect(await gateway('create', '--workspace', 'alpha')).toMatchObject({ code: 2 });
    const address = await run();
    const unclear = await ask(address, 'wsk_unknown');
    expect({ status: unclear.status, body: await unclear.json() }).toMatchObject({
      status: 400,
      body: { code: 400, errorCode: 'bad_request' },
    });
    expect((await ask(address, 'wsk_unknown', '/workspaces/elsewhere/tasks')).status).toBe(403);
    // Its own workspace refuses it: that is one try.
    expect((await ask(address, 'wsk_unknown', '/workspaces/alpha/tasks')).status).toBe(401);
    const ended = await daemon?.end();
    expect(ended?.stderr).toContain('the process shuts down');
    expect(`${ended?.stdout}${ended?.stderr}`).not.toContain('wsk_unknown');
  });
});
