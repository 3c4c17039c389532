import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { Status } from '../../src/admin/status/status.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { DaemonEndpoint } from '../../src/store/installation/daemon-file.ts';
import { cookieOf } from '../support/harness/browser-session.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { type Running, startWorksync } from '../support/harness/processes.ts';
import { keptByPostgres } from '../support/postgres/postgres-bytes.ts';
import { ON_POSTGRES, storePlace } from '../support/postgres/store-place.ts';
import { piecesOf } from '../support/rows/canaries.ts';

/**
 * Every vendor, and the workspace itself, repeats what it was sent: all headers and the body, in clear and encoded, in
 * whatever form its errors have, and as what is no answer at all. Nothing of it may be found anywhere afterwards.
 */
const UUID = '00000000-0000-4000-8000-000000000000';
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const PRIVATE_KEY = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();

/** Secrets by the name of their variable. Random, so that a piece of one stands nowhere by chance. */
const canaries: Record<string, string> = {};
/** The random part of each. */
const parts: Record<string, string> = {};
/** Given to us by the vendors while the daemon runs, by what gave them: of each what is random. */
const given = new Map<string, string>();
const INSTALLATION_PART = random();
const INSTALLATION_TOKEN = `ghs_${INSTALLATION_PART}`;

function random(): string {
  return randomBytes(30).toString('base64').replaceAll('=', '').replaceAll('/', '.');
}

const variable = (name: string) => `\${${name}}`;

/** A new secret in the environment; the text that stands for it in a workspace file. */
function secret(name: string, prefix = ''): string {
  parts[name] = random();
  canaries[name] = prefix + parts[name];
  return variable(name);
}

const api = (port: number, connection: string) => `http://127.0.0.1:${port}/${connection}`;

const grantAt = (port: number, connection: string, name: string) => ({
  clientId: 'client',
  clientSecret: secret(`${name}_CLIENT_SECRET`),
  refreshToken: secret(`${name}_REFRESH_TOKEN`),
  tokenUrl: `${api(port, connection)}/oauth/token`,
});

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
    'jira-app': {
      ...{
        connector: 'jira',
        apiUrl: api(port, 'jira-app'),
        site: 'acme.atlassian.net',
        cloudId: UUID,
        projects: ['OPS'],
      },
      oauth: grantAt(port, 'jira-app', 'JIRA_APP'),
    },
    'linear-app': {
      ...{ connector: 'linear', apiUrl: api(port, 'linear-app'), organizationId: UUID, teams: ['OPS'] },
      oauth: grantAt(port, 'linear-app', 'LINEAR_APP'),
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
    shortcut: {
      ...{ connector: 'shortcut', apiUrl: api(port, 'shortcut'), teams: ['app'] },
      token: secret('SHORTCUT_TOKEN'),
      ...hooks('SHORTCUT'),
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

/** The credential of the request, from its first character on. */
function credentialIn(text: string): string {
  return (
    /(?:authorization (?:\w+ )?|private-token |x-redmine-api-key |shortcut-token )(\S+)/i.exec(text)?.[1] ?? 'none'
  );
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

/** Received requests, by the first part of the path. */
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
      // First an error that repeats the grant, then a token for each time.
      if (request.url?.endsWith('/oauth/token') && before.length > 0) return void response.end(grant(side));
      const [status, content] = ANSWERS[before.length % ANSWERS.length]!(text);
      response
        .writeHead(status, { 'content-type': 'application/json', location: '/elsewhere', 'x-said': 'so' })
        .end(content);
    });
}

function grant(side: string): string {
  const token = (kind: string) => {
    const value = random();
    given.set(`${kind} token ${given.size} of ${side}`, value);
    return value;
  };
  return JSON.stringify({ access_token: token('access'), refresh_token: token('refresh'), expires_in: 3_600 });
}

const folder = folderOfFile('canaries');
const data = join(folder, 'data');
const config = join(folder, 'config');
const wrong = join(folder, 'wrong');
/** Everything visible from outside, by the place where it was found. */
const outputs = new Map<string, Buffer>();
let server: Server;
let names: string[];
let daemon: Running | undefined;

/** Where the rows are, if not in the data folder: with a password, which this server does not ask for. */
const storePassword = random();
let store: string | undefined;

