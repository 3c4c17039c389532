import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { connectors } from '../../src/connectors/registry.ts';
import type { Status } from '../../src/web/status.ts';
import { piecesIn } from '../support/canaries.ts';
import { type Running, startWorksync } from '../support/processes.ts';

/**
 * Every vendor, and the workspace itself, repeats what it was sent: all headers and the body, in clear and encoded, in
 * whatever form its errors have, and as what is no answer at all. Nothing of it may be found anywhere afterwards.
 */
const UUID = '00000000-0000-4000-8000-000000000000';
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const PRIVATE_KEY = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();

/** Secrets by the name of their variable. Random, so that a piece of one stands nowhere by chance. */
const canaries: Record<string, string> = {};
/** Of each what is random. */
const parts: Record<string, string> = {};
/** Given to us by the vendor while the daemon runs. */
const INSTALLATION_PART = random();
const INSTALLATION_TOKEN = `ghs_${INSTALLATION_PART}`;

function random(): string {
  return randomBytes(30).toString('base64').replaceAll('=', '').replaceAll('/', '.');
}

/** A new secret in the environment; the text that stands for it in a workspace file. */
function secret(name: string, prefix = ''): string {
  parts[name] = random();
  canaries[name] = prefix + parts[name];
  return `\${${name}}`;
}

const api = (port: number, connection: string) => `http://127.0.0.1:${port}/${connection}`;

function connectionsAt(port: number): Record<string, object> {
  const hooks = (name: string) => ({ webhookSecrets: secret(`${name}_WEBHOOK_SECRET`) });
  return {
    github: {
      ...{ connector: 'github', apiUrl: api(port, 'github'), repositories: ['acme/app'], issues: true },
      token: secret('GITHUB_TOKEN', 'ghp_'),
      ...hooks('GITHUB'),
    },
    app: {
      ...{ connector: 'github', apiUrl: api(port, 'app'), repositories: ['acme/web'] },
      app: { id: 'Iv1', installationId: '7', privateKey: `\${GITHUB_KEY}` },
      ...hooks('APP'),
    },
    gitlab: {
      ...{ connector: 'gitlab', apiUrl: api(port, 'gitlab'), projects: ['acme/app'], issues: true },
      token: secret('GITLAB_TOKEN', 'glpat-'),
      ...hooks('GITLAB'),
    },
    bitbucket: {
      ...{ connector: 'bitbucket', apiUrl: api(port, 'bitbucket'), repositories: ['acme/app'], email: 'a@example.com' },
      apiToken: secret('BITBUCKET_TOKEN'),
      ...hooks('BITBUCKET'),
    },
    azure: {
      ...{ connector: 'azure-boards', apiUrl: api(port, 'azure'), organization: 'acme', organizationId: UUID },
      ...{ projects: ['app'], token: secret('AZURE_TOKEN') },
      ...hooks('AZURE'),
    },
    jira: {
      ...{ connector: 'jira', apiUrl: api(port, 'jira'), site: 'acme.atlassian.net', cloudId: UUID, projects: ['ENG'] },
      ...{ email: 'a@example.com', token: secret('JIRA_TOKEN', 'ATATT3') },
      ...hooks('JIRA'),
    },
    linear: {
      ...{ connector: 'linear', apiUrl: api(port, 'linear'), organizationId: UUID, teams: ['ENG'] },
      apiKey: secret('LINEAR_KEY', 'lin_api_'),
      ...hooks('LINEAR'),
    },
    redmine: {
      ...{ connector: 'redmine', url: api(port, 'redmine'), host: 'redmine.example.com', projects: ['app'] },
      apiKey: secret('REDMINE_KEY'),
      ...hooks('REDMINE'),
    },
    sentry: {
      ...{ connector: 'sentry', apiUrl: api(port, 'sentry'), organization: 'acme', projects: ['app'] },
      token: secret('SENTRY_TOKEN', 'sntrys_'),
      ...hooks('SENTRY'),
    },
    generic: {
      ...{ connector: 'generic', system: 'own', feedUrl: api(port, 'generic'), token: secret('GENERIC_TOKEN') },
      ...hooks('GENERIC'),
    },
  };
}

/** Everything that came in, as the other side may write it down. */
function repeated({ method, url, rawHeaders }: IncomingMessage, body: string): string {
  const headers = rawHeaders.join(' ');
  const basic = rawHeaders
    .filter((value) => value.startsWith('Basic '))
    .map((value) => Buffer.from(value.slice(6), 'base64').toString());
  const encoded = [
    encodeURIComponent(headers),
    Buffer.from(headers).toString('base64'),
    Buffer.from(headers).toString('hex'),
  ];
  return [method, url, headers, ...basic, body, ...encoded].join(' ');
}

