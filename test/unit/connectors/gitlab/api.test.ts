import { describe, expect, it } from 'vitest';
import type { PollPosition } from '../../../../src/connectors/connector.ts';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import { courseOf, failure, type Reply } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const position: PollPosition = {
  unit: 'acme/api',
  startedAt: '2026-01-05T09:00:00Z',
  watermark: '2026-01-05T08:00:00Z',
};
const BASE = 'https://gitlab.com/api/v4';
const QUERY = '?state=all&scope=all&order_by=updated_at&sort=desc&per_page=100&updated_after=2026-01-05T07:50:00.000Z';
const LIST = `/projects/acme%2Fapi/merge_requests${QUERY}`;

/** The whole address of each request, and what is answered: an empty list unless told. */
function connectionOf(given: object, course: readonly [expected: string, reply: Reply][]) {
  const turns = course.map(([expected, reply]) => [expected, { body: [], ...reply }] as const);
  return courseOf(gitlab, { projects: ['acme/api'], ...given }, '', turns);
}

describe('requests', () => {
  it.each([
    [{}, BASE],
    [{ host: 'GitLab.example.com' }, 'https://gitlab.example.com/api/v4'],
    [{ host: 'example.com', apiUrl: 'https://example.com/gitlab/api/v4/' }, 'https://example.com/gitlab/api/v4'],
    [{ apiUrl: 'http://127.0.0.1:8080' }, 'http://127.0.0.1:8080'],
  ])('with %j go to %s', async (given, base) => {
    const { connection, requests } = connectionOf(given, [[`GET ${base}${LIST}`, {}]]);
    await connection.poll(position, signal);
    expect(requests[0]?.headers).toEqual({ accept: 'application/json', 'user-agent': 'worksync' });
  });

  it('carry the token', async () => {
    const { connection, requests } = connectionOf({ token: 'glpat-x' }, [[`GET ${BASE}${LIST}`, {}]]);
    await connection.poll(position, signal);
    expect(requests[0]?.headers?.['authorization']).toBe('Bearer glpat-x');
  });

  it('name a project by its number as it is', async () => {
    const { connection } = connectionOf({ projects: [80200] }, [
      [`GET ${BASE}/projects/80200/merge_requests${QUERY}`, {}],
    ]);
    expect(await connection.units(signal)).toEqual(['80200']);
    await connection.poll({ ...position, unit: '80200' }, signal);
  });
});

describe('a project that moved', () => {
  const moved = (location: string, status = 302): Reply => ({
    status,
    headers: { location },
    body: { message: 'Non GET methods are not allowed for moved projects' },
  });
  const byNumber = `${BASE}/projects/80200/merge_requests`;

  it.each([301, 302, 307, 308])('is followed once by its number, status %i', async (status) => {
    const { connection, requests } = connectionOf({ token: 'glpat-x' }, [
      [`GET ${BASE}${LIST}`, moved(`${byNumber}?state=opened`, status)],
      [`GET ${byNumber}${QUERY}`, {}],
    ]);
    expect(await connection.poll(position, signal)).toMatchObject({ outcome: 'page' });
    expect(requests[1]?.headers?.['authorization']).toBe('Bearer glpat-x');
  });

  it('is not followed twice', async () => {
    const { connection } = connectionOf({}, [
      [`GET ${BASE}${LIST}`, moved(byNumber)],
      [`GET ${byNumber}${QUERY}`, moved(byNumber)],
    ]);
    expect((await failure(connection.poll(position, signal)))?.code).toBe('refused');
  });

  it.each([
    'https://evil.example/api/v4/projects/80200/merge_requests',
    'https://gitlab.com.evil.example/api/v4/projects/80200/merge_requests',
    'http://gitlab.com/api/v4/projects/80200/merge_requests',
    '//evil.example/api/v4/projects/80200/merge_requests',
    `${BASE}/user`,
    `${BASE}/projects/80200/variables`,
    `${BASE}/projects/80200/merge_requests/../../../../../user`,
    `${BASE}/projects/acme%2Fother/merge_requests`,
    'https://gitlab.com/users/sign_in',
    '',
  ])('is not followed to %j', async (location) => {
    const { connection, requests } = connectionOf({ token: 'glpat-x' }, [[`GET ${BASE}${LIST}`, moved(location)]]);
    const error = await failure(connection.poll(position, signal));
    expect(error?.code).toBe('refused');
    expect(error?.hint).toContain('configuration');
    expect(requests).toHaveLength(1);
  });
});

