import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { type Running, worksync } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

/** The command line as its users meet it: real processes, real files, the wall clock. */

const scratch = useScratch('cli');
const { start } = scratch;
let data = '';

beforeEach(() => {
  data = join(scratch.folder, 'data');
});

function file(name: string, text: string): string {
  const path = join(scratch.folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** A workspace that only takes webhooks: nobody outside is asked, and nobody listens where a check would ask GitHub. */
const CONNECTIONS = `
connections:
  hooks:
    connector: github
    apiUrl: http://127.0.0.1:9
    repositories: [acme/app]
    webhookSecrets: a-secret-of-sixteen-or-more
    poll: off
`;

interface ServedLine {
  readonly url: string;
  readonly workspaceId: string;
  readonly apiKey: string;
  readonly oauthToken: string;
}

async function serve(...more: string[]): Promise<{ served: ServedLine; process: Running }> {
  const db = join(scratch.folder, 'service.db');
  const process = start(['workspace', 'serve', '--port', '0', '--db', db, '--json', ...more]);
  const line = (await process.says('\n')).trim();
  expect(line.split('\n')).toHaveLength(1);
  return { served: JSON.parse(line) as ServedLine, process };
}

function tasks({ url }: ServedLine, credential: string): Promise<Response> {
  return fetch(`${url}/workspaces/current/tasks`, { headers: { authorization: `Bearer ${credential}` } });
}

describe('run', () => {
  it('plays the demo once: a second start on the same data sends nothing', async () => {
    const flags = ['run', '--data', data, '--port', '0'];
    const first = start(flags);
    expect(await first.says('Stop with Ctrl-C')).toMatch(/14 signed GitHub deliveries sent, 14 of them new/);
    expect(await first.end('SIGINT')).toMatchObject({ code: 0, stderr: '' });

    const second = start(flags);
    const said = await second.says('Stop with Ctrl-C');
    expect(said).toMatch(/14 signed GitHub deliveries sent, 0 of them new/);
    expect(said).toMatch(/4 pull requests and 3 links; this start took 0 requests/);
    expect((await second.end()).code).toBe(0);
  });

  it('takes the same by flags and by environment, and serves every workspace file from one database', async () => {
    const folder = join(scratch.folder, 'workspaces');
    file('workspaces/alpha.yaml', CONNECTIONS);
    file('workspaces/beta.yml', CONNECTIONS);
    const greeting =
      /^workspace (\w+): the embedded reference service\n {2}hooks \(GitHub\): webhooks at (\S+), no polls/gm;
    const told = [
      ['alpha', '/webhooks/alpha/hooks'],
      ['beta', '/webhooks/beta/hooks'],
    ];
    const byFlags = start(['run', '--config', folder, '--data', data, '--port', '0', '--log-level', 'error']);
    const said = await byFlags.says('/webhooks/beta/hooks');
    expect([...said.matchAll(greeting)].map(([, ...parts]) => parts)).toEqual(told);
    const address = /Status page: (\S+)\//.exec(said)?.[1] ?? '';
    for (const [, path] of told) {
      // Both are there, and both refuse what is not signed.
      expect((await fetch(address + path, { method: 'POST', body: '{}' })).status).toBe(401);
    }
    expect(await byFlags.end()).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(data).filter((name) => /^\w+\.db$/.test(name))).toEqual(['worksync.db']);

    const byEnvironment = start(['run'], {
      env: { WORKSYNC_CONFIG: folder, WORKSYNC_DATA: data, WORKSYNC_PORT: '0', WORKSYNC_LOG_LEVEL: 'error' },
    });
    const again = await byEnvironment.says('/webhooks/beta/hooks');
    expect([...again.matchAll(greeting)].map(([, ...parts]) => parts)).toEqual(told);
    expect(await byEnvironment.end()).toMatchObject({ code: 0, stderr: '' });
  });

  it('prints commands with its own flags, and check warns of a configuration that the daemon does not have', async () => {
    const folder = join(scratch.folder, 'workspaces');
    file('workspaces/alpha.yaml', CONNECTIONS);
    const other = file('beta.yaml', CONNECTIONS);
    const daemon = start(['run', '--config', folder, '--data', data, '--port', '0', '--log-level', 'error']);
    expect(await daemon.says('in, run "')).toContain(`login --config ${folder} --data ${data}"`);
    const same = await worksync(['check', '--config', folder, '--data', data]);
    expect(same.stdout).not.toMatch(/does not have|findings below/);
    const wrong = await worksync(['check', '--config', other, '--data', data]);
    expect(wrong.stdout).toContain('the running daemon does not have beta; it has alpha\n');
    const draft = file('alpha.yaml', CONNECTIONS);
    const tried = await worksync(['check', '--config', draft, '--data', data]);
    expect(tried.stdout).toContain(`the findings below are about its files, and not about ${draft}\n`);
    const unknown = await worksync(['plan', '--config', other, '--data', data]);
    expect(unknown.stderr).toContain(`the daemon has no workspace "beta", which ${other} configures`);
    // Without --config it uses the configuration of the daemon.
    const beside = await worksync(['check', '--data', data]);
    expect(beside.stdout).toMatch(/^ok {7}alpha: .*alpha\.yaml is valid/);
    expect((await worksync(['deliveries', 'list', '--data', data])).code).toBe(0);
    expect((await daemon.end()).code).toBe(0);
  });
});

describe('workspace serve', () => {
  it('tells people at a later start how to make another key, with commands that work', async () => {
    await (await serve()).process.end();
    const again = start(['workspace', 'serve', '--port', '0', '--db', join(scratch.folder, 'service.db')]);
    const said = await again.says('--description "what for"');
    expect(said).not.toMatch(/wsk_|wst_/);
    const url = /listens at (\S+)/.exec(said)?.[1] ?? '';
    const [, token = ''] = /^ {2}npm run -s worksync -- (workspace token .*)$/m.exec(said) ?? [];
    const minted = (await worksync(token.split(' '))).stdout.trim();
    const made = await worksync(['keys', 'create', '--url', url, '--description', 'what for'], {
      env: { WORKSYNC_OAUTH_TOKEN: minted },
    });
    expect(made.code).toBe(0);
    const served = { url, workspaceId: '', apiKey: '', oauthToken: '' };
    expect((await tasks(served, made.stdout.trim())).status).toBe(200);
  });

  it('limits to 40 a minute unless told otherwise, and with 0 not at all', async () => {
    const limited = await serve();
    const few = await Promise.all(Array.from({ length: 41 }, () => tasks(limited.served, limited.served.apiKey)));
    expect(few.filter(({ status }) => status === 429)).toHaveLength(1);
    await limited.process.end();
    rmSync(join(scratch.folder, 'service.db'));

    const free = await serve('--quota', '0', '--burst', '0');
    const many = await Promise.all(Array.from({ length: 210 }, () => tasks(free.served, free.served.apiKey)));
    expect(many.filter(({ status }) => status !== 200)).toEqual([]);
  });
});

describe('commands', () => {
  const scratch = useScratch('commands');

  it('5 command lines at once beside a daemon never exceed the window at the service', async () => {
    const quota = { requests: 100, window: 6_000, burst: 3, burstWindow: 1_500 };
    const service = await startWorkspaceService({ quota });
    const config = join(scratch.folder, 'small.yaml');
    const hooks = 'connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off';
    writeFileSync(
      config,
      `workspace: { url: "${service.url}", apiKey: ${service.apiKey} }\nconnections: { hooks: { ${hooks} } }\n` +
        'quota: { requests: 100, window: 6s, burst: 3, burstWindow: 1500ms, share: 1 }\n',
    );
    const flags = ['--config', config, '--data', join(scratch.folder, 'data')];
    const daemon = scratch.start(['run', ...flags, '--port', '0', '--log-level', 'silent']);
    try {
      await daemon.says('Status page');
      const ended = await Promise.all(
        Array.from({ length: 5 }, (_, at) => worksync(['tasks', 'bug', `At once ${at}`, ...flags])),
      );
      expect(ended.map(({ code }) => code)).toEqual(Array.from({ length: 5 }, () => 0));
      // Commands that waited for the quota printed only that.
      for (const { stderr } of ended)
        expect(stderr).toMatch(/^(worksync: the request quota .* Waiting for at most \d+ s\.\n)?$/);
      const { tasks, requests } = await service.service.statistics();
      expect(tasks).toBe(5);
      const { received, refused } = requests.get(service.apiKeyId)!;
      expect(received).toBeGreaterThanOrEqual(5);
      expect(refused).toBe(0);
    } finally {
      await daemon.end();
      await service.close();
    }
  });
});

describe('init', () => {
  const scratch = useScratch('init');

  it('a start names an unfinished draft, and status says why a changed .env has no effect', async () => {
    const { folder } = scratch;
    const write = (name: string, from: string) =>
      commandLine('init', '--folder', folder, '--offline', '--name', name, '--from', from);
    expect(await write('live', 'github-public')).toMatchObject({ code: 0 });
    expect(await write('later', 'github')).toMatchObject({ code: 3 });
    const live = join(folder, 'config/workspaces/live.yaml');
    writeFileSync(live, readFileSync(live, 'utf8').replace('poll: 5m', 'poll: off'));
    const flags = ['--config', join(folder, 'config/workspaces'), '--data', join(folder, 'data')];
    const daemon = scratch.start(['run', ...flags, '--port', '0']);
    await daemon.says(`init --name later --folder ${folder}" goes on with it.`);
    const status = () => commandLine('status', ...flags);
    expect((await status()).stdout).toMatch(/^worksync [^\n]+\), ok/);

    writeFileSync(join(folder, '.env'), 'NODE_OPTIONS=--trace-gc\n');
    daemon.child.kill('SIGHUP');
    await expect.poll(async () => (await status()).stdout).toMatch(/^worksync [^\n]+\), DEGRADED/);
    const { code, stdout, stderr } = await status();
    expect(code).toBe(0);
    expect(stdout).toContain('NOT RELOADED config_invalid: the last good one stays in use. Remove these lines');
    expect(stdout).toContain(`${folder}/.env:1: NODE_OPTIONS cannot be set in .env`);
    expect(stderr).toContain('.env is left out');
  });
});