const env = () => ({
  ...{ ...canaries, ...doors, GITHUB_KEY_FILE: join(folder, 'key') },
  ...(store !== undefined && { WORKSYNC_STORE: store }),
});
const adminToken = random();
const readToken = random();
const limitedToken = random();
/** The daemon's own secrets. */
const doors = {
  WORKSYNC_ADMIN_TOKEN: adminToken,
  WORKSYNC_READ_TOKEN: readToken,
  WORKSYNC_TOKENS: `read:all ${limitedToken}`,
  WORKSYNC_SECRET_KEY: randomBytes(32).toString('base64'),
};
/** Secrets that the daemon created for one person each. */
const made: Record<string, string> = {};
const flags = ['--config', config, '--data', data, '--log-level', 'debug'];
const publicUrl = ['--public-url', 'https://sync.example.com'];

async function run(...args: string[]): Promise<void> {
  const given = args.includes('--config') ? ['--data', data] : flags;
  const { stdout, stderr } = await startWorksync([...args, ...given], { env: env() }).ended;
  outputs.set(`output of ${args.join(' ')} (${outputs.size})`, Buffer.from(`${stdout}\n${stderr}`));
}

/** A secret that a command prints for the person who requested it. It must appear nowhere else. */
async function secretOf(what: string, args: readonly string[], pattern: RegExp): Promise<string> {
  const { stdout, stderr } = await startWorksync([...args, ...flags], { env: env() }).ended;
  const found = pattern.exec(stdout)?.[1];
  if (found === undefined) throw new Error(`${args.join(' ')} printed no ${what}: ${stderr}`);
  made[what] = found;
  return found;
}

/** A browser that is logged in, and callers of the gateway with a token of ours and with a key that nobody knows. */
async function useDoors(address: string): Promise<void> {
  const link = await secretOf('login link', ['login'], /link=([\w-]+)/);
  const cookie = await cookieOf(address, { link });
  made['session'] = cookie.split('=')[1] ?? '';
  const page = await fetch(address, { headers: { cookie } });
  expect(page.status).toBe(200);
  outputs.set('a page of the session', Buffer.from(await page.arrayBuffer()));
  const token = ['gateway', 'token', 'create', '--description', 'CI', '--workspace', 'all', '--json'];
  const keys = [await secretOf('gateway token', token, /"secret":\s*"([^"]+)"/), `wsk_${random()}`];
  made['key of a caller'] = keys[1]!;
  const ask = async (key: string, caller: number, count: number) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ title: `Bug ${count}` });
    const answered = await fetch(`${address}/api/v1/workspaces/current/bugs`, { method: 'POST', headers, body });
    const said = [...answered.headers].flat().join(' ') + (await answered.text());
    outputs.set(`${GATEWAY} ${count} to caller ${caller}`, Buffer.from(said));
  };
  const asks = keys.flatMap((key, caller) => [1, 2, 3, 4, 5].map((count) => ask(key, caller, count)));
  await Promise.all(asks);
}

const GATEWAY = 'answer of the gateway';

/** The file is there to tell commands this token; and a caller who gets back what they sent themselves learns nothing. */
function mayStand(name: string, where: string): boolean {
  if (name === 'token of daemon.json') return where === 'running file daemon.json';
  return name === 'key of a caller' && where.startsWith(GATEWAY);
}

/** Webhooks that show their secret: GitLab's stands in a header, and strangers write it anywhere. */
async function sendWebhooks(address: string): Promise<void> {
  const hook = canaries['GITLAB_WEBHOOK_SECRET']!;
  const send = async (path: string, headers: Record<string, string>, body: string) => {
    const type = { 'content-type': 'application/json' };
    const answered = await fetch(`${address}/webhooks/${path}`, {
      method: 'POST',
      headers: { ...type, ...headers },
      body,
    });
    outputs.set(`answer to a webhook at ${path} (${outputs.size})`, Buffer.from(await answered.arrayBuffer()));
    return answered.status;
  };
  const gitlab = { 'x-gitlab-token': hook, 'x-gitlab-event': 'Merge Request Hook', 'idempotency-key': 'one' };
  expect(await send('all/gitlab', gitlab, '{"object_kind":"merge_request"}')).toBe(202);
  expect(await send('all/gitlab', { ...gitlab, 'idempotency-key': 'two' }, '{')).toBe(202);
  expect(await send('all/github', { ...gitlab, 'x-hub-signature-256': `sha256=${hook}` }, '{}')).toBe(401);
  expect(await send('all/azure', { authorization: `Basic ${btoa(`worksync:${hook}`)}` }, '{}')).toBe(401);
  expect(await send(`all/nobody?secret=${encodeURIComponent(hook)}`, gitlab, '{}')).toBe(404);
  expect(await send(`${encodeURIComponent(hook)}/gitlab`, gitlab, '{}')).toBe(404);
}

