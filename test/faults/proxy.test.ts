import { mkdirSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Webhooks } from '@octokit/webhooks';
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { startNginx, WITHOUT_NGINX } from '../support/fakes/nginx.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/**
 * A real reverse proxy before the daemon. To the daemon everything comes from this very machine then, with a `Host` of
 * this machine, and with what a stranger wrote in the headers.
 */
const SECRET = 'a webhook secret for tests only';
const READ = 'the-token-of-a-reader-nobody-can-guess';
const PUBLIC = 'sync.example.com';

const folder = folderOfFile('proxy');
const running: Running[] = [];
/** With nothing but `proxy_pass`; and one that ends TLS, as far as the daemon is told. */
let plain = '';
let tls = '';
let direct = '';

const data = join(folder, 'data');

beforeAll(async () => {
  if (WITHOUT_NGINX !== undefined) return;
  const config = join(folder, 'config');
  mkdirSync(config);
  writeFileSync(
    join(config, 'test.yaml'),
    `connections: { github: { connector: github, repositories: [acme/app], poll: off, webhookSecrets: '${SECRET}' } }\n`,
  );
  const flags = ['--config', config, '--data', data, '--port', '0', '--log-level', 'error'];
  const proxies = ['--trusted-proxies', '127.0.0.1', '--allowed-hosts', PUBLIC];
  const env = { WORKSYNC_READ_TOKEN: READ };
  const daemon = startWorksync(['run', ...flags, ...proxies], { env });
  running.push(daemon);
  direct = /Status page: (\S+)\//.exec(await daemon.says('Status page: '))?.[1] ?? '';
  const folders = ['plain', 'tls'].map((name) => join(folder, name));
  for (const each of folders) mkdirSync(each);
  const bare = await startNginx(folders[0] ?? '', `location / { proxy_pass ${direct}; }`);
  const whole = await startNginx(
    folders[1] ?? '',
    `location / {
       proxy_pass ${direct};
       proxy_set_header Host $host;
       proxy_set_header X-Forwarded-For $remote_addr;
       proxy_set_header X-Forwarded-Proto https;
     }`,
  );
  running.push(bare.running, whole.running);
  [plain, tls] = [bare.address, whole.address];
});

afterAll(async () => {
  for (const each of running.toReversed()) await each.end('SIGTERM');
});

function needsNginx({ skip }: TestContext): void {
  if (WITHOUT_NGINX !== undefined) skip(WITHOUT_NGINX);
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** `fetch` would not let us name a `Host`. */
function ask(
  address: string,
  path: string,
  { method, headers: sent, body }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(new URL(address + path), { method, headers: sent, agent: false }, (response) => {
      const { statusCode: status = 0, headers } = response;
      void text(response).then((body) => resolve({ status, headers, body }));
    });
    request.on('error', reject).end(body);
  });
}

async function newLink(): Promise<string> {
  const { stdout } = await worksync(['login', '--data', data]);
  return new URL(stdout.trim()).search;
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

describe('behind nginx with nothing but proxy_pass', () => {
  /** Headers with which strangers pretend to be this machine, or a person whom a proxy has authenticated. */
  const CLAIMS: readonly Record<string, string>[] = [
    {},
    { host: 'localhost' },
    { host: '127.0.0.1', origin: 'http://127.0.0.1' },
    { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1' },
    { 'x-forwarded-proto': 'https', 'x-forwarded-host': PUBLIC },
    { 'cf-connecting-ip': '127.0.0.1', 'true-client-ip': '::1', 'x-client-ip': '127.0.0.1' },
  ];

  it('nothing but what is for everybody answers from outside', async (context) => {
    needsNginx(context);
    for (const headers of CLAIMS) {
      for (const path of '/ /status.json /metrics /no-such-page /admin /livez/ //livez /%6cogin/'.split(' '))
        expect([path, headers, (await ask(plain, path, { headers })).status]).toEqual([path, headers, 401]);
      const workspace = ['requests', 'gateway-tokens', 'questions/held'].map(
        (each) => `/admin/workspaces/test/${each}`,
      );
      const installation = ['check', 'once', 'login-links', 'sessions/end'].map((each) => `/admin/${each}`);
      for (const path of [...installation, ...workspace, '/logout']) {
        const asked = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: '{}' };
        expect([path, headers, (await ask(plain, path, asked)).status]).toEqual([path, headers, 401]);
      }
    }
    for (const path of ['/livez', '/readyz']) expect([path, (await ask(plain, path)).status]).toEqual([path, 200]);
    expect((await ask(plain, '/api/v1/workspaces/current/tasks')).status).toBe(401);
  });

  it('webhooks and programs with a token go through', async (context) => {
    needsNginx(context);
    const body = JSON.stringify(pullEvent({ number: 1 }));
    const headers = {
      'content-type': 'application/json',
      'x-github-event': 'pull_request',
      'x-github-delivery': 'delivery-1',
      'x-hub-signature-256': await new Webhooks({ secret: SECRET }).sign(body),
    };
    const path = '/webhooks/test/github';
    expect((await ask(plain, path, { method: 'POST', headers, body })).status).toBe(202);
    const forged = { ...headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
    expect((await ask(plain, path, { method: 'POST', headers: forged, body })).status).toBe(401);
    expect((await ask(plain, '/metrics', { headers: { authorization: `Bearer ${READ}` } })).status).toBe(200);
  });
});

it('behind nginx that says how it was asked a browser logs in over TLS, and out again', async (context) => {
  needsNginx(context);
  const host = { host: PUBLIC };
  const origin = `https://${PUBLIC}`;
  const link = (await newLink()).replace('?', '');
  const other = await ask(tls, '/login', {
    method: 'POST',
    headers: { ...host, ...FORM, origin: `http://${PUBLIC}` },
    body: link,
  });
  expect(other.status).toBe(403);
  const answer = await ask(tls, '/login', { method: 'POST', headers: { ...host, ...FORM, origin }, body: link });
  expect([answer.status, answer.headers.location]).toEqual([303, '/']);
  const cookie = answer.headers['set-cookie']?.[0] ?? '';
  expect(cookie).toMatch(/^__Host-worksync-[0-9a-f]{12}=.*; HttpOnly; SameSite=Strict; Secure$/);
  const session = { ...host, cookie: cookie.split(';')[0] ?? '' };
  expect((await ask(tls, '/', { headers: session })).headers.location).toBe('/workspaces/test');
  const page = await ask(tls, '/workspaces/test', { headers: session });
  expect([page.status, page.body.includes('<h1>Overview</h1>')]).toEqual([200, true]);
  // Under a name that is none of ours the same cookie is worth nothing.
  expect((await ask(tls, '/', { headers: { ...session, host: 'evil.example.org' } })).status).toBe(403);
  const token = /name="page" type="hidden" value="([^"]+)"/.exec(page.body)?.[1];
  const out = { method: 'POST', headers: { ...session, ...FORM, origin }, body: `page=${token}` };
  expect((await ask(tls, '/logout', out)).status).toBe(303);
  expect((await ask(tls, '/', { headers: session })).status).toBe(401);
});
