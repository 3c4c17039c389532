import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { refusedRequests } from '../../../src/admin/access/refused.ts';
import { createServer } from '../../../src/platform/http/server.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { createRefusalLog } from '../../../src/web/access/refusal-log.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const SECRET = 'a-very-secret-value';

async function setUp() {
  const statements: string[] = [];
  const onStatement = (statement: string) => statements.push(statement);
  const installation = await openTestInstallation({ file: ':memory:', onStatement });
  onTestFinished(() => installation.close());
  const clock = createTravellingClock();
  const known = (workspace: string, connection?: string) => ({
    workspace: workspace === 'acme',
    connection: workspace === 'acme' && connection === 'github',
  });
  const { scrub } = createScrubber([SECRET]);
  const log = createRefusalLog({ installation, clock, logger: silentLogger }, scrub, known);
  const server = createServer({ trustedProxies: ['127.0.0.1'] });
  onTestFinished(() => server.close());
  log.watch(server);
  server.post('/webhooks/:workspace/:connection', (request, reply) => {
    const status = Number(request.headers['x-answer'] ?? 401);
    return reply.code(status).send(JSON.stringify({ error: CODES[status] }));
  });
  server.get('/api/v1/*', (request, reply) => {
    request.passage = { workspace: 'acme', isAnswered: request.url.includes('answered') };
    const status = Number(request.headers['x-answer'] ?? 401);
    return reply.code(status).send(JSON.stringify({ errorCode: 'Ünusual <b>' }));
  });
  server.get('/elsewhere', (_request, reply) => reply.code(404).send('{}'));
  const post = (url: string, headers: Record<string, string> = {}, from = '203.0.113.7') =>
    server.inject({ method: 'POST', url, headers: { 'x-forwarded-for': from, ...headers }, payload: SECRET });
  const get = (url: string, headers: Record<string, string> = {}) => server.inject({ url, headers });
  const refused = (workspaces: readonly string[] | null = null) =>
    refusedRequests(installation.query, { workspaces, limit: 1_000 });
  return { installation, clock, log, post, get, refused, statements };
}

const CODES: Readonly<Record<number, string>> = { 401: 'signature_mismatch', 404: 'not_found', 405: 'refused' };

test('says what was refused, of whom, why, with which headers, and nothing that is secret', async () => {
  const { log, post, refused, clock } = await setUp();
  const at = clock.now();
  const secrets = {
    authorization: 'Basic x',
    cookie: 'a=b',
    'x-gitlab-token': 't',
    'x-hub-signature-256': 'sha256=12',
  };
  await post(`/webhooks/acme/github?key=${SECRET}`, {
    ...secrets,
    'x-github-event': 'push',
    'x-other': `is ${SECRET}.`,
  });
  await post('/webhooks/acme/github', { 'x-answer': '405' });
  await post(`/webhooks/${SECRET}/x`, { 'x-answer': '404', 'x-long': 'y'.repeat(9_000) });
  await log.flush();
  const rows = await refused();
  expect(rows).toHaveLength(3);
  expect(rows.find(({ code }) => code === 'refused')?.reason).toBe('The address takes POST only.');
  const found = rows.find(({ code }) => code === 'signature_mismatch');
  expect(found).toMatchObject({
    ...{ method: 'POST', path: '/webhooks/acme/github', connection: 'github', status: 401, address: '203.0.113.7' },
    ...{ code: 'signature_mismatch', reason: expect.stringContaining('secret'), count: 1, firstAt: at, lastAt: at },
  });
  const headers = new Map(found?.headers);
  expect(headers.get('x-github-event')).toBe('push');
  expect(headers.get('x-other')).toBe('is [secret].');
  for (const [name, value] of Object.entries(secrets)) expect(headers.get(name)).toBe(`[${value.length} characters]`);
  const lost = rows.find(({ workspace }) => workspace === null);
  expect(lost).toMatchObject({ path: '/webhooks/[secret]/x', connection: null, code: 'not_found' });
  expect(new Map(lost?.headers).get('x-long')).toHaveLength(200);
  expect(JSON.stringify(rows)).not.toContain(SECRET);
  // Requests that lead to no workspace are shown to administrators of all workspaces.
  expect(new Set((await refused(['acme'])).map(({ status }) => status))).toEqual(new Set([401, 405]));
  expect(await refused(['other'])).toEqual([]);
});

test('of the gateway what it refuses itself, and what the workspace says of credential and quota', async () => {
  const { log, get, refused } = await setUp();
  await get('/api/v1/tasks');
  await get('/api/v1/answered', { 'x-answer': '404' });
  await get('/api/v1/answered', { 'x-answer': '403' });
  await get('/api/v1/tasks', { 'x-answer': '200' });
  await get('/elsewhere');
  await log.flush();
  const told = (await refused()).map(({ path, status, code, workspace }) => [path, status, code, workspace].join(' '));
  expect(told.sort()).toEqual(['/api/v1/answered 403 http_403 acme', '/api/v1/tasks 401 http_401 acme']);
});

test('a flood costs one write in three seconds of few rows, and drives out no refusal of a known workspace', async () => {
  const { log, post, refused, clock, statements } = await setUp();
  await post('/webhooks/acme/github');
  await log.flush();
  for (let wave = 0; wave < 12; wave++) {
    statements.length = 0;
    for (let sent = 0; sent < 100; sent++)
      await post(`/webhooks/w${wave}-${sent}/x`, { 'x-answer': '404' }, `198.51.100.${sent}`);
    expect(statements).toEqual([]);
    await clock.advance(3_000);
    await log.flush();
    expect(statements.length).toBeLessThan(60);
  }
  const rows = await refused();
  expect(rows).toHaveLength(500);
  expect(rows.filter(({ workspace }) => workspace === 'acme')).toHaveLength(1);
  expect(rows.find(({ path }) => path === 'many')).toMatchObject({ count: 12 * 50, address: 'many', headers: [] });
});

test('a write that fails leaves no part of it, and later ones are stored', async () => {
  const { installation, log, post, refused } = await setUp();
  const refuse = sql`create trigger refuse before insert on refused_requests when new.status = 413
    begin select raise(abort, 'a fault of the test'); end`;
  await refuse.execute(installation.query);
  for (const status of ['401', '413']) await post('/webhooks/acme/github', { 'x-answer': status });
  await log.flush();
  expect(await refused()).toEqual([]);
  await post('/webhooks/acme/github');
  await log.stop();
  expect((await refused()).map(({ status, count }) => [status, count])).toEqual([[401, 1]]);
});