/** The error objects of all vendors in one. */
function errorObject(text: string): object {
  const fields = ['message', 'error', 'detail', 'error_description', 'description', 'reason', 'errorCode', 'typeKey'];
  return {
    ...Object.fromEntries(fields.map((name) => [name, text])),
    errors: [{ message: text, userPresentableMessage: text, extensions: { userPresentableMessage: text, code: text } }],
    errorMessages: [text],
  };
}

/** What the request proves itself with, from its first character on. */
function credentialIn(text: string): string {
  return /(?:authorization (?:\w+ )?|private-token |x-redmine-api-key )(\S+)/i.exec(text)?.[1] ?? 'none';
}

/** Leaves so little room for what follows in a message that it is cut off in the middle. */
const PADDING = 'x'.repeat(180);

/** Status and body of an answer, of which each request gets the next one. */
const ANSWERS: readonly ((text: string) => readonly [number, string])[] = [
  (text) => [400, JSON.stringify(errorObject(text))],
  // Cut off where messages are cut off, half of the credential would be left.
  (text) => [400, JSON.stringify(errorObject(`${PADDING} ${credentialIn(text)}`))],
  (text) => [401, JSON.stringify({ error: { message: text }, errors: { base: [text] }, message: { base: text } })],
  (text) => [200, credentialIn(text)],
  (text) => [403, JSON.stringify({ ...errorObject(text), errors: [text] })],
  (text) => [200, `{"data": ${credentialIn(text)} ${text}`],
  (text) => [500, JSON.stringify(errorObject(text))],
  (text) => [200, JSON.stringify(errorObject(text))],
  (text) => [404, JSON.stringify({ type: 'error', error: { message: text, detail: text } })],
  (text) => [422, JSON.stringify(errorObject(text))],
  (text) => [302, text],
];

/** What came in, by the first part of the path. */
const asked = new Map<string, string[]>();

/** Every request gets the next of the answers, so that each kind of request meets each of them in time. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  let body = '';
  request
    .on('data', (piece) => (body += piece))
    .on('end', () => {
      if (request.url?.endsWith('/access_tokens')) {
        const expires = new Date(Date.now() + 3_600_000).toISOString();
        return void response.writeHead(201).end(JSON.stringify({ token: INSTALLATION_TOKEN, expires_at: expires }));
      }
      const text = repeated(request, body);
      const side = request.url?.split('/')[1] ?? '';
      const before = asked.get(side) ?? [];
      asked.set(side, [...before, text]);
      const [status, content] = ANSWERS[before.length % ANSWERS.length]!(text);
      response
        .writeHead(status, { 'content-type': 'application/json', location: '/elsewhere', 'x-said': 'so' })
        .end(content);
    });
}

const folder = mkdtempSync(join(tmpdir(), 'worksync-canaries-'));
const data = join(folder, 'data');
const config = join(folder, 'config');
/** What may be looked at from outside, by where it was found. */
const outputs = new Map<string, Buffer>();
let server: Server;
let names: string[];
let daemon: Running | undefined;

const env = () => ({ ...canaries, GITHUB_KEY_FILE: join(folder, 'key'), WORKSYNC_ADMIN_TOKEN: adminToken });
const adminToken = random().replaceAll('=', '');
const flags = ['--config', config, '--data', data, '--log-level', 'debug'];
const publicUrl = ['--public-url', 'https://sync.example.com'];

async function run(...args: string[]): Promise<void> {
  const { stdout, stderr } = await startWorksync([...args, ...flags], { env: env() }).ended;
  outputs.set(`output of ${args.join(' ')}`, Buffer.from(`${stdout}\n${stderr}`));
}

