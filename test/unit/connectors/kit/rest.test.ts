import { describe, expect, it } from 'vitest';
import type { AccessTokens, Connection, Connector } from '../../../../src/connectors/connector.ts';
import { jira } from '../../../../src/connectors/jira/index.ts';
import { linear } from '../../../../src/connectors/linear/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { documentedOnly } from '../../../support/vendors/vendor-requests/index.ts';

const { signal } = new AbortController();
const oauth = { clientId: 'c', clientSecret: 's-secret', refreshToken: 'r-secret' };
const CLOUD = '11223344-a1b2-4b33-8444-def123456789';

const JIRA = { site: 'acme.atlassian.net', cloudId: CLOUD, projects: ['ENG'], oauth };
const LINEAR = { organizationId: '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6', teams: ['ENG'], oauth };
const EMPTY = { data: { issues: { nodes: [], pageInfo: { hasNextPage: false, endCursor: null } } } };
const ENDED = { errors: [{ message: 'ended', extensions: { code: 'AUTHENTICATION_ERROR' } }] };

/** Tokens `t1`, `t2`, …: the next one after each refusal. */
function numberedTokens(): AccessTokens & { readonly log: string[] } {
  const log: string[] = [];
  let count = 1;
  return {
    log,
    get: async () => `t${count}`,
    refused(token) {
      log.push(token);
      count++;
    },
  };
}

interface Vendor {
  readonly connector: Connector<never>;
  readonly given: object;
  readonly good: Reply;
  readonly ended: Reply;
  /** The addresses that may get its tokens. */
  readonly url: RegExp;
}

type Reply = readonly [status: number, body: object];

const VENDORS: readonly Vendor[] = [
  {
    connector: jira as unknown as Connector<never>,
    given: JIRA,
    good: [200, { issues: [], isLast: true }],
    ended: [401, { message: 'Unauthorized' }],
    url: new RegExp(`^https://api\\.atlassian\\.com/ex/jira/${CLOUD}/rest/`),
  },
  {
    connector: linear as unknown as Connector<never>,
    given: LINEAR,
    good: [200, EMPTY],
    ended: [400, ENDED],
    url: /^https:\/\/api\.linear\.app\/graphql$/,
  },
];

describe.each(VENDORS.map((vendor) => [vendor.connector.id, vendor] as const))('%s', (_, vendor) => {
  function connect(replies: readonly Reply[]) {
    const rest = [...replies];
    const requests: HttpRequest[] = [];
    const accessTokens = numberedTokens();
    const http = documentedOnly({
      async request(request: HttpRequest): Promise<HttpAnswer> {
        requests.push(request);
        const [status, body] = rest.shift() ?? [500, {}];
        return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) };
      },
      close: async () => undefined,
    });
    const options = vendor.connector.options.parse(vendor.given);
    const deps = { http, clock: createTravellingClock(), logger: silentLogger, accessTokens };
    const connection: Connection = vendor.connector.connect(options, deps);
    return { connection, requests, accessTokens };
  }

  const position = { unit: 'ENG', startedAt: '2026-01-05T09:00:00.000Z' };
  const sent = (requests: readonly HttpRequest[]) => requests.map(({ headers }) => headers?.['authorization']);

  it('sends the current access token, and only to the vendor', async () => {
    const { connection, requests } = connect([vendor.good]);
    await expect(connection.poll(position, signal)).resolves.toMatchObject({ outcome: 'page' });
    expect(sent(requests)).toEqual(['Bearer t1']);
    expect(requests[0]?.url).toMatch(vendor.url);
  });

  it('requests a new access token once if the vendor refuses the current one', async () => {
    const { connection, requests, accessTokens } = connect([vendor.ended, vendor.good]);
    await expect(connection.poll(position, signal)).resolves.toMatchObject({ outcome: 'page' });
    expect(sent(requests)).toEqual(['Bearer t1', 'Bearer t2']);
    expect(accessTokens.log).toEqual(['t1']);
    const hopeless = connect([vendor.ended, vendor.ended, vendor.good]);
    await expect(hopeless.connection.poll(position, signal)).rejects.toMatchObject({ code: 'unauthorized' });
    expect(hopeless.requests).toHaveLength(2);
  });

  it('returns the configured grant, and rejects another credential beside it', () => {
    const options = vendor.connector.options.parse(vendor.given);
    expect(vendor.connector.oauth?.(options)).toMatchObject({
      ...oauth,
      tokenUrl: expect.stringMatching(/^https:/) as string,
    });
    for (const other of [{ token: 'abcd' }, { accessToken: 'abcd' }, { apiKey: 'abcd' }])
      expect(vendor.connector.options.safeParse({ ...vendor.given, ...other }).success).toBe(false);
  });
});
