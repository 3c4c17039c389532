import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../../src/connectors/bitbucket/index.ts';
import type { PollPosition } from '../../../../src/connectors/connector.ts';
import { courseOf, failure, type Reply } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const API = 'https://api.bitbucket.org/2.0';
const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const BY_ID = `${API}/repositories/acme/%7B7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10%7D`;
const ANYWHERE = BY_ID.replace('acme', '%7B%7D');
const position: PollPosition = {
  unit: 'acme/api',
  startedAt: '2026-01-05T09:00:00Z',
  watermark: '2026-01-05T08:00:00Z',
};
const pull = JSON.parse(
  readFileSync(new URL('../../../../src/connectors/bitbucket/fixtures/pullrequests.get.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, unknown>>;

/** The address of each request, its query aside, and what is answered: an empty list unless told. */
function connectionOf(given: object, course: readonly [expected: string, reply: Reply][]) {
  const turns = course.map(([expected, reply]) => [`GET ${expected}?*`, { body: { values: [] }, ...reply }] as const);
  return courseOf(bitbucket, { repositories: ['acme/api'], ...given }, '', turns);
}

const said = (message: string) => ({ type: 'error', error: { message } });
const LIST = `${API}/repositories/acme/api/pullrequests`;

describe('requests', () => {
  it.each([
    [{}, undefined],
    [{ token: 'ATCTT3x' }, 'Bearer ATCTT3x'],
    // printf 'ada@example.com:ATATT3x' | base64
    [{ email: 'ada@example.com', apiToken: 'ATATT3x' }, 'Basic YWRhQGV4YW1wbGUuY29tOkFUQVRUM3g='],
  ])('with %j carry %s', async (given, authorization) => {
    const { connection, requests } = connectionOf(given, [[LIST, {}]]);
    await connection.poll(position, signal);
    expect(requests[0]?.headers).toEqual({
      accept: 'application/json',
      'user-agent': 'worksync',
      ...(authorization === undefined ? {} : { authorization }),
    });
  });

  it('never carry a validator', async () => {
    const { connection, requests } = connectionOf({}, [[LIST, { headers: { etag: '"e"' } }]]);
    const page = await connection.poll({ ...position, etag: '"old"' }, signal);
    expect(page).not.toHaveProperty('etag');
    expect(requests[0]?.headers).not.toHaveProperty('if-none-match');
  });

  it("go through a proxy, also where the next page is linked by Bitbucket's own address", async () => {
    const behind = 'https://proxy.example.com/bb/repositories/acme/api/pullrequests';
    const { connection, requests } = connectionOf({ apiUrl: 'https://proxy.example.com/bb/', token: 'x' }, [
      [behind, { body: { values: [], next: `${LIST}?state=OPEN&page=2` } }],
      [behind, {}],
    ]);
    const page = await connection.poll(position, signal);
    expect(page).toMatchObject({ next: 'link:state=OPEN&page=2' });
    await connection.poll({ ...position, page: 'link:state=OPEN&page=2' }, signal);
    expect(requests[1]?.url).toBe(`${behind}?state=OPEN&page=2`);
  });
});

describe('a refusal', () => {
  const pollWith = async (reply: Reply) => failure(connectionOf({}, [[LIST, reply]]).connection.poll(position, signal));

  it('tells what Bitbucket said, on one short line', async () => {
    const error = await pollWith({ status: 400, body: said(`Invalid\npagelen ${'x'.repeat(500)}`) });
    expect(error).toMatchObject({ code: 'refused', status: 400 });
    expect(error?.message).toMatch(/status 400 \(Invalid pagelen x+\)$/);
    expect(error?.message.length).toBeLessThan(300);
  });

  it('of the credential says which kinds there are, of a right which one lacks', async () => {
    expect((await pollWith({ status: 401, body: said('Token is invalid') }))?.hint).toMatch(/App passwords/);
    expect((await pollWith({ status: 403, body: said('no scope') }))?.hint).toMatch(/scopes/);
  });

  it.each([null, 7, [], { error: 'text' }, { error: { message: 7 } }])('that says %j is still one', async (body) => {
    expect(await pollWith({ status: 403, body })).toMatchObject({ code: 'forbidden' });
  });
});

describe('fetch', () => {
  const locator = { repoId: UUID, repository: 'acme/api', number: '12' };
  const reference = { kind: 'pull_request', key: 'k', locator } as const;

  it('asks by the id of the repository, whatever it is called now', async () => {
    const { connection, requests } = connectionOf({}, [[`${BY_ID}/pullrequests/12`, { body: pull }]]);
    expect((await connection.fetch(reference, signal)).event).toBe('pullrequests.get');
    expect(new URL(requests[0]?.url ?? '').searchParams.get('fields')?.split(',')).toContain('reviewers');
  });

  it('refuses a pull request of another repository', async () => {
    const other = { ...pull, destination: { repository: { uuid: UUID.replace('7', '8'), full_name: 'acme/api' } } };
    for (const body of [other, { ...pull, destination: null }, []]) {
      const { connection } = connectionOf({}, [[`${BY_ID}/pullrequests/12`, { body }]]);
      expect((await failure(connection.fetch(reference, signal)))?.code).toBe('answer_malformed');
    }
  });

  it('calls nothing gone while another repository answers under the name', async () => {
    const { connection } = connectionOf({}, [
      [`${BY_ID}/pullrequests/12`, { status: 404, body: said('Not found') }],
      [ANYWHERE, { body: { uuid: '{00000000-0000-0000-0000-000000000000}', full_name: 'acme/api' } }],
    ]);
    expect((await failure(connection.fetch(reference, signal)))?.code).toBe('not_found');
  });

  it('follows a repository that moved to another workspace', async () => {
    const { connection } = connectionOf({}, [
      [`${BY_ID}/pullrequests/12`, { status: 404, body: said('Not found') }],
      [ANYWHERE, { body: { uuid: UUID, full_name: 'other/api' } }],
      [`${BY_ID.replace('acme', 'other')}/pullrequests/12`, { body: pull }],
    ]);
    expect((await connection.fetch(reference, signal)).event).toBe('pullrequests.get');
  });
});

describe('check', () => {
  const repository = `${API}/repositories/acme/api`;
  const named = (full_name: string): Reply => ({ body: { uuid: UUID, full_name } });

  it.each([
    [{}, 'warning', /60 requests .* 5 minutes/],
    [{ token: 'x' }, 'ok', /access token/],
    [{ email: 'ada@example.com', apiToken: 'x' }, 'warning', /person/],
  ])('with %j says what kind of credential it is', async (given, level, message) => {
    const { connection } = connectionOf(given, [
      [repository, named('acme/api')],
      [LIST, {}],
    ]);
    const findings = await connection.check(signal);
    expect(findings[0]).toMatchObject({ level, subject: 'credential', message: expect.stringMatching(message) });
    expect(findings.map(({ subject }) => subject)).toEqual(['credential', 'acme/api', 'rate limit']);
  });

  it('reads each repository, and its pull requests', async () => {
    const { connection } = connectionOf({ token: 'x', repositories: ['acme/secret', 'acme/api', 'acme/old'] }, [
      [`${API}/repositories/acme/secret`, { status: 404, body: said('Not found') }],
      [repository, named('Acme/API')],
      [LIST, { status: 403, body: said('Your credentials lack one or more required privilege scopes.') }],
      [`${API}/repositories/acme/old`, named('acme/new')],
      [`${API}/repositories/acme/old/pullrequests`, { headers: { 'x-ratelimit-nearlimit': 'true' } }],
    ]);
    const findings = await connection.check(signal);
    expect(findings.slice(1).map(({ level, subject }) => [level, subject])).toEqual([
      ['error', 'acme/secret'],
      ['ok', 'acme/api'],
      ['error', 'acme/api'],
      ['warning', 'acme/old'],
      ['warning', 'rate limit'],
    ]);
    expect(findings.filter(({ level, hint }) => level !== 'ok' && !hint)).toEqual([]);
  });
});
