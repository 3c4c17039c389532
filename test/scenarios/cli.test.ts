import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { commandLine, complaintsOf } from '../support/harness/command-line.ts';
import { createWorld } from '../support/harness/daemon.ts';
import { isDeep } from '../support/harness/depth.ts';
import { type Running, startNode } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

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

describe('demo', () => {
  it('plays the whole story inside its budget, and ends with one JSON line', async () => {
    const { code, stdout } = await commandLine('demo', '--json');
    expect(code).toBe(0);
    const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, number>;
    const { deliveries = 0, pullRequestsMirrored = 0, linksCreated = 0, requests = 0 } = result;
    expect(deliveries).toBeGreaterThanOrEqual(10);
    expect(pullRequestsMirrored).toBeGreaterThanOrEqual(3);
    expect(linksCreated).toBeGreaterThanOrEqual(2);
    expect(requests).toBeLessThanOrEqual(2 * pullRequestsMirrored + linksCreated + 8);
    const lagMs = { p50: expect.any(Number), p95: expect.any(Number) };
    expect(result).toMatchObject({ tasksCreated: 0, rateLimited: 0, pending: 0, lagMs });
  });
});

describe('run', () => {
  it('forgets a workspace only after its configuration was removed', async () => {
    const config = file('workspaces/alpha.yaml', CONNECTIONS);
    const flags = ['--config', join(config, '..'), '--data', data];
    await commandLine('once', ...flags);
    const refused = await commandLine('forget', 'alpha', '--yes', ...flags);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('alpha still has a configuration')]);
    rmSync(config);
    const other = await commandLine('deliveries', 'list', '--config', file('beta.yaml', CONNECTIONS), '--data', data);
    expect(other.stderr).toContain('also contains these workspaces, which this configuration does not have: alpha.');
    const forgotten = await commandLine('forget', 'alpha', '--yes', ...flags);
    expect([forgotten.code, forgotten.stdout]).toEqual([0, expect.stringMatching(/^Deleted \d+ rows of alpha/)]);
    expect(forgotten.stderr).toContain(`${join(data, 'alpha.service.db')} and the files`);
  });

  it('writes its log to standard error, one JSON object per line, and its data for this user alone', async () => {
    const flags = ['--config', file('one.yaml', CONNECTIONS), '--data', data, '--port', '0'];
    const daemon = start(['run', ...flags, '--public-url', 'https://sync.example.com/']);
    await daemon.says('Status page');
    // The daemon knows its public address, and the command need not.
    const { stdout: link } = await commandLine('login', '--data', data);
    expect(link).toMatch(/^https:\/\/sync\.example\.com\/login\?link=/);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    expect(statSync(join(data, 'daemon.json')).mode & 0o777).toBe(0o600);
    expect(statSync(join(data, 'worksync.db')).mode & 0o777).toBe(0o600);
    const { stderr } = await daemon.end();
    const messages = stderr
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(messages).toContain('the daemon runs');
    expect(messages).toContain('the process shuts down');
  });

  it('is asked by the other commands, which end with 75 without it', async () => {
    const world = await createWorld();
    const flags = ['--config', world.configFolder, '--data', world.dataFolder];
    try {
      await world.settled();
      const status = await commandLine('status', ...flags);
      expect(status.code).toBe(0);
      expect(status.stdout).toMatch(
        /^worksync \S+ \(schema \d+, protocol \d+\), ok, up for .+\n\nworkspace test {2}http/,
      );
      const [inJson] = (await commandLine('status', '--json', '--data', world.dataFolder)).json();
      expect(inJson).toMatchObject({ ready: true, workspaces: [{ name: 'test' }] });
      const health = await commandLine('healthcheck', '--data', world.dataFolder);
      expect(health).toMatchObject({ code: 0, stdout: '', stderr: '' });
      const once = await commandLine('once', '--json', ...flags);
      expect(once.code).toBe(0);
      expect(once.json()).toMatchObject([{ workspace: 'test', left: 0, failures: [] }]);
      await world.restart({ meanwhile: expectNotRunning });
    } finally {
      await world.close();
    }
  });

  async function expectNotRunning(folder: string): Promise<void> {
    const alone = await commandLine('status', '--data', folder);
    expect([alone.code, (await commandLine('healthcheck', '--data', folder)).code]).toEqual([75, 75]);
    expect(alone.stderr).toContain('code:   not_running');
    expect(alone.stderr).toContain(`"npm start -- --data ${folder}"`);
  }
});

