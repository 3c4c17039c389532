import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cookieOf } from '../support/harness/browser-session.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { type Running, startProgram, startWorksync, worksync } from '../support/harness/processes.ts';

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
});
