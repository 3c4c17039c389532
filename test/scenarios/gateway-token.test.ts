import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';

let world: World;
let flags: readonly string[] = [];
/** The log of the daemon. */
let logged = '';

const WORKSPACE = `
connections:
  hooks: { connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off }
`;

beforeEach(async () => {
  logged = '';
  const destination = { write: (line: string) => void (logged += line) };
  world = await createWorld({ logger: createLogger({ level: 'debug', scrubber: createScrubber(), destination }) });
  flags = ['--config', world.configFolder, '--data', world.dataFolder];
});
afterEach(() => world.close());

/** Starts the daemon with two more workspaces, after the work. @returns the address of the gateway */
async function run(before: () => Promise<unknown> = async () => undefined): Promise<string> {
  await world.restart({
    async meanwhile() {
      for (const name of ['alpha', 'beta']) writeFileSync(join(world.configFolder, `${name}.yaml`), WORKSPACE);
      await before();
    },
  });
  return `${world.daemon().address}/api/v1`;
}

const gateway = (...args: string[]) => commandLine('gateway', 'token', ...args, ...flags);

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
    let made = { id: '', secret: '' };
    const address = await run(async () => (made = await create('alpha')));
    expect(made.secret).toMatch(/^wsg_[\w-]{43}$/);
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

    const uses = async () => (await commandLine('quota', '--by', 'caller', '--workspace', 'beta', ...flags)).stdout;
    expect(await uses()).toMatch(new RegExp(`\\n3 +3 +3 +gateway token "CI" \\(${second.id}\\)\\n`));

    const listed = await gateway('list', '--workspace', 'alpha');
    expect(listed.stdout).toMatch(new RegExp(`^${made.id}  active  created \\S+Z  CI\\n$`));
    expect(await gateway('revoke', made.id, '--workspace', 'alpha')).toMatchObject({
      code: 0,
      stdout: `revoked ${made.id}\n`,
    });
    expect((await ask(address, made.secret)).status).toBe(401);
    expect((await ask(address, second.secret)).status).toBe(200);

    // The first was made without a daemon, the others by it; the command said who runs it.
    const log = await commandLine('audit', '--json', '--data', world.dataFolder);
    const actor = `command ${userInfo().username}`;
    expect(log.json()).toMatchObject([
      { action: 'gateway-token-revoke', workspace: 'alpha', subject: made.id, count: 1, actor },
      { action: 'gateway-token-create', workspace: 'beta', subject: 'CI', details: second.id, outcome: 'done', actor },
      { action: 'gateway-token-create', workspace: 'alpha', subject: 'CI', details: made.id, outcome: 'done', actor },
    ]);

    const data = world.dataFolder;
    const files = readdirSync(data, { withFileTypes: true }).filter((entry) => entry.isFile());
    const stored = files.map(({ name }) => readFileSync(join(data, name), 'latin1'));
    for (const { secret } of [made, second]) {
      for (const text of [...stored, logged]) expect(text).not.toContain(secret);
    }
  });

  it('needs a workspace named where there are several, and so does an unknown key at the gateway', async () => {
    const address = await run();
    expect(await gateway('list')).toMatchObject({ code: 2, stderr: expect.stringContaining('alpha, beta') });
    expect(await gateway('create', '--workspace', 'alpha')).toMatchObject({ code: 2 });
    const unclear = await ask(address, 'wsk_unknown');
    expect({ status: unclear.status, body: await unclear.json() }).toMatchObject({
      status: 400,
      body: { code: 400, errorCode: 'bad_request' },
    });
    expect((await ask(address, 'wsk_unknown', '/workspaces/elsewhere/tasks')).status).toBe(403);
    // Its own workspace refuses it: that is one try.
    expect((await ask(address, 'wsk_unknown', '/workspaces/alpha/tasks')).status).toBe(401);
    expect(logged).toContain('"level":"debug"');
    expect(logged).not.toContain('wsk_unknown');
  });
});
