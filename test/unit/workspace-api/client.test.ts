import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { UNKNOWN_GRACE, windowOf } from '../../../src/model/windows.ts';
import { createPacing } from '../../../src/workspace-api/client/client.ts';
import { type ApiOverrides, apiOverrides, ROUTES } from '../../../src/workspace-api/contract.ts';
import {
  type ApiRequest,
  type ApiResponse,
  createWorkspaceClient,
  unwrap,
} from '../../../src/workspace-api/typed-client.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';

const TASK = { taskId: 'tsk_1', key: 'BUG-1', title: 'T', status: 'open' };

/** A client whose every request gets the answer given; `sent` holds the requests. */
function clientOf(answer: Partial<ApiResponse> & { json?: unknown }, api?: ApiOverrides, workspaceId = 'ws_1') {
  const sent: { request: ApiRequest; context: string }[] = [];
  const client = createWorkspaceClient<string>({
    workspaceId,
    api,
    send: async (request, context) => {
      sent.push({ request, context });
      const body = answer.body ?? Buffer.from(answer.json === undefined ? '' : JSON.stringify(answer.json));
      return { status: answer.status ?? 200, headers: answer.headers ?? {}, body };
    },
  });
  return { client, sent };
}

async function failureOf(answer: Partial<ApiResponse> & { json?: unknown }): Promise<SyncError> {
  const { client } = clientOf(answer);
  return client.getTask({ taskId: 'tsk_1' }, '').then(
    () => expect.unreachable('the call succeeded'),
    (error: unknown) => error as SyncError,
  );
}

describe('requests', () => {
  it('changes a task as it was read: by the route and method of the server, with its `ETag`', async () => {
    const written = { ...TASK, status: 'Doing', custom: [1] };
    const path = '/workspaces/{workspaceId}/items/{taskId}';
    const api = apiOverrides.parse({ taskUpdate: 'fields', routes: { updateTask: { method: 'PATCH', path } } });
    const { client, sent } = clientOf({ json: { task: written }, headers: { etag: '"7"' } }, api);
    const { headers, raw, body } = await client.getTask({ taskId: 'tsk_1' }, '');
    expect([headers['etag'], raw, body.status]).toEqual(['"7"', written, 'Doing']);
    await client.updateTask({ taskId: 'tsk_1', body: { status: 'review' }, ifMatch: '"7"' }, '');
    await client.updateTask({ taskId: 'tsk_1', body: { status: 'review' } }, '');
    const request = { method: 'PATCH', path: '/workspaces/ws_1/items/tsk_1', body: { status: 'review' } };
    expect(sent.slice(1).map((each) => each.request)).toEqual([
      { ...request, headers: { accept: 'application/json', 'if-match': '"7"' }, route: 'updateTask' },
      { ...request, headers: { accept: 'application/json' }, route: 'updateTask' },
    ]);
  });

  it('never lets an id leave its segment: refused before anything is sent [A6]', async () => {
    const odd = fc.oneof(
      fc.string(),
      fc.constantFrom('.', '..', '%2e%2e', 'a/b', 'a\\b', '?x', '#x', 'a%2fb', '', 'x'.repeat(65), 'ü', 'a\n'),
    );
    await fc.assert(
      fc.asyncProperty(odd, odd, async (taskId, workItemId) => {
        const { client, sent } = clientOf({ status: 204 });
        const outcome = await client.removeWorkItem({ taskId, workItemId }, '').catch((error: SyncError) => error.code);
        const sound = [taskId, workItemId].every((id) => /^[A-Za-z0-9_-]{1,64}$/.test(id));
        expect(outcome === 'refused').toBe(!sound);
        expect(sent.map(({ request }) => request.path)).toEqual(
          sound ? [`/tasks/${taskId}/work-items/${workItemId}`] : [],
        );
      }),
    );
  });

  it('refuses a workspace id that is none', async () => {
    const { client, sent } = clientOf({ json: TASK }, undefined, '../../other');
    await expect(client.getTask({ taskId: 'tsk_1' }, '')).rejects.toMatchObject({ code: 'refused' });
    expect(sent).toEqual([]);
  });
});

