import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { AccessTokens, Connection, Connector } from '../../../src/connectors/connector.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { createListing, createMemory } from '../../../src/connectors/kit/cached-reads.ts';
import { countedPagesOf, pagesOf } from '../../../src/connectors/kit/pages.ts';
import { absent, instant, readAnswer, shapeOf, webAddress } from '../../../src/connectors/kit/payload.ts';
import { type Budget, createBudget, type RateLimitUse, rateFrom } from '../../../src/connectors/kit/rate-limit.ts';
import { NUMBERS, samplesOf, UUIDS } from '../../../src/connectors/kit/sample.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { forPurpose } from '../../../src/platform/lib/purpose.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { documentedOnly } from '../../support/vendors/vendor-requests/index.ts';

describe('cached reads', () => {
  const { signal } = new AbortController();
  const MINUTE = 60_000;

  describe('a listing', () => {
    it('is read again only when it is old', async () => {
      const clock = createTravellingClock();
      let reads = 0;
      const list = createListing(clock, async () => [`read ${++reads}`]);
      expect(await list(signal)).toEqual(['read 1']);
      await clock.advance(9 * MINUTE);
      expect(await list(signal)).toEqual(['read 1']);
      await clock.advance(6 * MINUTE);
      expect(await list(signal)).toEqual(['read 2']);
    });

    it('returns the old list after a temporary failure, and is read again by the next call', async () => {
      const clock = createTravellingClock();
      const answers: (string | SyncError)[] = ['one', new SyncError('server_failed', 'down'), 'two'];
      const list = createListing(clock, async () => {
        const answer = answers.shift();
        if (typeof answer !== 'string') throw answer;
        return [answer];
      });
      await list(signal);
      await clock.advance(20 * MINUTE);
      expect(await list(signal)).toEqual(['one']);
      expect(await list(signal)).toEqual(['two']);
    });

    it('throws if it was never read, or may no longer be read', async () => {
      const clock = createTravellingClock();
      const codes: ('server_failed' | 'forbidden' | undefined)[] = ['server_failed', undefined, 'forbidden'];
      const list = createListing(clock, async () => {
        const code = codes.shift();
        if (code) throw new SyncError(code, 'no');
        return ['one'];
      });
      await expect(list(signal)).rejects.toMatchObject({ code: 'server_failed' });
      await list(signal);
      await clock.advance(20 * MINUTE);
      await expect(list(signal)).rejects.toMatchObject({ code: 'forbidden' });
    });
  });

  describe('the memory of pages', () => {
    const answer = (status: number, body = '', etag?: string) => ({
      status,
      headers: (etag === undefined ? {} : { etag }) as Record<string, string>,
      body: Buffer.from(body),
    });
    const text = ({ body }: { body: Buffer }) => body.toString();

    it('sends the validator of the same address, and returns the earlier page on a 304', async () => {
      const memory = createMemory<string>();
      const sent: (string | undefined)[] = [];
      const reply = (given: ReturnType<typeof answer>) => async (etag: string | undefined) => {
        sent.push(etag);
        return given;
      };
      expect(await memory.read('/a', reply(answer(200, 'first', '"1"')), text)).toBe('first');
      expect(await memory.read('/b', reply(answer(200, 'other')), text)).toBe('other');
      expect(await memory.read('/a', reply(answer(304)), text)).toBe('first');
      expect(await memory.read('/a', reply(answer(200, 'second')), text)).toBe('second');
      await memory.read('/a', reply(answer(200, 'third')), text);
      expect(sent).toEqual([undefined, undefined, '"1"', '"1"', undefined]);
    });
  });
});