async function findStore(): Promise<void> {
  if (!ON_POSTGRES) return;
  const place = new URL(await storePlace(join(folder, 'store')));
  place.password = encodeURIComponent(storePassword);
  store = place.href;
}

/** Every file of the data folder as it is now, and all that PostgreSQL keeps for us. */
async function keepFiles(when: string): Promise<void> {
  if (store !== undefined)
    for (const [what, bytes] of await keptByPostgres(store)) outputs.set(`${when} ${what}`, bytes);
  for (const file of readdirSync(data, { recursive: true, encoding: 'utf8' }))
    if (statSync(join(data, file)).isFile()) outputs.set(`${when} file ${file}`, readFileSync(join(data, file)));
}

/** A backup as the README says, beside the running daemon. */
async function backUp(name: string): Promise<void> {
  const copy = join(folder, `copy-of-${name}`);
  const database = new BetterSqlite(join(data, name), { readonly: true });
  await database.backup(copy);
  database.close();
  outputs.set(`backup of ${name}`, readFileSync(copy));
}

/** Values in places where others are expected, and one that stands in the file itself. */
function writeWrongConfiguration(): void {
  mkdirSync(wrong);
  const literal = secret('LITERAL', 'ghp_');
  const connections = {
    github: {
      connector: 'github',
      repositories: [variable('GITHUB_TOKEN')],
      poll: variable('GITLAB_TOKEN'),
      token: [variable('JIRA_TOKEN')],
    },
    gitlab: { connector: variable('SENTRY_TOKEN'), projects: ['acme/app'] },
    jira: {
      connector: 'jira',
      site: variable('AZURE_TOKEN'),
      cloudId: variable('REDMINE_KEY'),
      projects: variable('BITBUCKET_TOKEN'),
    },
    literal: { connector: 'github', repositories: ['acme/app'], token: canaries['LITERAL'], issues: literal },
  };
  const workspace = { url: variable('LINEAR_KEY'), apiKey: variable('WORKSPACE_KEY') };
  const quota = { requests: variable('GENERIC_TOKEN'), window: variable('WORKSPACE_KEY') };
  writeFileSync(join(wrong, 'wrong.yaml'), stringify({ workspace, connections, quota }));
  writeFileSync(join(wrong, 'broken.yaml'), `connections: { a: { token: ${canaries['LITERAL']}`);
}

beforeAll(async () => {
  await findStore();
  server = createServer(answer);
  const port = Number(new URL(await listenLocally(server)).port);
  const connections = connectionsAt(port);
  names = Object.keys(connections);
  mkdirSync(config);
  writeFileSync(join(folder, 'key'), PRIVATE_KEY, { mode: 0o600 });
  const workspace = { url: api(port, 'workspace'), apiKey: secret('WORKSPACE_KEY', 'wsk_') };
  writeFileSync(join(config, 'all.yaml'), stringify({ workspace, connections }));

  daemon = startWorksync(['run', ...flags, ...publicUrl, '--port', '0'], { env: env() });
  await daemon.says('Status page: ');
  // The line names the public address.
  const { address } = JSON.parse(readFileSync(join(data, 'daemon.json'), 'utf8')) as DaemonEndpoint;
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
  await useDoors(address);
  await sendWebhooks(address);
  // Commands print the answers of the daemon.
  for (const name of names) outputs.set(`hooks of ${name}`, await ask('hooks-install', { connection: name }));
  await Promise.all(
    [
      ['check', ...publicUrl],
      ['hooks', 'status', ...publicUrl],
      ['hooks', 'install', 'jira', ...publicUrl],
      ['status'],
      ['tasks', 'list', '--timeout', '1s'],
      ['plan'],
      ['quota'],
      ['held', 'list'],
      ['connections', 'rebind', 'github'],
      ['backfill', 'gitlab', '--stop'],
      ['prs', 'list', '--timeout', '1s'],
      ['keys', 'list', '--timeout', '1s'],
    ].map((args) => run(...args)),
  );
  for (const path of ['/', '/metrics', '/status.json']) await look(path);
  made['token of daemon.json'] = (
    JSON.parse(readFileSync(join(data, 'daemon.json'), 'utf8')) as { token: string }
  ).token;
  await keepFiles('running');
  if (store === undefined) await backUp('worksync.db');
  const { stdout, stderr } = await daemon.end();
  outputs.set('output of the daemon', Buffer.from(`${stdout}\n${stderr}`));
  // And without a daemon, where a command asks the vendors itself.
  await run('check', ...publicUrl);
  await run('hooks', 'status', ...publicUrl);
  writeWrongConfiguration();
  await run('check', '--config', wrong);
  await run('run', '--config', wrong, '--port', '0');
  await run('once', '--timeout', '5s');
  await keepFiles('last');
});