describe('answers', () => {
  it('keeps unknown fields, takes unknown enum values, reads absent optional fields as null and []', async () => {
    const { client } = clientOf({ json: { ...TASK, status: 'on_the_moon', priority: 'p0', extra: { a: 1 } } });
    const { body, status } = await client.getTask({ taskId: 'tsk_1' }, '');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: 'on_the_moon',
      priority: 'p0',
      extra: { a: 1 },
      labels: [],
      completedAt: null,
    });
  });

  it('gives a task without a key its id as key, and a 204 no body', async () => {
    const { client } = clientOf({ json: { ...TASK, key: null } });
    expect((await client.getTask({ taskId: 'tsk_1' }, '')).body.key).toBe('tsk_1');
    const gone = clientOf({ status: 204 }).client;
    expect((await gone.removeWorkItem({ taskId: 't', workItemId: 'w' }, '')).body).toBeUndefined();
  });

  it.each([
    ['no JSON', { body: Buffer.from('<html>') }],
    ['a field missing', { json: { ...TASK, taskId: undefined } }],
    ['an id of another type', { json: { ...TASK, taskId: {} } }],
  ])('answer_malformed for %s', async (_what, answer) => {
    expect(await failureOf(answer)).toMatchObject({ code: 'answer_malformed' });
  });
});

describe('failures', () => {
  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [429, 'rate_limited'],
    [503, 'server_failed'],
    [507, 'workspace_full'],
  ])('%i is %s, with the errorCode of the server', async (status, code) => {
    const json = { code: status, message: 'why', errorCode: 'some_code' };
    expect(await failureOf({ status, json })).toMatchObject({ code, status, errorCode: 'some_code' });
    const html = await failureOf({ status, body: Buffer.from('<html>') });
    expect(html).toMatchObject({ code, status, errorCode: undefined });
  });

  it.each([
    ['errorCode', { errorCode: 'any' }, true],
    ['message and the status as text', { code: '404', message: 'why' }, true],
    ['message alone, as gateways answer', { message: 'no route' }, false],
    ['code alone', { code: 404 }, false],
    ['another code', { code: 5, message: 'why' }, false],
    ['an empty errorCode', { errorCode: '' }, false],
  ])('an answer with %s is the own word of the workspace: %j %s', async (_what, json, own) => {
    expect(await failureOf({ status: 404, json })).toMatchObject({ own, status: 404, code: 'not_found' });
  });

  it('a known errorCode decides before the status, except for 401 and 429', async () => {
    const json = { errorCode: 'not_found' };
    expect(await failureOf({ status: 400, json })).toMatchObject({ code: 'not_found', status: 404 });
    expect(await failureOf({ status: 401, json })).toMatchObject({ code: 'unauthorized', status: 401 });
    expect(await failureOf({ status: 429, json })).toMatchObject({ code: 'rate_limited', status: 429 });
  });

  it.each([
    ['Retry-After', { 'retry-after': '7' }, 'whatever', 7_000],
    ['the message', {}, 'standard rate limit exceeded, retry in 12 seconds', 12_000],
    ['at least 1 s', { 'retry-after': '0' }, '', 1_000],
    ['at most 900 s', {}, 'retry in 86400 seconds', 900_000],
    ['no hint', {}, 'slow down', undefined],
  ])('429: the delay from %s; no other status has one', async (_what, given, message, retryAfter) => {
    const headers = given as Record<string, string>;
    const json = { message, errorCode: 'rate_limit_exceeded' };
    expect(await failureOf({ status: 429, headers, json })).toMatchObject({ code: 'rate_limited', retryAfter });
    const other = await failureOf({ status: 400, headers, json: { message, errorCode: 'bad_request' } });
    expect(other).toMatchObject({ code: 'refused', retryAfter: undefined });
  });
});

describe('overrides', () => {
  it.each([
    [{ routes: { unheard: {} } }],
    [{ routes: { getTask: { path: '/tasks/{other}' } } }],
    [{ routes: { getTask: { path: '//evil.example/{taskId}' } } }],
    [{ routes: { getTask: { path: '/../{taskId}' } } }],
    [{ routes: { getTask: { path: '/x?y={taskId}' } } }],
    [{ routes: { getTask: { method: 'TRACE' } } }],
    [{ routes: { updateTask: { method: 'DELETE' } } }],
    [{ versionHeader: 'X Bad' }],
  ])('%j is refused', (api) => {
    expect(apiOverrides.safeParse(api).success).toBe(false);
  });
});