describe('pages', () => {
  const all = async <Element>(pages: AsyncGenerator<readonly Element[]>) => (await Array.fromAsync(pages)).flat();

  it('pagesOf rejects a list that leads in a circle, and names it', async () => {
    const names = ['b', 'c', 'b'];
    const pages = pagesOf('GET /projects', async (page) => ({
      found: [page ?? 'a'],
      next: page === 'b' ? 'c' : (names[0] as string),
    }));
    await expect(all(pages)).rejects.toMatchObject({
      code: 'list_endless',
      message: expect.stringContaining('GET /projects'),
    });
  });

  it('countedPagesOf rejects a list that ignores the offset', async () => {
    let requests = 0;
    const pages = countedPagesOf('GET /projects', async () => ({ found: [requests++], isLast: false }));
    await expect(all(pages)).rejects.toMatchObject({ code: 'list_endless' });
    expect(requests).toBe(1_000);
  });

  it('countedPagesOf reads a list to its end', async () => {
    const pages = countedPagesOf('GET /projects', async (offset) => ({
      found: [offset, offset + 1],
      isLast: offset === 4,
    }));
    expect(await all(pages)).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

describe('payload', () => {
  describe('instant', () => {
    it.each([
      ['2026-03-02T08:00:00+02:00', '2026-03-02T06:00:00.000Z'],
      ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00Z'],
      ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59Z'],
    ])('reads %s as %s', (text, expected) => expect(instant.parse(text)).toBe(expected));

    it.each([
      '0000-01-01T00:00:00+23:59',
      '9999-12-31T23:59:59-23:59',
      '2026-02-30T00:00:00Z',
      '+12026-01-01T00:00:00Z',
    ])('rejects %s, which RFC 3339 cannot write in UTC', (text) => expect(instant.safeParse(text).success).toBe(false));
  });

  describe('webAddress', () => {
    it.each(['https://example.com/a?b#c', 'http://[::1]:8080/x', 'https://[2001:db8::1]/'])('accepts %s', (text) =>
      expect(webAddress.parse(text)).toBe(text),
    );

    it.each([
      'https://[',
      'http://',
      'https://github.com@evil.example/',
      'https://a:b@example.com/',
      'ftp://a',
      'https://a b',
    ])('rejects %s', (text) => expect(webAddress.safeParse(text).success).toBe(false));
  });

  describe('readAnswer', () => {
    const answer = (text: string) => ({ status: 200, body: Buffer.from(text) });

    it('gives a hint if a web page answers in place of the API', () => {
      const hintOf = (text: string) => {
        try {
          return readAnswer(answer(text), 'GET /x');
        } catch (error) {
          return (error as SyncError).hint;
        }
      };
      for (const page of ['<!DOCTYPE html><p>', '\n <html lang="en">'])
        expect(hintOf(page)).toContain('A web page answered');
      expect(hintOf('{"a":')).not.toContain('A web page');
      expect(hintOf('{"a":1}')).toEqual({ a: 1 });
    });
  });

  describe('shapeOf', () => {
    it('names each field of a schema, and the parts of its objects and lists', () => {
      const person = z.object({ login: z.string() });
      const expected = z.object({
        id: z.int(),
        at: instant,
        author: absent(person.nullable()),
        people: absent(z.array(person)),
        labels: absent(z.array(z.union([z.string(), z.object({ name: z.string() })]))),
        head: z.object({ ref: absent(z.string()), repo: absent(z.object({ id: z.int() })) }),
      });
      expect(shapeOf(expected)).toEqual({
        id: true,
        at: true,
        author: { login: true },
        people: { login: true },
        labels: { name: true },
        head: { ref: true, repo: { id: true } },
      });
    });

    it('keeps a whole value of which the schema names no part', () => {
      const document = z.looseObject({ type: z.string() });
      const expected = z.object({ parent: absent(z.object({})), document, fields: z.record(z.string(), z.unknown()) });
      expect(shapeOf(expected)).toEqual({ parent: true, document: true, fields: true });
    });
  });
});

describe('sample', () => {
  const TEAM = '9cfb482a-81e3-4154-b5b9-2c805e70a02d';
  const bindings = [{ entry: 'acme/api', id: '7', called: 'acme/api-2' }];

  type Place = Parameters<typeof samplesOf>[0]['place'];

  /** The place of a sample event, for a connection with these entries in its scope. */
  function placeOf(include: readonly string[], place: Place): unknown {
    const { events } = samplesOf({
      sign: () => ({}),
      scopeOf: () => ({ include, exclude: ['acme/*-old'], archived: false, forks: false }),
      place,
      events: { opened: ['an item is opened', 'opened'] },
      payload: (_, input) => input.place,
    });
    return events.opened.payload({}, { at: 0, id: 'd-1', bindings });
  }

  it('places a sample by an entry: an id, a bound name, or a pattern', () => {
    expect(placeOf(['12'], { ids: NUMBERS })).toEqual({ id: '12', name: 'worksync-trial' });
    expect(placeOf([TEAM], { ids: UUIDS, name: 'TRIAL' })).toEqual({ id: TEAM, name: 'TRIAL' });
    expect(placeOf(['acme/api'], { ids: NUMBERS })).toEqual({ id: '7', name: 'acme/api-2' });
    const invented = placeOf(['acme/*-old', 'acme/*'], { ids: NUMBERS, name: 'worksync/worksync-trial' });
    expect(invented).toEqual({ id: '999000001', name: 'acme/worksync-trial' });
  });

  it('refuses to place a sample while no id of the names is known', () => {
    expect(() => placeOf(['acme/web'], { ids: NUMBERS })).toThrow(/does not know yet which id/);
    expect(() => placeOf(['12'], { ids: { made: 'one' } })).toThrow(/does not know yet which id/);
  });
});

describe('rate limit', () => {
  const MINUTE = 60_000;

  function setUp() {
    const clock = createTravellingClock();
    const budget = createBudget(clock, (headers) => rateFrom(headers, 'x-ratelimit'));
    const report = (remaining: number, inMinutes: number, ahead = 0) => {
      const now = clock.now() + ahead;
      budget.update({
        status: 200,
        headers: {
          date: new Date(now).toUTCString(),
          'x-ratelimit-limit': '5000',
          'x-ratelimit-remaining': String(remaining),
          'x-ratelimit-reset': String(Math.floor((now + inMinutes * MINUTE) / 1_000)),
        },
        body: Buffer.alloc(0),
      });
    };
    return { clock, budget, report };
  }

  function refusal(budget: Budget, use: RateLimitUse): SyncError | undefined {
    try {
      budget.require(use);
      return undefined;
    } catch (error) {
      return error as SyncError;
    }
  }

  describe('the budget of a connection', () => {
    it('allows everything before the first answer', () => {
      const { budget } = setUp();
      for (const use of ['fetch', 'poll', 'background'] as const) expect(refusal(budget, use)).toBeUndefined();
    });

    it.each([
      [5_000, []],
      [2_501, []],
      [2_500, ['background']],
      [501, ['background']],
      [500, ['background', 'poll']],
      [1, ['background', 'poll']],
      [0, ['background', 'poll', 'fetch']],
    ])('with %i of 5000 requests left, it refuses %j', (remaining, refused) => {
      const { budget, report } = setUp();
      report(remaining, 30);
      const uses = (['background', 'poll', 'fetch'] as const).filter((use) => refusal(budget, use));
      expect(uses).toEqual(refused);
    });

    it('gives a restore a fifth of the limit in each period, and leaves half of the rest', async () => {
      const { clock, budget, report } = setUp();
      report(5_000, 30);
      const restored = () => forPurpose('restore', async () => refusal(budget, 'fetch'));
      for (let request = 1; request <= 1_000; request++) expect(await restored()).toBeUndefined();
      expect(await restored()).toMatchObject({ code: 'rate_limited', retryAfter: expect.any(Number) });
      expect(refusal(budget, 'background')).toBeUndefined();
      await clock.advance(31 * MINUTE);
      report(5_000, 30);
      expect(await restored()).toBeUndefined();
      report(2_500, 30);
      expect(await restored()).toMatchObject({ code: 'rate_limited' });
    });

    it('refuses for at most an hour, even if the reset is decades away', async () => {
      const { clock, budget, report } = setUp();
      report(0, 74 * 525_600);
      expect(refusal(budget, 'fetch')?.retryAfter).toBe(60 * MINUTE);
      await clock.advance(60 * MINUTE);
      expect(refusal(budget, 'background')).toBeUndefined();
      report(4_000, 74 * 525_600 - 60);
      expect(refusal(budget, 'background')).toBeUndefined();
    });

    it("refuses until the reset by the vendor's clock, and then allows everything", async () => {
      const { clock, budget, report } = setUp();
      report(0, 30, 7 * MINUTE);
      const error = refusal(budget, 'fetch');
      expect(error).toBeInstanceOf(SyncError);
      expect(error?.code).toBe('rate_limited');
      expect(error?.status).toBeUndefined();
      expect(error?.retryAfter).toBeGreaterThanOrEqual(30 * MINUTE - 1_000);
      expect(error?.retryAfter).toBeLessThanOrEqual(30 * MINUTE + 2_000);
      await clock.advance(31 * MINUTE);
      expect(refusal(budget, 'background')).toBeUndefined();
    });

    it('ignores an answer that another one has overtaken', () => {
      const { budget, report } = setUp();
      report(400, 30);
      report(600, 30);
      expect(refusal(budget, 'poll')).toBeDefined();
      report(4_999, 90);
      expect(refusal(budget, 'background')).toBeUndefined();
    });

    it('ignores headers that are absent, no numbers, or of a server without a limit', () => {
      const { budget } = setUp();
      const good = { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '99999999999' };
      for (const headers of [
        {},
        { ...good, 'x-ratelimit-limit': '0' },
        { ...good, 'x-ratelimit-limit': '-1' },
        { ...good, 'x-ratelimit-remaining': 'none' },
        { ...good, 'x-ratelimit-reset': '' },
      ])
        budget.update({ status: 200, headers: headers as Record<string, string>, body: Buffer.alloc(0) });
      expect(refusal(budget, 'background')).toBeUndefined();
    });
  });
});

describe('rest', () => {
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
});