describe.runIf(isDeep)('workspace serve', () => {
  it('prints what a client needs, once, and its clients go on after a restart', async () => {
    const first = await serve();
    expect(first.served.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/api\/v1$/);
    expect((await tasks(first.served, first.served.apiKey)).status).toBe(200);
    const keys = `${first.served.url}/workspaces/${first.served.workspaceId}/api-keys`;
    const owner = { headers: { authorization: `Bearer ${first.served.oauthToken}` } };
    expect((await fetch(keys, owner)).status).toBe(200);
    expect((await first.process.end()).code).toBe(0);

    const second = await serve();
    expect(second.served.workspaceId).toBe(first.served.workspaceId);
    expect(second.served).toMatchObject({ apiKey: null, oauthToken: null });
    for (const credential of [first.served.apiKey, first.served.oauthToken])
      expect((await tasks(second.served, credential)).status).toBe(200);
    const locked = await commandLine('workspace', 'serve', '--port', '0', '--db', join(scratch.folder, 'service.db'));
    expect(locked.code).toBe(75);
  });
});

describe.runIf(isDeep)('run, as real processes', () => {
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
});

describe('once and check', () => {
  let service: TestService;
  let flags: readonly string[] = [];
  beforeEach(async () => {
    service = await startWorkspaceService();
    const { url, apiKey } = service;
    const config = file('own.yaml', `workspace:\n  url: ${url}\n  apiKey: ${apiKey}\n${CONNECTIONS}`);
    flags = ['--config', config, '--data', data, '--log-level', 'silent'];
  });
  afterEach(() => service.close());

  it('once drains and ends with 0; with 3, and the reason, where nothing gets through', async () => {
    const good = await commandLine('once', '--json', ...flags);
    expect([good.code, complaintsOf(good)]).toEqual([0, '']);
    expect(good.json()).toEqual([{ workspace: 'own', pullRequests: 0, links: 0, left: 0, failures: [] }]);
    await service.close();
    rmSync(data, { recursive: true });

    const bad = await commandLine('once', '--json', ...flags);
    expect([bad.code, complaintsOf(bad)]).toEqual([3, '']);
    const [{ left, failures }] = bad.json();
    expect(left).toBe(2);
    expect(failures).toEqual([expect.stringMatching(/^workspace: unreachable: GET http/)]);
  });
});

describe('usage', () => {
  it('check --offline looks at the configuration alone: no data folder, no request, nobody waited for', async () => {
    const config = file(
      'own.yaml',
      `workspace: { url: "http://127.0.0.1:9/api/v1", apiKey: a-key-of-mine }\n${CONNECTIONS}`,
    );
    const sound = await commandLine('check', '--offline', '--config', config, '--data', data);
    expect(sound).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^ok {7}own: .*own\.yaml is valid/) as string,
    });
    expect(existsSync(data)).toBe(false);
    file('own.yaml', `quota: { requests: many }\n${CONNECTIONS}`);
    const wrong = await commandLine('check', '--offline', '--config', config, '--data', data);
    const inJson = await commandLine('check', '--offline', '--json', '--config', config, '--data', data);
    expect(inJson.json()).toContainEqual(expect.objectContaining({ level: 'error' }));
    expect(wrong).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('own.yaml:1:20: quota.requests') as string,
    });
  });

  it('ends with 78 on a Node that is too old, before it imports what that Node lacks', async () => {
    const asOld = `
      Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } });
      require('node:module').registerHooks({
        resolve: (url, context, next) => {
          if (url === 'node:module' || url.includes('cli/')) throw new Error(url + ' is imported');
          return next(url, context);
        },
      });`;
    const file = join(scratch.folder, 'as-old.cjs');
    writeFileSync(file, asOld);
    const { code, stderr } = await startNode(['--require', file, 'src/main.ts', 'run']).ended;
    expect(code).toBe(78);
    expect(stderr).toMatch(/^worksync: this is Node 20\.20\.2, .*\n {2}remedy: Install a newer Node/);
  });
});
