import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it, vi } from 'vitest';
import type { Connector } from '../../../../src/connectors/connector.ts';
import { writeJson } from '../../../../src/connectors/kit/payload.ts';
import { connectors } from '../../../../src/connectors/registry.ts';
import type { HttpClient } from '../../../../src/platform/http/http-client.ts';
import { LARGE } from '../../../../src/platform/lib/concurrency.ts';
import { MEBIBYTE } from '../../../../src/platform/lib/quantities.ts';
import { keep, type Shape } from '../../../../src/platform/lib/shape.ts';
import { packBody } from '../../../../src/store/deliveries/inbox.ts';
import {
  type Converter,
  createConverter,
  createInlineConverter,
  parseInWorker,
  readLargeBy,
} from '../../../../src/sync/worker/converter.ts';
import { ROUTES } from '../../../../src/workspace-api/contract.ts';
import { PROFILES } from '../../../contracts/connectors/index.ts';

/** Runs tasks in a real thread; its results must equal those of the main thread. */
const converter = createConverter();
afterAll(() => converter.close());

describe.each(PROFILES)('deliveries of $id', ({ id, options: given, fixtures }) => {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const options = connector.options.parse(given);
  const bodyOf = (file: string) =>
    readFileSync(new URL(`../../../../src/connectors/${id}/fixtures/${file}.json`, import.meta.url));

  it.each(fixtures.slice(0, 6))('$file', async ({ file, source, event }) => {
    const body = bodyOf(file);
    const task = { connector: id, options, source, event, body: packBody(body) };
    expect((await converter.translate(task)).translation).toEqual(
      connector.translate({ source, event, body }, options),
    );
  });
});

it('uses the ids of names, and returns the names in the body', async () => {
  const github = connectors.find(({ id }) => id === 'github') as Connector<unknown>;
  const options = github.options.parse({ repositories: ['acme/app'] });
  const bytes = readFileSync(
    new URL('../../../../src/connectors/github/fixtures/pull_request.opened.json', import.meta.url),
  );
  const { repository } = JSON.parse(bytes.toString()) as { repository: { id: number; full_name: string } };
  const body = packBody(bytes);
  const task = { connector: 'github', options, source: 'webhook' as const, event: 'pull_request', body };
  const { reported } = await converter.translate({ ...task, names: [] });
  expect(reported).toMatchObject([{ id: String(repository.id), name: repository.full_name }]);
});

it('splits a page into pages of one element, each with a hash of its content', async () => {
  const page = { total: 2, data: { nodes: [{ id: 1, body: 'a' }, { id: 2 }], labels: ['x', 'y', 'z'] } };
  const parts = await converter.parts({ body: packBody(Buffer.from(JSON.stringify(page))) });
  expect(parts.map(({ body }) => JSON.parse(Buffer.from(body).toString()) as unknown)).toEqual([
    { ...page, data: { ...page.data, nodes: [{ id: 1, body: 'a' }] } },
    { ...page, data: { ...page.data, nodes: [{ id: 2 }] } },
  ]);
  expect(new Set(parts.map(({ content }) => content)).size).toBe(2);
  expect(await converter.parts({ body: packBody(Buffer.from('"no page"')) })).toEqual([]);
});

describe('an answer of the workspace of 25 MB', () => {
  const task = {
    taskId: 't',
    key: 'BUG-1',
    title: 'T',
    status: 'open',
    description: 'Some "words" é\n'.repeat(12_000),
  };
  const list = (changed: object = {}) =>
    Buffer.from(JSON.stringify({ tasks: Array.from({ length: 125 }, () => ({ ...task, ...changed })) }));

  it('contains only used fields, and is not parsed on the main thread', async () => {
    const bytes = list();
    expect(bytes.length).toBeGreaterThan(25_000_000);
    const parse = vi.spyOn(JSON, 'parse');
    const check = vi.spyOn(ROUTES.listTasks.response, 'safeParse');
    const content = await readLargeBy(converter)('listTasks', bytes);
    expect([parse.mock.calls, check.mock.calls]).toEqual([[], []]);
    vi.restoreAllMocks();
    const kept = { taskId: 't', key: 'BUG-1', title: 'T', status: 'open', workspaceId: '', source: 'api' };
    const texts = { createdAt: null, updatedAt: null, description: '', reporterUserId: null };
    expect(content).toEqual({ tasks: Array(125).fill({ ...kept, ...texts }), nextCursor: null, isLast: null });
    // The memory was transferred.
    expect(bytes.length).toBe(0);
  });

  it.each([
    ['is no JSON', 'the answer is not JSON', Buffer.concat([list(), Buffer.from(']')])],
    ['is no list', /tasks/, Buffer.from(`{"tasks":"${'x'.repeat(2_000_000)}"}`)],
  ])('that %s is malformed', async (_what, message, bytes) => {
    const answer = converter.answer('listTasks', bytes);
    await expect(answer).rejects.toMatchObject({ code: 'answer_malformed', message: expect.stringMatching(message) });
  });
});