describe('refusals', () => {
  const refused = async (reply: Reply) => {
    const refusal: [string, Reply][] =
      reply.status === 403 ? [[`GET ${BASE}/projects/acme%2Fapi`, { status: 403 }]] : [];
    const { connection } = connectionOf({}, [[`GET ${BASE}${LIST}`, reply], ...refusal]);
    return failure(connection.poll(position, signal));
  };
  const date = 'Mon, 05 Jan 2026 12:00:00 GMT';
  const reset = (seconds: number) => String(Date.parse(date) / 1_000 + seconds);

  it.each([
    ['a retry-after', { 'retry-after': '17' }, 17_000],
    ['a retry-after before a reset', { date, 'retry-after': '17', 'ratelimit-reset': reset(240) }, 17_000],
    ["a reset by the provider's clock", { date, 'ratelimit-reset': reset(120) }, 121_000],
    ['a reset long ago', { date, 'ratelimit-reset': '1' }, 60_000],
    ['a reset that is no number', { 'ratelimit-reset': 'soon' }, 60_000],
    ['a retry-after of nothing', { 'retry-after': '0' }, 60_000],
    ['a retry-after in years', { 'retry-after': '99999999' }, 60 * 60_000],
    ['nothing', {}, 60_000],
  ])('with 429 and %s are waited out', async (_, headers, wait) => {
    const error = await refused({ status: 429, headers: headers as Record<string, string>, body: 'Retry later\n' });
    expect(error).toMatchObject({ code: 'rate_limited', retryAfter: wait });
  });

  it('keep a lacking right apart from a limit, and say what GitLab said', async () => {
    const body = { error: 'insufficient_scope', error_description: 'needs more', scope: 'api' };
    const error = await refused({ status: 403, headers: { 'ratelimit-remaining': '0' }, body });
    expect(error?.code).toBe('forbidden');
    expect(error?.retryAfter).toBeUndefined();
    expect(error?.message).toContain('(insufficient_scope)');
  });

  it('say what GitLab says by field', async () => {
    const body = { message: { base: ['is taken', 'is\nlong'] } };
    expect((await refused({ status: 403, body }))?.message).toMatch(/status 403 \(base is taken; base is long\)$/);
  });

  it.each([[{ message: { base: [{}] } }], ['Forbidden'], [null]])('survive the body %j', async (body) => {
    expect((await refused({ status: 403, body }))?.message).toMatch(/status 403$/);
  });
});

describe('fetch', () => {
  const reference = { kind: 'pull_request', key: 'k', locator: { projectId: '80200', iid: '12' } } as const;
  const one = `GET ${BASE}/projects/80200/merge_requests/12`;
  const list = `GET ${BASE}/projects/80200/merge_requests?state=all&scope=all&iids[]=12`;

  it.each([
    ['the list still has it', { body: [{ iid: 12 }] }, 'not_found'],
    ['the list may not be read', { status: 403 }, 'forbidden'],
    ['the list is no list', { body: { message: 'x' } }, 'not_found'],
  ])('calls nothing gone where %s', async (_, reply, code) => {
    const { connection } = connectionOf({}, [
      [one, { status: 404 }],
      [list, reply],
    ]);
    expect((await failure(connection.fetch(reference, signal)))?.code).toBe(code);
  });

  it('says of a gone one when that was seen', async () => {
    const { connection } = connectionOf({}, [
      [one, { status: 404 }],
      [list, { body: [] }],
    ]);
    const { event, body } = await connection.fetch(reference, signal);
    expect(event).toBe('merge_requests.gone');
    expect(JSON.parse(body.toString())).toEqual({ project_id: 80200, iid: 12, seen_at: '2026-01-05T09:00:00.000Z' });
  });

  describe('with commits', () => {
    const found = { iid: 12, project_id: 80200, updated_at: '2026-01-05T08:00:00.000Z' };
    const page = (newest: number, count: number) =>
      Array.from({ length: count }, (_, index) => ({ id: 'a', message: `Step ${newest - index}\n` }));
    const commits = (number: number) => `${one}/commits?per_page=100&page=${number}`;

    it('brings the newest 250 messages, and asks for no further page', async () => {
      const { connection } = connectionOf({ commits: true }, [
        [one, { body: found }],
        [commits(1), { body: page(400, 100), headers: { 'x-next-page': '2' } }],
        [commits(2), { body: page(300, 100), headers: { 'x-next-page': '3' } }],
        [commits(3), { body: page(200, 100), headers: { 'x-next-page': '4' } }],
      ]);
      const { event, body } = await connection.fetch(reference, signal);
      const translation = gitlab.translate({ source: 'fetch', event, body }, gitlab.unrestricted!());
      const messages = Array.from({ length: 250 }, (_, index) => `Step ${400 - index}\n`);
      expect(translation).toMatchObject({ outcome: 'items', items: [{ identifier: '12', commitMessages: messages }] });
    });

    it('asks for none of an issue', async () => {
      const issue = { kind: 'work_item', key: 'k', locator: { projectId: '80200', iid: '12', id: '9' } } as const;
      const { connection } = connectionOf({ commits: true, issues: true }, [
        [`GET ${BASE}/projects/80200/issues/12`, { body: found }],
      ]);
      expect((await connection.fetch(issue, signal)).event).toBe('issues.get');
    });
  });
});

