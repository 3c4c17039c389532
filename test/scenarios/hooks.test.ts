import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { checkAll } from '../../src/admin/status/check.ts';
import { SyncError } from '../../src/model/errors.ts';
import { createForge, type Forge, pulls } from '../support/fakes/forge.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';

const MINUTE = 60_000;
const SECRET = 'a webhook secret for tests only';
const URL_OF_HOOKS = 'https://sync.example/webhooks/test/forge';

let world: World;
let forge: Forge;
beforeEach(() => {
  forge = createForge({ app: pulls(1, 1), web: [] });
});
afterEach(() => world.close());

async function open(options: Partial<WorldOptions> = {}, connection: object = {}): Promise<void> {
  const connections = {
    forge: {
      connector: 'gitlab',
      webhookSecrets: [SECRET, 'the next secret of the tests'],
      poll: 'off',
      ...connection,
    },
  };
  const config = { connections };
  world = await createWorld({ publicUrl: 'https://sync.example', ...options, connectors: [forge.connector], config });
}

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

async function metric(name: string): Promise<string | undefined> {
  const page = await world.metrics();
  return new RegExp(`^worksync_${name}\\{workspace="test",connection="forge"\\} (.*)$`, 'm').exec(page)?.[1];
}

const status = async () => (await world.partition().status()).connections[0]?.hooks;

describe('webhooks at the vendor', () => {
  it('are looked at once an hour; those that are off or absent are shown', async () => {
    await open();
    expect(await status()).toMatchObject({ at: null, silent: [] });
    forge.hooks.set('app', { url: URL_OF_HOOKS, secret: SECRET, isOn: true });
    forge.hooks.set('web', { url: 'https://other.example/', secret: SECRET, isOn: true });
    await world.clock.advance(MINUTE);
    expect(await status()).toMatchObject({ silent: [{ subject: 'web', state: 'absent' }], failure: null });
    expect(await metric('hook_disabled')).toBe('1');
    await world.clock.advance(52 * MINUTE);
    expect(forge.asked.filter((each) => each === `hooks ${URL_OF_HOOKS}`)).toHaveLength(1);
    forge.hooks.set('app', { url: URL_OF_HOOKS, secret: SECRET, isOn: false });
    await world.clock.advance(14 * MINUTE);
    expect((await status())?.silent.map(({ subject, state }) => [subject, state])).toEqual([
      ['app', 'disabled'],
      ['web', 'absent'],
    ]);
    expect(await metric('hook_disabled')).toBe('2');
  });

  it('are named by check: an error where nothing else brings what they would', async () => {
    await open();
    forge.hooks.set('app', { url: URL_OF_HOOKS, secret: SECRET, isOn: true });
    const findings = async () =>
      (await checkAll({ partitions: [world.partition()], wrong: new Map(), clock: world.clock })).filter(
        ({ subject }) => subject.includes('forge'),
      );
    expect(await findings()).toEqual([
      { level: 'ok', subject: 'test: forge', message: 'webhooks on: 1' },
      {
        level: 'error',
        subject: 'test: forge: web',
        message: 'webhook absent: there is none',
        hint: 'Run "worksync hooks install forge".',
      },
      {
        level: 'warning',
        subject: 'test: forge',
        message: 'no recent webhook',
        hint: 'Let the vendor send one, and see "worksync deliveries refused" if it does not arrive.',
      },
    ]);
  });

  it('that are on and have a flaw are named by check too', async () => {
    await open({}, { poll: '5m' });
    for (const name of ['app', 'web'])
      forge.hooks.set(name, { url: URL_OF_HOOKS, secret: SECRET, isOn: true, ...(name === 'web' && { flaw: 'deaf' }) });
    const findings = (await checkAll({ partitions: [world.partition()], wrong: new Map(), clock: world.clock })).filter(
      ({ message }) => message.includes('webhook'),
    );
    expect(findings).toEqual([
      { level: 'ok', subject: 'test: forge', message: 'webhooks on: 2' },
      { level: 'warning', subject: 'test: forge: web', message: 'webhook active: deaf', hint: 'mend it' },
      { level: 'ok', subject: 'test: forge', message: 'no recent webhook' },
    ]);
  });

  it('are installed with the first secret, again and again to the same end, and then looked at', async () => {
    await open();
    await world.clock.advance(MINUTE);
    expect((await status())?.silent).toHaveLength(2);
    const outcomes = async () => {
      const { hooks } = await ask('hooks-install', { connection: 'forge' });
      return hooks.map(({ outcome }) => outcome);
    };
    expect(await outcomes()).toEqual(['created', 'created']);
    expect((await status())?.silent).toEqual([]);
    expect(forge.hooks.get('app')).toEqual({ url: URL_OF_HOOKS, secret: SECRET, isOn: true });
    forge.hooks.set('web', { url: URL_OF_HOOKS, secret: SECRET, isOn: false });
    expect(await outcomes()).toEqual(['unchanged', 'updated']);
  });

  it('need a public address, from the command where the daemon knows none, and a secret', async () => {
    await open({ publicUrl: undefined });
    await expect(ask('hooks-install', { connection: 'forge' })).rejects.toMatchObject({ code: 'public_url_missing' });
    await world.clock.advance(2 * 60 * MINUTE);
    expect(forge.asked).toEqual([]);
    expect(await ask('hooks', {})).toMatchObject([{ url: null, failure: { code: 'public_url_missing' } }]);
    const publicUrl = 'https://from.example/base';
    expect(await ask('hooks', { publicUrl })).toMatchObject([
      { url: 'https://from.example/base/webhooks/test/forge', hooks: [{ state: 'absent' }, { state: 'absent' }] },
    ]);
    await world.close();
    await open({}, { webhookSecrets: undefined, poll: '30d' });
    await expect(ask('hooks-install', { connection: 'forge' })).rejects.toMatchObject({ code: 'secret_missing' });
    expect(await ask('hooks', {})).toEqual([]);
    await expect(ask('hooks', { connection: 'none' })).rejects.toMatchObject({ code: 'usage' });
  });
});

