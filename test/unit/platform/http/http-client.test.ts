import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createHttpClient, type HttpClient } from '../../../../src/platform/http/http-client.ts';
import { errorOfStatus, retryAfter } from '../../../../src/platform/http/provider-errors.ts';
import { createMetrics } from '../../../../src/platform/observe/metrics.ts';
import { answerByNock, nock } from '../../../support/harness/nock.ts';

const NOW = Date.UTC(2026, 10, 20, 12);

describe('the client with nock', () => {
  const reached: string[] = [];
  const metrics = createMetrics({ version: 'test' });
  const told: string[] = [];
  let client: HttpClient;

  answerByNock();
  beforeAll(() => {
    client = createHttpClient({
      steps: { reached: (kind, edge) => void reached.push(`${kind} ${edge}`) },
      meter: metrics.meter,
      onSecret: (secret) => void told.push(secret),
    });
  });
  afterEach(() => {
    told.length = 0;
  });
  afterAll(() => client.close());

  it.each([
    [{ authorization: 'Bearer a-token-of-some-kind' }, ['a-token-of-some-kind']],
    [{ Authorization: 'a-key-without-a-scheme' }, ['a-key-without-a-scheme']],
    [{ authorization: `Basic ${btoa('user:the password')}` }, [btoa('user:the password'), 'the password']],
    [{ authorization: `Basic ${btoa(':a:b:cdefgh')}` }, [btoa(':a:b:cdefgh'), 'a:b:cdefgh']],
    [{ 'private-token': 'glpat-1234567', 'x-redmine-api-key': '0123456789' }, ['glpat-1234567', '0123456789']],
    [{ authorization: 'Bearer short', 'x-api-version': '12345678', 'user-agent': 'worksync-1.0' }, []],
  ])('tells the credentials of a request before it is sent: %j', async (headers, secrets) => {
    let before: string[] = [];
    nock('https://api.example.com')
      .get('/')
      .reply(() => {
        before = [...told];
        return [200, ''];
      });
    await client.request({ method: 'GET', url: 'https://api.example.com/', headers, target: 'gh' });
    expect(before).toEqual(secrets);
  });

  it('joins a repeated header', async () => {
    nock('https://api.example.com')
      .get('/')
      .reply(
        200,
        '',
        [
          ['Link', '<a>'],
          ['Link', '<b>'],
        ].flat() as never,
      );
    const answer = await client.request({ method: 'GET', url: 'https://api.example.com/', target: 'gh' });
    expect(answer.headers['link']).toBe('<a>, <b>');
  });

  it('reports one step before and one after each request, and counts it', async () => {
    reached.length = 0;
    nock('https://api.example.com').get('/steps').reply(204);
    await client.request({ method: 'GET', url: 'https://api.example.com/steps', target: 'steps' });
    await client
      .request({ method: 'GET', url: 'http://169.254.169.254/latest/meta-data/', target: 'steps' })
      .catch(() => undefined);
    expect(reached).toEqual(['request before', 'request after', 'request before', 'request after']);
    const text = await metrics.expose();
    expect(text).toContain('worksync_http_requests_total{target="steps",status="204"} 1');
    expect(text).toContain('worksync_http_requests_total{target="steps",status="address_blocked"} 1');
    expect(text).toContain('worksync_http_request_seconds_count{target="steps"} 2');
  });
});

describe('errorOfStatus', () => {
  it.each([
    [301, 'refused'],
    [400, 'refused'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [408, 'server_failed'],
    [409, 'conflict'],
    [410, 'not_found'],
    [422, 'refused'],
    [425, 'server_failed'],
    [429, 'rate_limited'],
    [500, 'server_failed'],
    [502, 'server_failed'],
    [503, 'server_failed'],
    [599, 'server_failed'],
    [200, 'answer_malformed'],
  ])('%i is %s', (status, code) => {
    const error = errorOfStatus({ status, headers: {} }, 'list things', NOW);
    expect(error).toMatchObject({ code, status, retryAfter: undefined, message: `list things: status ${status}` });
  });

  it('tells what to do about a redirect', () => {
    const redirected = (location: string) => errorOfStatus({ status: 301, headers: { location } }, 'x', NOW).hint;
    expect(redirected('https://git.example.com/users/sign_in?token=a-secret')).toContain(
      'redirects to https://git.example.com/users/sign_in, which',
    );
    expect(redirected('/users/sign_in')).toContain('redirects to /users/sign_in, which');
    for (const odd of ['', 'mailto:x', 'http://[', `/${'x'.repeat(9_999)}`])
      expect(redirected(odd)?.length).toBeLessThan(500);
  });

  it.each([
    ['30', 30_000],
    [' 0 ', 0],
    [new Date(NOW + 90_000).toUTCString(), 90_000],
    [new Date(NOW - 90_000).toUTCString(), 0],
    ['', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['3600', 3_600_000],
    ['3601', 3_600_000],
    ['9'.repeat(400), 3_600_000],
    ['Fri, 01 Jan 2100 00:00:00 GMT', 3_600_000],
    ['soon', undefined],
  ])('reads Retry-After %j as %s ms', (value, expected) => {
    expect(retryAfter({ 'retry-after': value }, NOW)).toBe(expected);
  });
});
