import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cookieOf } from '../support/harness/browser-session.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { type Running, startProgram, startWorksync, worksync } from '../support/harness/processes.ts';

/** `worksync login` and `worksync logout`, beside a real daemon and without one. */
const folder = folderOfFile('login');
const data = join(folder, 'data');
let daemon: Running;
let address = '';
let greeting = '';

async function startDaemon(): Promise<void> {
  daemon = startWorksync(['run', '--data', data, '--port', '0', '--log-level', 'error']);
  greeting = await daemon.says('Stop with Ctrl-C');
  address = /Status page: (\S+)\//.exec(greeting)?.[1] ?? '';
}

beforeAll(startDaemon, 60_000);
afterAll(async () => {
  await daemon.end();
});

const command = (...args: string[]) => worksync([...args, '--data', data]);

/** Logs in by a link; the cookie. */
function open(link: string): Promise<string> {
  return cookieOf(address, { link: new URL(link).searchParams.get('link') ?? '' });
}

const look = (cookie: string, path = '/status.json') => fetch(address + path, { headers: { cookie } });

describe('login', () => {
  it('prints the link alone to standard output, and what it is to standard error', async () => {
    const { code, stdout, stderr } = await command('login');
    expect([code, stderr]).toEqual([0, 'Open this link in the browser. It works once, within ten minutes:\n']);
    expect(stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/login\?link=[\w-]{43}\n$/);
    expect((await look(await open(stdout))).status).toBe(200);
  });

  it('makes a link for looking only, for some workspaces, under the address that the browser knows', async () => {
    const { stdout } = await command(
      'login',
      '--read',
      '--workspace',
      'demo',
      '--address',
      'https://sync.example.com/',
    );
    expect(stdout).toMatch(/^https:\/\/sync\.example\.com\/login\?link=/);
    const cookie = await open(stdout);
    expect((await look(cookie)).status).toBe(200);
    const headers = { cookie, origin: address, 'content-type': 'application/json' };
    expect((await fetch(`${address}/admin/check`, { method: 'POST', headers, body: '{}' })).status).toBe(403);
  });

  it.each([
    [['--workspace', 'nobody'], 2, 'there is no workspace "nobody"; there are: demo'],
    [['--address', 'sync.example.com'], 2, 'expected an address that begins with https:// or http://'],
  ])('with %j ends with %i and says why', async (args, exit, message) => {
    const { code, stdout, stderr } = await command('login', ...args);
    expect([code, stdout]).toEqual([exit, '']);
    expect(stderr).toContain(message);
  });

  it('needs a daemon', async () => {
    const { code, stderr } = await worksync(['login', '--data', join(folder, 'other')]);
    expect([code, stderr]).toEqual([75, expect.stringContaining('not_running')]);
  });
});

describe('run', () => {
  it('prints no link where what it prints may be kept', () => {
    expect(greeting).toContain('To log a browser in, run "npm run -s worksync -- login --');
    expect(greeting).not.toContain('?link=');
  });

  it('prints a link to a terminal', async ({ skip }) => {
    const script = '/usr/bin/script';
    if (!existsSync(script)) skip(`left out: there is no ${script}, which gives a program a terminal`);
    const run = `exec ${process.execPath} src/main.ts run --data ${join(folder, 'terminal')} --port 0 --log-level error`;
    const terminal = startProgram(script, ['-qefc', run, '/dev/null'], { isTyped: true });
    const said = await terminal.says('Stop with Ctrl-C');
    expect(said).toMatch(/Log in \(once, within ten minutes\): http:\/\/127\.0\.0\.1:\d+\/login\?link=[\w-]{43}/);
    // Ctrl-C.
    terminal.child.stdin?.write('\u0003');
    await terminal.ended;
  });
});

it('a token that is limited to a workspace that there is not draws a warning', async () => {
  const env = { WORKSYNC_TOKENS: 'read:demo,nobody the-token-of-some-workspaces-for-reading' };
  const { code, stderr } = await worksync(['held', '--data', join(folder, 'limited')], { env });
  expect(code).toBe(0);
  expect(stderr).toContain('a token is limited to \\"nobody\\", and there is no such workspace');
  expect(stderr).not.toContain('limited to \\"demo');
});

describe('logout --all', () => {
  it('ends every session, also while no daemon runs', async () => {
    await command('logout', '--all');
    const first = await open((await command('login')).stdout);
    const second = await open((await command('login')).stdout);
    const unused = (await command('login')).stdout;
    expect((await look(first)).status).toBe(200);
    expect(await command('logout', '--all')).toMatchObject({ code: 0, stdout: 'logged out: 2 browsers\n' });
    for (const cookie of [first, second, await open(unused)]) expect((await look(cookie)).status).toBe(401);

    const third = await open((await command('login')).stdout);
    expect((await look(third)).status).toBe(200);
    await daemon.end();
    expect(await command('logout', '--all')).toMatchObject({ code: 0, stdout: 'logged out: 1 browser\n' });
    await startDaemon();
    expect((await look(third)).status).toBe(401);
  });

  it('does nothing without being told that all are meant', async () => {
    expect(await command('logout')).toMatchObject({ code: 2, stderr: expect.stringContaining('--all') });
  });
});