beforeAll(async () => {
  server = createServer(answer);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const connections = connectionsAt(port);
  names = Object.keys(connections);
  mkdirSync(config);
  writeFileSync(join(folder, 'key'), PRIVATE_KEY, { mode: 0o600 });
  const workspace = { url: api(port, 'workspace'), apiKey: secret('WORKSPACE_KEY', 'wsk_') };
  writeFileSync(join(config, 'all.yaml'), stringify({ workspace, connections }));

  daemon = startWorksync(['run', ...flags, ...publicUrl, '--port', '0'], { env: env() });
  const said = await daemon.says('Status page: ');
  const address = /Status page: (\S+)\//.exec(said)?.[1] ?? '';
  const headers = { authorization: `Bearer ${adminToken}` };
  const look = async (path: string) => {
    const answered = await fetch(address + path, { headers });
    expect([200, 503]).toContain(answered.status);
    const bytes = Buffer.from(await answered.arrayBuffer());
    outputs.set(`${path} (${outputs.size})`, bytes);
    return bytes.toString();
  };
  const ask = async (question: string, body: object) => {
    const type = { 'content-type': 'application/json' };
    const url = `${address}/admin/workspaces/all/questions/${question}`;
    const answered = await fetch(url, { method: 'POST', headers: { ...headers, ...type }, body: JSON.stringify(body) });
    return Buffer.from(await answered.arrayBuffer());
  };
  const failures = async () => {
    const { workspaces } = JSON.parse(await look('/status.json')) as Status;
    return workspaces[0]!.connections.filter(({ failure }) => failure !== null).length;
  };
  // Each connection has polled at least once, and failed.
  while ((await failures()) < names.length) await new Promise((resolve) => setTimeout(resolve, 200));
  for (const path of ['/', '/metrics', '/status.json', '/readyz']) await look(path);
  // What commands print is what the daemon answers them.
  for (const name of names) outputs.set(`hooks of ${name}`, await ask('hooks-install', { connection: name }));
  await Promise.all(
    [
      ['check', ...publicUrl],
      ['hooks', 'status', ...publicUrl],
      ['hooks', 'install', 'jira', ...publicUrl],
      ['status'],
      ['tasks', 'list', '--timeout', '1s'],
    ].map((args) => run(...args)),
  );
  const { stdout, stderr } = await daemon.end();
  outputs.set('output of the daemon', Buffer.from(`${stdout}\n${stderr}`));
  // And without a daemon, where a command asks the vendors itself.
  await run('check', ...publicUrl);
  await run('hooks', 'status', ...publicUrl);
  for (const file of readdirSync(data, { recursive: true, encoding: 'utf8' }))
    if (statSync(join(data, file)).isFile()) outputs.set(`file ${file}`, readFileSync(join(data, file)));
}, 300_000);

afterAll(async () => {
  daemon?.child.kill('SIGKILL');
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

describe('what vendors repeat', () => {
  it('is every credential that there is', () => {
    expect(new Set(connectors.map(({ id }) => id)).size).toBe(names.length - 1);
    expect([...asked.keys()].toSorted()).toEqual([...names, 'workspace'].toSorted());
    const credentials = Object.entries(canaries).filter(([name]) => !name.endsWith('WEBHOOK_SECRET'));
    const all = [...asked.values()].flat().join('\n');
    for (const [name, value] of credentials) expect([name, all.includes(value)]).toEqual([name, true]);
    expect(all).toContain(INSTALLATION_TOKEN);
    // Each was answered in several of the ways.
    for (const name of names) expect([name, (asked.get(name)?.length ?? 0) > 1]).toEqual([name, true]);
  });

  it('was found in what they said, and replaced', () => {
    const marked = [...outputs].filter(([, bytes]) => bytes.includes('[secret]')).map(([where]) => where);
    expect(marked).toEqual(expect.arrayContaining(['output of the daemon', 'file all.db']));
    const cut = [...outputs].filter(([, bytes]) => bytes.includes(PADDING)).map(([where]) => where);
    expect(cut.length).toBeGreaterThan(0);
  });

  it('is nowhere: no file, no output, no page, no metric holds a piece of one', () => {
    const lines = PRIVATE_KEY.split('\n').filter((line) => line.length > 20 && !line.startsWith('-----'));
    const all = { ...parts, INSTALLATION_TOKEN: INSTALLATION_PART, WORKSYNC_ADMIN_TOKEN: adminToken };
    const secrets = [...Object.entries(all), ...lines.map((line, at) => [`GITHUB_KEY, line ${at + 1}`, line] as const)];
    const found = [...outputs].flatMap(([where, bytes]) =>
      secrets.flatMap(([name, value]) => {
        const pieces = piecesIn(bytes, value);
        return pieces.length === 0 ? [] : [`${name} in ${where}: ${pieces.length} pieces, the first is ${pieces[0]}`];
      }),
    );
    expect(outputs.size).toBeGreaterThan(20);
    expect(secrets.length).toBeGreaterThan(30);
    expect(found).toEqual([]);
  });
});