describe('the envelope of an answer', () => {
  const TASKS = [{ taskId: 't1' }];

  describe('a list', () => {
    it.each<[content: object, page: object]>([
      [{ nextCursor: null }, { nextCursor: null, isLast: true }],
      [{ hasMore: false }, { nextCursor: null, isLast: true }],
      [{ has_more: true }, { isLast: false }],
      [{ next_cursor: 7 }, { nextCursor: '7', isLast: false }],
      [
        { nextCursor: null, next: 'https://api.example/tasks?cursor=a%20b' },
        { nextCursor: 'a b', isLast: false },
      ],
      [{ next: '/tasks?limit=5&cursor=c' }, { nextCursor: 'c', isLast: false }],
      [{ next: { page: 2 } }, { isLast: false }],
    ])('with %j goes on as %j', (content, page) => {
      const { tasks, nextCursor, isLast } = unwrap(ROUTES.listTasks, { tasks: TASKS, ...content }) as typeof page & {
        tasks: unknown;
        nextCursor?: unknown;
        isLast?: unknown;
      };
      expect({ tasks, nextCursor, isLast }).toEqual({ tasks: TASKS, nextCursor: undefined, ...page });
    });
  });

  describe('a single resource', () => {
    it.each<[what: string, content: unknown, expected: unknown]>([
      ['bare', { taskId: 't1' }, { taskId: 't1' }],
      ['under its name', { task: { taskId: 't1' } }, { taskId: 't1' }],
      ['bare, with a field of that name', { taskId: 't1', task: { a: 1 } }, { taskId: 't1', task: { a: 1 } }],
      ['that is none', [1], [1]],
    ])('%s', (_what, content, expected) => {
      expect(unwrap(ROUTES.getTask, content)).toEqual(expected);
    });
  });
});

const LONG = 900_000;
const BURST = 60_000;

function start() {
  const clock = createTravellingClock();
  const pacing = createPacing(clock, [windowOf(5, LONG), windowOf(2, BURST)]);
  const begun: { readonly name: number; readonly at: number }[] = [];
  /** @param takes milliseconds until the answer */
  const send = (name: number, takes = 0, signal?: AbortSignal) =>
    pacing.through(async () => {
      begun.push({ name, at: clock.monotonic() });
      if (takes > 0) await new Promise<void>((resolve) => void clock.after(takes, resolve));
      return name;
    }, signal);
  return { clock, pacing, begun, send, names: () => begun.map(({ name }) => name) };
}

describe('the pace of a client', () => {
  it('counts a slot from the end of a request, and while its answer is awaited', async () => {
    const { clock, begun, send } = start();
    const first = [send(1, 100_000), send(2, 100_000), send(3)];
    await clock.advance(99_999);
    expect(begun.length).toBe(2);
    await clock.until(() => begun.length === 3);
    expect(begun[2]?.at).toBeGreaterThanOrEqual(100_000 + BURST);
    await Promise.all(first);
  });

  it('gives the slot back where nothing was sent, and counts a lost answer longer', async () => {
    const { clock, pacing, begun, send } = start();
    const failing = (code: 'unreachable' | 'outcome_unknown') =>
      pacing.through(() => Promise.reject(new SyncError(code, 'no answer'))).catch((error: SyncError) => error.code);
    for (let n = 0; n < 10; n++) expect(await failing('unreachable')).toBe('unreachable');
    expect([await failing('outcome_unknown'), await failing('outcome_unknown')]).toHaveLength(2);
    void send(1);
    await clock.until(() => begun.length === 1);
    expect(begun[0]?.at).toBeGreaterThan(BURST + UNKNOWN_GRACE);
  });

  it('lets a call that gave up go at once, and those behind it take its place', async () => {
    const { clock, send, names } = start();
    await Promise.all([send(1), send(2)]);
    const [head, middle] = [new AbortController(), new AbortController()];
    const waiting = [send(3, 0, head.signal), send(4, 0, middle.signal), send(5)];
    middle.abort();
    await expect(waiting[1]).rejects.toMatchObject({ code: 'aborted' });
    head.abort();
    await expect(waiting[0]).rejects.toMatchObject({ code: 'aborted' });
    await expect(send(6, 0, head.signal)).rejects.toMatchObject({ code: 'aborted' });
    await clock.until(() => names().length === 3);
    expect(names()).toEqual([1, 2, 5]);
  });
});