describe('an answer to a request with `keep`', () => {
  const shape: Shape = { id: true, body: true, user: { login: true } };
  const page = Array.from({ length: 40 }, (_, id) => ({
    id,
    body: `${id} "long" é `.repeat(7_000),
    user: { login: 'ada', junk: 'x' },
    junk: [id, { more: 'y'.repeat(500) }],
  }));
  const bytes = Buffer.from(JSON.stringify(page));

  function answering(status: number, body: Buffer) {
    const http: HttpClient = {
      request: async () => ({ status, headers: { etag: '"1"' }, body }),
      close: async () => {},
    };
    return parseInWorker(http, converter);
  }
  const request = { method: 'GET', url: 'http://127.0.0.1/pulls?page=2', target: 'github', keep: shape } as const;

  it('is parsed if it is large, with its texts set apart, and serializes to the same body', async () => {
    expect(bytes.length).toBeGreaterThan(1024 * 1024);
    const { status, headers, body, content } = await answering(200, Buffer.from(bytes)).request(request);
    expect([status, headers, body.length]).toEqual([200, { etag: '"1"' }, 0]);
    expect((content as { body: unknown }[]).every((each) => each.body instanceof Uint8Array)).toBe(true);
    expect(writeJson(keep(content, shape))).toEqual(Buffer.from(JSON.stringify(keep(page, shape))));
  });

  it.each([
    ['is small', 200, Buffer.from('[]'), request],
    ['is no success', 502, bytes, request],
    ['answers a request without `keep`', 200, bytes, { ...request, keep: undefined }],
  ])('is unchanged if it %s', async (_name, status, body, asked) => {
    expect(await answering(status, body).request(asked)).toEqual({ status, headers: { etag: '"1"' }, body });
  });

  it.each([
    ['is no JSON', 'answer_malformed', Buffer.concat([bytes, Buffer.from(']')])],
    ['contains too many values', 'answer_too_large', Buffer.from(`[${'1,'.repeat(2_000_000)}1]`)],
  ])('that %s fails as an answer, and names the request without its query', async (_name, code, body) => {
    await expect(answering(200, body).request(request)).rejects.toMatchObject({
      code,
      status: 200,
      message: expect.stringMatching(/^GET \/pulls: /),
    });
  });
});

describe('the list of a page', () => {
  const nested = (list: unknown, depth: number): unknown => (depth === 0 ? list : { a: nested(list, depth - 1) });

  it.each<[what: string, page: unknown, parts: readonly unknown[]]>([
    ['is the page itself, whatever its elements are', [1, null], [[1], [null]]],
    ['is the first one with an object', { ids: [1, null], nodes: [{}] }, [{ ids: [1, null], nodes: [{}] }]],
    ['may be four levels deep', nested([{}, 1], 4), [nested([{}], 4), nested([1], 4)]],
    ['is not found deeper', nested([{}, 1], 5), []],
  ])('%s', async (_what, page, expected) => {
    const parts = await converter.parts({ body: packBody(Buffer.from(JSON.stringify(page))) });
    expect(parts.map(({ body }) => JSON.parse(Buffer.from(body).toString()) as unknown)).toEqual(expected);
  });
});

describe('the worker', () => {
  const json = Buffer.from('{"taskId":"t","key":"BUG-1","title":"T","status":"open"}');
  const request = { method: 'GET', url: 'http://127.0.0.1/pulls', target: 'github', keep: true } as const;
  const answering = (body: Buffer): HttpClient => ({
    request: async () => ({ status: 200, headers: {}, body }),
    close: async () => {},
  });

  it('copies bytes that share their memory with others', async () => {
    const shared = Buffer.alloc(json.length + 1);
    json.copy(shared);
    expect(await converter.answer('getTask', shared.subarray(0, json.length))).toMatchObject({ key: 'BUG-1' });
    expect(shared.length).toBe(json.length + 1);
  });

  it('fails with `over_budget` if a task takes too long, and performs the next one', async () => {
    const task = { text: '- x\n'.repeat(5_000_000), env: {}, known: new Map() };
    // This size leaves no time.
    await expect(converter.config(task, -3 * MEBIBYTE)).rejects.toMatchObject({ code: 'over_budget' });
    expect(await converter.answer('getTask', Buffer.from(json))).toMatchObject({ key: 'BUG-1' });
  });

  it.each([
    [LARGE, false],
    [LARGE + 1, true],
  ])('parses an answer of %i bytes: %j', async (size, isParsed) => {
    const body = Buffer.from('[]'.padEnd(size));
    const answer = await parseInWorker(answering(body), createInlineConverter([])).request(request);
    expect('content' in answer).toBe(isParsed);
  });

  it.each<[of: string, parse: (inline: Converter) => Promise<unknown>]>([
    ['the workspace', (inline) => readLargeBy(inline)('getTask', json)],
    ['a vendor', (inline) => parseInWorker(answering(json), inline, 0).request(request)],
  ])('lets other work run before the answer of %s is used', async (_of, parse) => {
    let hasRun = false;
    setImmediate(() => {
      hasRun = true;
    });
    await parse(createInlineConverter([]));
    expect(hasRun).toBe(true);
  });
});