it('an installation that the vendor refuses is no success of the command', async () => {
  await open();
  const server = createServer((_request, response) => {
    response.writeHead(403, { 'content-type': 'application/json' }).end('{"message":"403 Forbidden"}');
  });
  const apiUrl = await listenLocally(server);
  const { url, apiKey, close } = await startWorkspaceService();
  const folder = folderOfTest('hooks');
  const main = { connector: 'gitlab', apiUrl, token: 'glpat-x', projects: ['acme/api'], webhookSecrets: SECRET };
  const config = join(folder, 'team.yaml');
  writeFileSync(config, JSON.stringify({ workspace: { url, apiKey }, connections: { main } }));
  try {
    const flags = ['--config', config, '--data', join(folder, 'data'), '--public-url', 'https://sync.example'];
    const { code, stdout } = await commandLine('hooks', 'install', 'main', ...flags);
    expect(stdout).toMatch(/^ {2}unknown {2}project acme\/api: /m);
    expect(code).toBe(1);
  } finally {
    server.close();
    await close();
  }
});

describe('failed deliveries', () => {
  it('are left alone while the vendor limits us', async () => {
    await open();
    forge.onAsk = (what) => {
      if (what.startsWith('hooks'))
        throw new SyncError('rate_limited', 'slow', { retryAfter: 40 * MINUTE, status: 429 });
    };
    await world.clock.advance(MINUTE);
    expect((await status())?.failure).toBe('rate_limited: slow');
    const before = forge.asked.filter((each) => each.startsWith('redeliver')).length;
    await world.clock.advance(35 * MINUTE);
    expect(forge.asked.filter((each) => each.startsWith('redeliver'))).toHaveLength(before);
    await world.clock.advance(20 * MINUTE);
    expect(forge.asked.filter((each) => each.startsWith('redeliver')).length).toBeGreaterThan(before);
  });
});

