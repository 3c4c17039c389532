import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Ended, type Running, startWorksync, worksync } from '../support/harness/processes.ts';
import { type GithubStandIn, startGithub } from '../support/vendors/github-stand-in.ts';

const WANTED = { provider: 'github', repoId: '70100', title: 'A change', headBranch: 'feature', baseBranch: 'main' };
const SECRET_KEY = Buffer.alloc(32, 7).toString('base64');

let scratch = '';
let db = '';
let standIn: GithubStandIn;
const running: Running[] = [];

beforeEach(async () => {
  scratch = folderOfTest('credentials');
  db = join(scratch, 'service.db');
  standIn = await startGithub();
});

afterEach(async () => {
  await Promise.all(running.splice(0).map((process) => process.end('SIGKILL')));
  await standIn.close();
});

type Env = Readonly<Record<string, string>>;

async function serve(env: Env = {}) {
  const process = startWorksync(['workspace', 'serve', '--port', '0', '--db', db, '--json'], { env });
  running.push(process);
  return { process, ...(JSON.parse(await process.says('\n')) as { url: string; oauthToken: string }) };
}

const mint = (...args: string[]) => worksync(['workspace', 'token', '--db', db, ...args]);

function connect(env: Env, ...args: string[]): Promise<Ended> {
  const fixed = ['--provider', 'github', '--api-url', standIn.url, '--db', db];
  return worksync(['workspace', 'connect-provider', ...fixed, ...args], { env });
}

async function ask(url: string, token: string, method: string, path: string, body?: object) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const reply = await fetch(`${url}/workspaces/current${path}`, {
    method,
    headers,
    body: body && JSON.stringify(body),
  });
  return { status: reply.status, body: (await reply.json()) as ReturnType<JSON['parse']> };
}

describe('worksync workspace token', () => {
  it('W18 mints for a user, a role and a time, beside the service that runs: it holds at once', async () => {
    const { url } = await serve();
    const { code, stdout } = await mint('--user', 'ada', '--role', 'admin', '--ttl', '8h', '--json');
    expect(code).toBe(0);
    const minted = JSON.parse(stdout);
    expect(minted).toMatchObject({ userId: 'ada', role: 'admin' });
    expect(Date.parse(minted.expiresAt) - Date.now()).toBeGreaterThan(7.9 * 3_600_000);
    expect((await ask(url, minted.token, 'GET', '/api-keys')).status).toBe(200);
    const made = await ask(url, minted.token, 'POST', '/bugs', { title: 'by ada' });
    expect(made.body.reporterUserId).toBe('ada');
    const member = (await mint('--user', 'bob')).stdout.trim();
    expect((await ask(url, member, 'GET', '/api-keys')).body.errorCode).toBe('forbidden');
    expect((await ask(url, member, 'GET', '/tasks')).status).toBe(200);
  });

  it('W18 a token ends with its time, and is stored hashed', async () => {
    const { url } = await serve();
    const token = (await mint('--user', 'Owner', '--role', 'owner', '--ttl', '1ms')).stdout.trim();
    expect((await ask(url, token, 'GET', '/tasks')).status).toBe(401);
    const lasting = (await mint('--user', 'Owner', '--role', 'owner')).stdout.trim();
    for (const end of ['', '-wal']) expect(readFileSync(db + end).toString('latin1')).not.toContain(lasting);
  });
});

describe('worksync workspace connect-provider', () => {
  it('stores the token encrypted, beside the service that runs; pull requests are opened with it', async () => {
    const { url, oauthToken } = await serve();
    expect((await ask(url, oauthToken, 'POST', '/pull-requests', WANTED)).body.errorCode).toBe(
      'provider_not_connected',
    );
    const tokenFile = join(scratch, 'token');
    writeFileSync(tokenFile, 'ghp_ada\n', { mode: 0o600 });
    const { code, stdout, stderr } = await connect({}, '--user', 'Owner', '--token-file', tokenFile);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/is connected to github/);
    expect((await ask(url, oauthToken, 'POST', '/pull-requests', WANTED)).status).toBe(201);
    for (const end of ['', '-wal']) expect(readFileSync(db + end).toString('latin1')).not.toContain('ghp_ada');
    expect(statSync(`${db}.key`).mode & 0o777).toBe(0o600);
  });
});

describe('the key of stored secrets', () => {
  const connectOwner = (env: Env = {}) => connect({ WORKSYNC_PROVIDER_TOKEN: 'ghp_ada', ...env }, '--user', 'Owner');
  const refusal = async (env: Env = {}) => {
    const { code, stderr } = await worksync(['workspace', 'serve', '--port', '0', '--db', db], { env });
    return { code, stderr };
  };

  it('lost: the service says how to get it back, loses nothing, and goes on with it', async () => {
    const { process, oauthToken } = await serve();
    await connectOwner();
    await process.end();
    renameSync(`${db}.key`, `${db}.elsewhere`);
    expect(await refusal()).toEqual({ code: 78, stderr: expect.stringContaining('Put the key file back') });
    expect(existsSync(`${db}.key`)).toBe(false);
    renameSync(`${db}.elsewhere`, `${db}.key`);
    const { url } = await serve();
    expect((await ask(url, oauthToken, 'POST', '/pull-requests', WANTED)).status).toBe(201);
  });

  it('another one is refused, at the start and by the command', async () => {
    const { process } = await serve();
    const env = { WORKSYNC_SECRET_KEY: SECRET_KEY };
    expect(await connectOwner(env)).toMatchObject({ code: 78, stderr: expect.stringContaining('not the key') });
    expect((await connectOwner()).code).toBe(0);
    await process.end();
    expect(await refusal(env)).toEqual({ code: 78, stderr: expect.stringContaining('not the key') });
  });
});