describe('check', () => {
  const self = `GET ${BASE}/personal_access_tokens/self`;
  const project = `GET ${BASE}/projects/acme%2Fapi`;
  const list = `GET ${BASE}/projects/acme%2Fapi/merge_requests?state=all&scope=all&per_page=1`;
  const readable: [string, Reply][] = [
    [project, { body: { path_with_namespace: 'Acme/API', archived: false } }],
    [list, {}],
  ];
  const checked = async (given: object, course: [string, Reply][]) => {
    const { connection } = connectionOf({ ...given }, course);
    const findings = await connection.check(signal);
    return findings;
  };
  const ofToken = async (reply: Reply) => (await checked({ token: 'glpat-x' }, [[self, reply], ...readable]))[0];

  it('says what going without a token costs', async () => {
    expect(await checked({}, readable)).toMatchObject([
      { level: 'warning', subject: 'credential', hint: expect.stringContaining('read_api') },
      { level: 'ok', subject: 'acme/api', message: 'can be read' },
      { level: 'ok', subject: 'rate limit', message: 'none reported' },
    ]);
  });

  it.each([
    [{ name: 'sync', scopes: ['read_api'], expires_at: '2026-12-01' }, 'ok', 'until 2026-12-01'],
    [{ name: 'sync', scopes: ['api'], expires_at: null }, 'ok', 'token "sync"'],
    [{ name: 'sync', scopes: ['read_api'], expires_at: '2026-01-15' }, 'warning', 'expires on 2026-01-15'],
    [{ name: 'sync', scopes: ['read_repository'], expires_at: null }, 'error', 'read_repository'],
    [{ name: 'sync', scopes: [], expires_at: null }, 'error', 'none'],
  ])('judges the token %j: %s', async (body, level, message) => {
    expect(await ofToken({ body })).toMatchObject({ level, message: expect.stringContaining(message) });
  });

  it('leaves the proof of a token that GitLab does not describe to the projects', async () => {
    for (const reply of [{ status: 404, body: 'Not Found' }, { body: [] }])
      expect(await ofToken(reply)).toMatchObject({ level: 'ok', message: expect.stringContaining('token') });
  });

  it('reports a token that was refused', async () => {
    expect(await ofToken({ status: 401, body: { message: '401 Unauthorized' } })).toMatchObject({
      level: 'error',
      subject: 'credential',
      hint: expect.stringMatching(/./),
    });
  });

  it('tells of a new path, of an archive, and of merge requests that may not be seen', async () => {
    const renamed = await checked({}, [
      [project, { body: { path_with_namespace: 'acme/gateway' } }],
      [list, {}],
    ]);
    expect(renamed[1]).toMatchObject({ level: 'warning', hint: expect.stringContaining('acme/gateway') });
    const archived = await checked({}, [
      [project, { body: { path_with_namespace: 'acme/api', archived: true } }],
      [list, {}],
    ]);
    expect(archived[1]).toMatchObject({ level: 'warning', message: expect.stringContaining('archived') });
    const hidden = await checked({}, [
      [project, { body: { path_with_namespace: 'acme/api' } }],
      [list, { status: 403, body: { message: '403 Forbidden' } }],
    ]);
    expect(hidden[2]).toMatchObject({ level: 'error', subject: 'acme/api' });
  });

  it('does not say of a renamed group that it is followed', async () => {
    const renamed = await checked({ projects: [], groups: ['acme'] }, [
      [`GET ${BASE}/groups/acme?with_projects=false`, { body: { full_path: 'acme-corp' } }],
      [`GET ${BASE}/groups/acme/merge_requests?state=all&scope=all&per_page=1`, {}],
    ]);
    expect(renamed[1]).toMatchObject({
      level: 'warning',
      subject: 'acme',
      message: expect.stringContaining('follows nothing of this group'),
      hint: 'Write acme-corp in the configuration.',
    });
  });

  it('names the path of a project that is configured by number', async () => {
    const findings = await checked({ projects: [80200] }, [
      [`GET ${BASE}/projects/80200`, { body: { path_with_namespace: 'acme/api' } }],
      [`GET ${BASE}/projects/80200/merge_requests?state=all&scope=all&per_page=1`, {}],
    ]);
    expect(findings[1]).toMatchObject({ level: 'ok', subject: '80200', message: 'acme/api can be read' });
  });

  it('warns when little of the limit is left', async () => {
    const headers = { 'ratelimit-limit': '2000', 'ratelimit-remaining': '3' };
    const findings = await checked({}, [readable[0] as [string, Reply], [list, { headers }]]);
    expect(findings.at(-1)).toMatchObject({ level: 'warning', message: '3 of 2000 requests left' });
  });
});