describe('what only one connection should have', () => {
  const forgeOf = (exclusive: string | undefined) => ({ ...forge.connector, exclusive: () => exclusive });
  const open = async (exclusive: string | undefined) => {
    const connection = { connector: 'gitlab', webhookSecrets: [SECRET], poll: 'off' };
    const config = { connections: { one: connection, two: connection } };
    world = await createWorld({ connectors: [forgeOf(exclusive)], config });
  };
  const findings = async () =>
    (await checkAll({ partitions: [world.partition()], wrong: new Map(), clock: world.clock })).filter(({ message }) =>
      message.includes('serves'),
    );

  it('is told where two have it', async () => {
    await open('Forge App 7');
    expect(await findings()).toEqual([
      {
        level: 'warning',
        subject: 'test: two',
        message: 'Forge App 7 also serves "test: one": both share one webhook and one limit',
        hint: 'Use one for each workspace, in one connection.',
      },
    ]);
  });

  it('is not told where there is nothing of the kind', async () => {
    await open(undefined);
    expect(await findings()).toEqual([]);
  });
});

describe('an OAuth grant', () => {
  const HOUR = 3_600_000;

  it('two connections of one grant renew their access token by one request an hour, also over a restart', async () => {
    const renewals: string[] = [];
    const refused: string[] = [];
    const searched = new Set<string>();
    const server = createServer((request, response) => void answer(request, response));
    async function answer(request: IncomingMessage, response: ServerResponse) {
      const body = Buffer.concat(await request.toArray()).toString();
      const path = new URL(request.url ?? '/', 'http://x').pathname;
      if (path === '/oauth/token') {
        renewals.push((JSON.parse(body) as { refresh_token: string }).refresh_token);
        const count = renewals.length + 1;
        return response.end(
          JSON.stringify({ access_token: `access-${count}`, refresh_token: `refresh-${count}`, expires_in: 3_600 }),
        );
      }
      const good = `Bearer access-${renewals.length + 1}`;
      if (request.headers.authorization !== good) {
        refused.push(path);
        return response.writeHead(401).end('{"message":"Unauthorized"}');
      }
      const key = /project\/(\w+)$/.exec(path)?.[1];
      if (key !== undefined) return response.end(JSON.stringify({ id: key === 'ENG' ? '1' : '2', key }));
      searched.add(path);
      return response.end('{"issues":[],"isLast":true}');
    }
    onTestFinished(() => void server.close());
    const apiUrl = await listenLocally(server);
    const connection = (project: string) => ({
      ...{ connector: 'jira', site: 'acme.atlassian.net', cloudId: '11223344-a1b2-4b33-8444-def123456789', apiUrl },
      ...{ projects: [project], poll: '10m' },
      oauth: {
        clientId: 'client',
        clientSecret: 'client-secret',
        refreshToken: 'refresh-1',
        tokenUrl: `${apiUrl}/oauth/token`,
      },
    });
    const connections = { one: connection('ENG'), other: connection('OPS') };
    world = await createWorld({ config: { connections } });

    const polled = async () => (await world.partition().status()).connections.map(({ lastPollAt }) => lastPollAt ?? 0);
    await world.until(async () => (await polled()).every((at) => at > 0));
    expect(renewals).toEqual(['refresh-1']);
    await world.restart();
    await world.clock.advance(3 * HOUR);
    await world.settled();
    expect(renewals.slice(0, 3)).toEqual(['refresh-1', 'refresh-2', 'refresh-3']);
    expect(new Set(renewals).size).toBe(renewals.length);
    expect(renewals.length).toBeLessThanOrEqual(5);
    expect(refused).toEqual([]);
    const failures = (await world.partition().status()).connections.map(({ failure }) => failure);
    expect(failures).toEqual([null, null]);
  });
});
