import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createHttpClient } from '../../src/platform/http/http-client.ts';
import { createSend, createWorkspaceClient } from '../../src/workspace-api/typed-client.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { drawn } from '../support/harness/depth.ts';
import { dumpStore } from '../support/rows/filled-store.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const UNLIMITED: WorldOptions = {
  quota: { requests: 0, burst: 0 },
  config: { quota: { requests: 100_000, burst: 100_000, share: 1 } },
};
const TASKS = '/workspaces/current/tasks';
const BUGS = '/workspaces/current/bugs';

let world: World;
/** A task that the daemon knows. */
let taskId: string;
/** An API key of the workspace that the daemon has never seen. */
let key: { readonly id: string; readonly secret: string };

async function open(options: WorldOptions = UNLIMITED): Promise<void> {
  world = await createWorld(options);
  // Until the daemon has read the workspace: what it asks from then on is told apart by `asked`.
  await world.until(() => world.weather.arrivals.length >= 2);
  await world.settled();
  const { secret } = await token();
  taskId = ((await ask(BUGS, { method: 'POST', secret, body: { title: 'It breaks' } })).body as { taskId: string })
    .taskId;
  await begin();
}

/** Nothing is cached any more, and nobody has tried a wrong key lately. */
async function begin(): Promise<void> {
  await world.clock.advance(5 * MINUTE);
  await world.settled();
  // A workspace has 20 keys at most.
  if (key !== undefined) await world.people.revokeApiKey({ apiKeyId: key.id }, {}).catch(() => undefined);
  key = await newKey();
  world.weather.asked();
}

async function newKey() {
  const { apiKeyId, secret } = (await world.people.createApiKey({ body: { description: 'a job' } }, {})).body;
  return { id: apiKeyId, secret };
}

const asked = () => world.weather.asked();