afterAll(async () => {
  daemon?.child.kill('SIGKILL');
  await new Promise((resolve) => server.close(resolve));
});

describe('what vendors repeat', () => {
  it('is every credential that there is', () => {
    expect(names).toEqual(expect.arrayContaining(connectors.map(({ id }) => (id === 'azure-boards' ? 'azure' : id))));
    expect([...asked.keys()].toSorted()).toEqual([...names, 'workspace'].toSorted());
    const credentials = Object.entries(canaries).filter(([name]) => !/WEBHOOK_SECRET$|^LITERAL$/.test(name));
    const all = [...asked.values()].flat().join('\n');
    const sent = piecesOf(credentials)(Buffer.from(all));
    for (const [name] of credentials) expect([name, sent.has(name)]).toEqual([name, true]);
    expect(all).toContain(INSTALLATION_TOKEN);
    const renewed = [...given].filter(([name, value]) => name.startsWith('access') && all.includes(value));
    expect(new Set(renewed.map(([name]) => name.split(' of ')[1]))).toEqual(new Set(['jira-app', 'linear-app']));
    // Each was answered in several of the ways.
    for (const name of names) expect([name, (asked.get(name)?.length ?? 0) > 1]).toEqual([name, true]);
  });

  it('was found in what they said, and replaced', () => {
    const marked = [...outputs].filter(([, bytes]) => bytes.includes('[secret]')).map(([where]) => where);
    const places = ON_POSTGRES
      ? ['last rows of requests', 'last pages of requests']
      : ['last file worksync.db', 'backup of worksync.db'];
    expect(marked).toEqual(expect.arrayContaining(['output of the daemon', ...places]));
    const cut = [...outputs].filter(([, bytes]) => bytes.includes(PADDING)).map(([where]) => where);
    expect(cut.length).toBeGreaterThan(0);
  });

  it.runIf(!ON_POSTGRES)(
    'is nowhere: no file, no output, no page, no metric holds a piece of one [A5] [A20]',
    findNothing,
  );

  it.runIf(ON_POSTGRES)(
    'is nowhere over PostgreSQL either: no row, no page of its files, no output holds a piece of one [A20]',
    findNothing,
  );
});

function findNothing(): void {
  const lines = PRIVATE_KEY.split('\n').filter((line) => line.length > 20 && !line.startsWith('-----'));
  const { WORKSYNC_TOKENS: _, ...single } = doors;
  const tokens = { 'token of WORKSYNC_TOKENS': limitedToken, INSTALLATION_TOKEN: INSTALLATION_PART };
  const own = { ...single, ...made, ...tokens, ...(ON_POSTGRES && { 'password of the store': storePassword }) };
  const all = { ...parts, ...own, ...Object.fromEntries(given) };
  const secrets = [...Object.entries(all), ...lines.map((line, at) => [`GITHUB_KEY, line ${at + 1}`, line] as const)];
  const look = piecesOf(secrets);
  const found = [...outputs].flatMap(([where, bytes]) =>
    [...look(bytes)]
      .filter(([name]) => !mayStand(name, where))
      .map(([name, piece]) => `${name} in ${where}, such as ${piece}`),
  );
  expect(outputs.size).toBeGreaterThan(60);
  expect(secrets.length).toBeGreaterThan(50);
  const database = ON_POSTGRES ? ['running rows of inbox', 'running pages of inbox'] : ['running file worksync.db-wal'];
  expect([...outputs.keys()]).toEqual(expect.arrayContaining(['running file daemon.json', ...database]));
  expect(Object.keys(made).length).toBe(5);
  expect(found).toEqual([]);
}