interface Asking {
  readonly method?: string;
  readonly secret?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

async function ask(path: string, { method = 'GET', secret = key.secret, headers, body }: Asking = {}) {
  const answer = await fetch(`${world.daemon().address}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${secret}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: (text === '' ? null : JSON.parse(text)) as never };
}

/** Once answered, the key is known. */
async function becomeKnown(): Promise<void> {
  expect((await ask('/workspaces/current/documents')).status).toBe(200);
  asked();
}

async function token(): Promise<{ id: string; secret: string }> {
  return world.partition().upstream.tokens.create('for a test');
}

async function whileTimePasses<Result>(work: Promise<Result>): Promise<Result> {
  let isDone = false;
  const watched = work.finally(() => {
    isDone = true;
  });
  await world.until(() => isDone);
  return watched;
}

const SHAPE = { code: expect.any(Number), message: expect.any(String), errorCode: expect.any(String) };
const titles = async () => ((await ask(TASKS)).body as { tasks: { title: string }[] }).tasks.map(({ title }) => title);

describe('with the quota of the workspace unused', () => {
  beforeAll(() => open());
  beforeEach(begin);
  afterEach(() => world.weather.clear());
  afterAll(() => world.close());

  describe('any client', () => {
    it('works unchanged through the gateway, and gets the same answers as without it', async () => {
      const http = createHttpClient();
      const send = createSend({ http, baseUrl: `${world.daemon().address}/api/v1`, apiKey: () => key.secret });
      const client = createWorkspaceClient<object>({ send, workspaceId: 'current' });
      const { body: bug } = await client.createBug({ body: { title: 'Through the gateway' } }, {});
      expect(bug).toMatchObject({ key: expect.stringMatching(/^BUG-/), title: 'Through the gateway' });
      await client.addWorkItem({ taskId: bug.taskId, body: { url: 'https://example.com/1' } }, {});
      expect((await client.listWorkItems({ taskId: bug.taskId }, {})).body.workItems).toHaveLength(1);
      await expect(client.getTask({ taskId: 'tsk_none' }, {})).rejects.toMatchObject({
        code: 'not_found',
        status: 404,
      });
      await expect(client.createBug({ body: { title: '' } }, {})).rejects.toMatchObject({ status: 400 });
      await http.close();
      const direct = await world.people.listTasks({ query: { all: true } }, {});
      const through = await ask(`${TASKS}?all=true`);
      // The client adds whether it is the last page.
      const { isLast: _, ...body } = direct.body;
      expect(through.body).toEqual(body);
      for (const name of ['etag', 'content-type']) expect(through.headers.get(name)).toBe(direct.headers[name]);
    });
  });

  describe('a cached read', () => {
    it('says its age, and costs nothing while it is fresh', async () => {
      expect((await ask(TASKS)).headers.get('age')).toBe('0');
      expect(asked()).toHaveLength(1);
      await world.clock.advance(9_500);
      const again = await ask(TASKS);
      expect(again.headers.get('age')).toBe('9');
      expect(again.headers.get('cache-control')).toBe('private, no-cache');
      expect(asked()).toEqual([]);
      await world.clock.advance(6 * SECOND);
      expect((await ask(TASKS)).headers.get('age')).toBe('0');
      expect(asked()).toHaveLength(1);
    });

    it('is 304 for a caller who has it', async () => {
      const first = await ask(TASKS);
      const etag = first.headers.get('etag') ?? '';
      for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        const { status, body, headers } = await ask(TASKS, { headers: { 'if-none-match': condition } });
        expect([status, body, headers.get('etag')]).toEqual([304, null, etag]);
      }
      expect((await ask(TASKS, { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
      expect(asked()).toHaveLength(1);
      await world.clock.advance(20 * SECOND);
      expect((await ask(TASKS, { headers: { 'if-none-match': etag } })).status).toBe(304);
      expect((await ask(TASKS)).body).toEqual(first.body);
      expect(asked()).toHaveLength(1);
    });

    it('ends with a write through the gateway, by whomever, with one of the daemon itself, and with a command', async () => {
      await becomeKnown();
      expect(await titles()).toContain('It breaks');
      const { secret } = await newKey();
      const body = { title: 'It breaks badly' };
      expect((await ask(`${TASKS}/${taskId}`, { method: 'PUT', secret, body })).status).toBe(200);
      expect(await titles()).toContain('It breaks badly');
      await world.partition().client.createBug({ body: { title: 'By a command' } }, { lane: 'interactive' });
      expect(await titles()).toContain('By a command');

      const records = '/workspaces/current/pull-requests';
      const count = async () => ((await ask(records)).body as { pullRequests: unknown[] }).pullRequests.length;
      const held = await count();
      await world.pull({ number: 77 });
      await world.settled();
      expect(await count()).toBe(held + 1);
    });
  });

  describe('a cached answer goes only to', () => {
    it('a gateway token, until it is revoked', async () => {
      const { id, secret } = await token();
      expect((await ask(TASKS, { secret })).status).toBe(200);
      expect((await ask(TASKS, { secret })).headers.get('age')).toBe('0');
      expect(asked()).toHaveLength(1);
      expect(await world.partition().upstream.tokens.revoke(id)).toBe(true);
      const refused = await ask(TASKS, { secret });
      expect([refused.status, refused.body]).toEqual([
        401,
        { code: 401, message: 'missing or invalid credentials', errorCode: 'unauthorized' },
      ]);
      expect(asked()).toEqual([]);
    });

    it('nobody whose key is of another workspace of the same server', async () => {
      const service = world.service();
      const workspaceId = await service.addWorkspace();
      const userId = await service.addUser({ workspaceId, name: 'Foreigner', role: 'owner' });
      const { secret } = await service.mintKey({ workspaceId, userId, description: 'foreign' });
      await ask(TASKS);
      const foreign = await ask(TASKS, { secret });
      expect(foreign).toMatchObject({ status: 403, body: { errorCode: 'workspace_forbidden' } });
      for (const path of [TASKS, `/workspaces/${workspaceId}/tasks`, '/tasks/tsk_x/work-items']) {
        expect((await ask(path, { secret })).status).toBeGreaterThanOrEqual(403);
      }
      await ask(BUGS, { secret, method: 'POST', body: { title: 'Theirs' } });
      await world.settled();
      expect(await titles()).not.toContain('Theirs');
      const stored = await world.partition().store.query.selectFrom('tasks').select('fields').execute();
      expect(stored.filter(({ fields }) => fields?.includes('Theirs'))).toEqual([]);
    });
  });

  describe('credentials that nobody knows', () => {
    it('cannot drain the quota: an address has five tries, also at the same time [A13]', async () => {
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, index) => ask(TASKS, { secret: `wsk_made_up_${index}` })),
      );
      const counts = Map.groupBy(answers, ({ status }) => status);
      expect(new Set(counts.keys())).toEqual(new Set([401, 429]));
      expect(counts.get(401)).toHaveLength(5);
      expect(asked()).toHaveLength(5);
      expect(answers.at(-1)).toMatchObject({ status: 429, body: SHAPE });
      expect(answers.at(-1)?.headers.get('retry-after')).toBe('60');
      // Known credentials are not refused with them.
      expect((await ask(TASKS, { secret: (await token()).secret })).status).toBe(200);
      await world.clock.advance(MINUTE);
      expect((await ask(TASKS)).status).toBe(200);
    });
  });

  describe('what passes through is stored', () => {
    it('a new bug is linkable without a read', async () => {
      const bug = (await ask(BUGS, { method: 'POST', body: { title: 'Another' } })).body as { key: string };
      await world.pull({ number: 78 });
      await world.settled();
      await world.clock.advance(SECOND);
      asked();
      await world.pull({ number: 78, title: `${bug.key}: fix` });
      await world.settled();
      // The title is a change of the record; the link is one request.
      expect(asked().sort()).toEqual([
        expect.stringMatching(/^POST \/tasks\/[^/]+\/work-items$/),
        expect.stringMatching(/^POST .*\/pull-request-records$/),
      ]);
    });
  });

  describe('paths', () => {
    const reach = async (target: string, method = 'GET') => {
      const { hostname, port } = new URL(world.daemon().address);
      const request =
        `${method} ${target} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n` +
        `Authorization: Bearer ${key.secret}\r\nConnection: close\r\n\r\n`;
      return new Promise<string>((resolve, reject) => {
        let text = '';
        const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(request));
        socket.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        socket.on('error', reject).on('close', () => resolve(text));
      });
    };
    const bodyOf = (answer: string) => JSON.parse(/\r\n\r\n(.*)$/s.exec(answer)?.[1] || 'null');

    it('whatever they hold, go to the workspace as they stand or nowhere [A6]', async () => {
      await becomeKnown();
      const piece = fc.constantFrom(
        ...'.. . %2e %2E%2e %2f %5c \\ / // @ : ; ? # % %00 %0d%0a http: workspaces current tasks a ~ < [ | %c3%a9 %25'.split(
          ' ',
        ),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async (pieces) => {
          const target = `/api/v1/${pieces.join('')}`.replaceAll(/[^\x21-\x7e]/g, '');
          const answer = await reach(target);
          const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
          const told = bodyOf(answer);
          expect(status < 400 ? SHAPE : told).toEqual(status < 400 ? SHAPE : { ...SHAPE, code: status });
          const id = await world.partition().upstream.workspaceId();
          for (const line of asked()) {
            const [path = ''] = target.slice('/api/v1'.length).split('?');
            const sent = line.slice('GET '.length).split('?')[0];
            expect(sent).toBe(path.replace('/workspaces/current', `/workspaces/${id}`));
            expect(path).not.toMatch(/\/\.{1,2}(\/|$)|%2e|%2f|%5c|\\|#|\/\//i);
          }
        }),
        { numRuns: drawn(150) },
      );
    });
  });

  describe('credentials', () => {
    it('stand in no row and in no file of the data folder [A20]', async () => {
      const { secret } = await token();
      await ask(TASKS);
      await ask(BUGS, { method: 'POST', body: { title: 'x' } });
      await ask(TASKS, { secret });
      await ask(TASKS, { secret: 'wsk_canary_that_nobody_knows' });
      await world.settled();
      const rows = Object.values(await dumpStore(world.installation().query)).flat();
      const cells = rows.flatMap((row) => Object.values(row) as unknown[]);
      const stored = cells.map((cell) => (Buffer.isBuffer(cell) ? cell.toString('latin1') : String(cell))).join('\n');
      expect(stored).toContain('read-tasks');
      const files = readdirSync(world.dataFolder).map((name) => readFileSync(join(world.dataFolder, name)));
      for (const canary of [key.secret, secret, 'wsk_canary_that_nobody_knows']) {
        expect(stored).not.toContain(canary);
        for (const content of files) expect(content.includes(canary)).toBe(false);
      }
    });
  });
});

describe('the quota', () => {
  afterEach(() => world.close());

  const QUOTA = { requests: 30, window: 15 * MINUTE, burst: 5, burstWindow: MINUTE };

  /** Until the short window has no room. */
  async function useUp(secret: string): Promise<void> {
    let n = 0;
    while (world.partition().throttle.snapshot().burst.used < QUOTA.burst) {
      expect((await ask(`${TASKS}?limit=${++n}`, { secret })).status).toBe(200);
    }
  }

  it('is waited for as long as configured, then 429 comes with a delay after which it works', async () => {
    await open({ quota: QUOTA });
    const { secret } = await token();
    await useUp(secret);
    const began = world.clock.elapsed();
    const refused = await whileTimePasses(ask(`${TASKS}?limit=90`, { secret }));
    const after = world.clock.elapsed() - began;
    expect(after).toBeGreaterThanOrEqual(20 * SECOND);
    expect(after).toBeLessThan(30 * SECOND);
    const seconds = Number(refused.headers.get('retry-after'));
    const message = `standard rate limit exceeded, retry in ${seconds} seconds`;
    expect(refused).toMatchObject({ status: 429, body: { code: 429, message, errorCode: 'rate_limit_exceeded' } });
    expect(seconds).toBeLessThanOrEqual(45);
    await world.clock.advance(seconds * SECOND);
    asked();
    expect((await ask(`${TASKS}?limit=90`, { secret })).status).toBe(200);
    expect(asked()).toHaveLength(1);
    // It is waited for where a slot comes in time.
    await useUp(secret);
    await world.clock.advance(45 * SECOND);
    expect((await whileTimePasses(ask(`${TASKS}?limit=91`, { secret }))).status).toBe(200);
  });
});

describe('an answer that is lost', () => {
  beforeEach(() => open());
  afterEach(() => world.close());

  it('of a write is 504: nothing is repeated, and the entity is read again', async () => {
    await becomeKnown();
    let posts = 0;
    world.weather.turn({
      after: ({ method }) => {
        if (method === 'POST') posts++;
        return method === 'POST' ? 'cut' : undefined;
      },
    });
    expect(await ask(BUGS, { method: 'POST', body: { title: 'Lost' } })).toMatchObject({
      status: 504,
      body: { code: 504, errorCode: 'outcome_unknown', message: expect.any(String) },
    });
    await world.settled();
    expect(posts).toBe(1);
    expect(asked()).toEqual([
      expect.stringContaining('POST'),
      expect.stringMatching(/^GET \/workspaces\/[^/]+\/tasks\?all=true$/),
    ]);
    world.weather.clear();
    await world.pull({ title: 'BUG-2: fix' });
    await world.settled();
    expect((await ask(TASKS)).body).toMatchObject({ tasks: [{ key: 'BUG-2' }, { key: 'BUG-1' }] });
    expect(asked().filter((line) => line.endsWith('/work-items'))).toHaveLength(1);
  });

  it('of a workspace that is not there is 502, for a write too: it was certainly not sent', async () => {
    const plug = await world.unplugService();
    expect((await ask(TASKS)).status).toBe(502);
    expect((await ask(BUGS, { method: 'POST', body: { title: 'x' } })).status).toBe(502);
    await plug();
  });
});
