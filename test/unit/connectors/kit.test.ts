import { describe, expect, it } from 'vitest';
import type { AccessTokens, Connector, PollPosition } from '../../../src/connectors/connector.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { messageText, withCommits } from '../../../src/connectors/kit/commits.ts';
import { webAddress } from '../../../src/connectors/kit/payload.ts';
import {
  createRedelivery,
  type HookDeliveries,
  type ListedAttempt,
  type RedeliveryRules,
} from '../../../src/connectors/kit/redelivery.ts';
import {
  type Budget,
  createBudget,
  forPurpose,
  type RateLimitUse,
  rateFrom,
} from '../../../src/connectors/kit/refusal.ts';
import { createListing, createMemory } from '../../../src/connectors/kit/rest.ts';
import { pagesOf, pollPage, type WalkableList } from '../../../src/connectors/kit/walk.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import { SyncError } from '../../../src/model/errors.ts';
import type { HttpAnswer, HttpRequest } from '../../../src/platform/http/http-client.ts';
import type { Clock } from '../../../src/platform/lib/clock.ts';
import { keepApart } from '../../../src/platform/lib/shape.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { documentedOnly } from '../../support/vendors/vendor-requests/index.ts';

describe('a cached list', () => {
  it('returns the old list after a temporary failure, and throws if it was never read or may no longer be read', async () => {
    const { signal } = new AbortController();
    const clock = createTravellingClock();
    const answers = ['server_failed', ['one'], 'server_failed', ['two'], 'forbidden'] as const;
    const rest = [...answers];
    const list = createListing(clock, async () => {
      const answer = rest.shift();
      if (typeof answer === 'object') return answer;
      throw new SyncError(answer ?? 'internal', 'no');
    });
    await expect(list(signal)).rejects.toMatchObject({ code: 'server_failed' });
    expect(await list(signal)).toEqual(['one']);
    await clock.advance(20 * 60_000);
    expect([await list(signal), await list(signal)]).toEqual([['one'], ['two']]);
    await clock.advance(20 * 60_000);
    await expect(list(signal)).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('the memory of pages', () => {
  it('sends the validator of the last answer about an address, and returns the earlier page on a 304', async () => {
    const memory = createMemory<string>();
    const sent: (string | undefined)[] = [];
    const read = (address: string, status: number, text: string, headers: Record<string, string> = {}) => {
      const request = async (etag: string | undefined) => {
        sent.push(etag);
        return { status, headers, body: Buffer.from(text) };
      };
      return memory.read(address, request, ({ body }) => body.toString());
    };
    expect(await read('/a', 200, 'first', { etag: '"1"' })).toBe('first');
    expect(await read('/b', 200, 'other')).toBe('other');
    expect(await read('/a', 304, '')).toBe('first');
    for (const text of ['second', 'third']) expect(await read('/a', 200, text)).toBe(text);
    expect(sent).toEqual([undefined, undefined, '"1"', '"1"', undefined]);
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
});

describe('payload', () => {
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
  });
});

describe('the access tokens of a grant', () => {
  const { signal } = new AbortController();
  const oauth = { clientId: 'c', clientSecret: 's-secret', refreshToken: 'r-secret' };
  const CLOUD = '11223344-a1b2-4b33-8444-def123456789';
  const NOTHING = { nodes: [], pageInfo: { hasNextPage: false, endCursor: null } };
  const ENDED = { errors: [{ message: 'ended', extensions: { code: 'AUTHENTICATION_ERROR' } }] };
  type Reply = readonly [status: number, body: object];

  describe.each([
    {
      ...{ connector: jira as unknown as Connector<unknown>, good: [200, { issues: [], isLast: true }] as Reply },
      ...{ given: { site: 'acme.atlassian.net', cloudId: CLOUD, projects: ['ENG'], oauth }, ended: [401, {}] as Reply },
      url: new RegExp(`^https://api\\.atlassian\\.com/ex/jira/${CLOUD}/rest/`),
    },
    {
      ...{ connector: linear as unknown as Connector<unknown>, good: [200, { data: { issues: NOTHING } }] as Reply },
      ...{ given: { organizationId: CLOUD, teams: ['ENG'], oauth }, ended: [400, ENDED] as Reply },
      url: /^https:\/\/api\.linear\.app\/graphql$/,
    },
  ])('of $connector.id', ({ connector, given, good, ended, url }) => {
    const options = connector.options.parse(given);

    /** Polls once. Tokens are `t1`, `t2`, …: the next one after each refusal. */
    async function poll(...replies: Reply[]) {
      const requests: HttpRequest[] = [];
      const refused: string[] = [];
      const http = documentedOnly({
        async request(request: HttpRequest): Promise<HttpAnswer> {
          requests.push(request);
          const [status, body] = replies.shift() ?? [500, {}];
          return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) };
        },
        close: async () => undefined,
      });
      const accessTokens: AccessTokens = {
        get: async () => `t${refused.length + 1}`,
        refused: (token) => void refused.push(token),
      };
      const deps = { http, clock: createTravellingClock(), logger: silentLogger, accessTokens };
      const position = { unit: 'ENG', startedAt: '2026-01-05T09:00:00.000Z' };
      const ending = await connector
        .connect(options, deps)
        .poll(position, signal)
        .then(
          ({ outcome }) => outcome,
          ({ code }: SyncError) => code,
        );
      for (const request of requests) expect(request.url).toMatch(url);
      return [ending, requests.map(({ headers }) => headers?.['authorization']), refused];
    }

    it('are sent to the vendor only, and renewed once if the vendor refuses the current one', async () => {
      expect(await poll(good)).toEqual(['page', ['Bearer t1'], []]);
      expect(await poll(ended, good)).toEqual(['page', ['Bearer t1', 'Bearer t2'], ['t1']]);
      expect(await poll(ended, ended, good)).toEqual(['unauthorized', ['Bearer t1', 'Bearer t2'], ['t1']]);
    });
  });
});

describe('messages of commits', () => {
  async function fetchedMessages(texts: readonly unknown[]): Promise<unknown> {
    const list = {
      async *pages() {
        yield texts;
      },
      messageOf: messageText,
      order: 'newest first',
    } as const;
    const pull = await withCommits({}, undefined, { commits: true }, list);
    return (pull as { commit_messages?: unknown }).commit_messages;
  }

  describe('withCommits', () => {
    it('keeps the newest messages that fit, each of them whole', async () => {
      const [large, half] = ['l'.repeat(65_537), 'h'.repeat(40_000)];
      expect(await fetchedMessages(['newest', large, half, half, 'oldest'])).toEqual(['newest', half, 'oldest']);
    });

    it('keeps the newest 250 messages', async () => {
      expect(await fetchedMessages(Array.from({ length: 300 }, (_, at) => String(at)))).toHaveLength(250);
    });

    it('keeps the same messages of a page that a worker parsed', async () => {
      const texts = ['short', 'ü"\\\u0001'.repeat(2_000), 'l'.repeat(65_536), 'm'.repeat(1_000_000), 'last'];
      const apart = keepApart(texts, true) as unknown[];
      expect(apart.some((text) => text instanceof Uint8Array)).toBe(true);
      expect(await fetchedMessages(apart)).toEqual(await fetchedMessages(texts));
    });
  });
});

describe('a page of a walk', () => {
  const NOW = Date.parse('2026-03-01T12:00:00Z');
  const HOUR = 3_600_000;
  const FIRST: PollPosition = { unit: 'acme/api', startedAt: new Date(NOW).toISOString() };
  const LATER: PollPosition = { ...FIRST, watermark: new Date(NOW - HOUR).toISOString() };
  const dated = (ahead: number) => ({ date: new Date(NOW + ahead).toUTCString() });

  /** Reads a page whose elements were changed so long after now. The watermark counts from now too. */
  async function read(position: PollPosition, changes: readonly number[], headers: Record<string, string>) {
    const walk: WalkableList = {
      order: 'since',
      isConditional: true,
      list: async () => ({ found: changes, next: undefined, answer: { headers: { ...headers, etag: '"new"' } } }),
      changedAt: (change) => NOW + (change as number),
      serialize: async () => ({ event: 'list', body: Buffer.alloc(0) }),
    };
    const page = await pollPage(walk, position, new AbortController().signal);
    if (page.outcome !== 'page') throw new Error(page.outcome);
    return { watermark: Date.parse(page.newest ?? '') - NOW, etag: page.etag };
  }

  it.each([
    ['on time', dated(0), 0],
    ['ahead of ours by an hour', dated(HOUR), 0],
    ['behind ours by an hour', dated(-HOUR), -HOUR],
    ['not shown', {}, -HOUR / 6],
  ])('of the first walk sets the watermark to its beginning, with a clock that is %s', async (_, headers, start) => {
    expect((await read(FIRST, [], headers)).watermark).toBe(start);
  });

  it("does not move the watermark ahead of the provider's clock", async () => {
    expect((await read(LATER, [24 * HOUR, -1_000], dated(0))).watermark).toBe(0);
  });

  it.each([
    ['of one time that is over', [-5_000, -5_000], '"new"'],
    ['of one second that is not over', [0, 0], undefined],
  ])('%s has the validator %s', async (_, changes, etag) => {
    expect((await read(LATER, changes, dated(0))).etag).toBe(etag);
  });
});

describe('redelivery', () => {
  const { signal } = new AbortController();
  const DAY = 86_400_000;
  const RULES: RedeliveryRules = {
    ...{ mostAttempts: 3, mostOfHook: 5, mostAtOnce: 8, keptFor: 3 * DAY },
    ...{ queries: { newest: 'newest', failed: ['failed'] }, pageSize: 100, mostPages: { failed: 1, all: 2 } },
    floorOf: (last) => last,
  };

  /** A hook that lists the given attempts, round after round. */
  function hookOf(name: string, pages: readonly (readonly ListedAttempt[] | SyncError)[]) {
    const resent: string[] = [];
    let outcome: Awaited<ReturnType<HookDeliveries['resend']>> = 'requested';
    const rest = [...pages];
    const list: HookDeliveries = {
      name,
      async list() {
        const attempts = rest.shift() ?? [];
        if (attempts instanceof SyncError) throw attempts;
        return { attempts, next: undefined };
      },
      async resend(attempt) {
        resent.push(attempt);
        return outcome;
      },
    };
    return { list, resent, answer: (next: typeof outcome) => void (outcome = next) };
  }

  async function round(lists: () => Promise<readonly HookDeliveries[]>, cursor: string | undefined, now: number) {
    const clock = { now: () => now, monotonic: () => now } as Clock;
    return createRedelivery(clock, RULES, lists)('https://worksync.example/', cursor, signal);
  }

  async function rounds(lists: readonly HookDeliveries[], count: number, from?: string, now = 0) {
    let last = await round(async () => lists, from, now);
    for (let later = 1; later < count; later++) last = await round(async () => lists, last.cursor, now + later);
    return last;
  }

  const failed = (delivery: string, attempt: string): ListedAttempt => {
    return { delivery, attempt, order: Number(attempt), result: 'refused' };
  };

  describe('a failed delivery', () => {
    it('is requested after each failure, up to the limit of attempts', async () => {
      const { list, resent } = hookOf('a', [
        [failed('x', '1')],
        [failed('x', '2'), failed('x', '1')],
        [failed('x', '3'), failed('x', '2')],
      ]);
      await rounds([list], 4);
      expect(resent).toEqual(['1', '2']);
    });

    it('is stored among the newest 500, and the round reports that it left out others', async () => {
      const many = Array.from({ length: 2_000 }, (_, at) => failed(`delivery-${2_000 - at}`, String(2_000 - at)));
      const { list, resent } = hookOf('a', [many]);
      const { cursor, cut } = await rounds([list], 1);
      expect(resent[0]).toBe('1501');
      expect(cursor.length).toBeLessThan(60_000);
      expect(cut).toMatch(/more than 500/);
    });
  });

  it.each([
    ['the first page reaches the last round', '1', 'refused', ['newest']],
    ['it does not', '9', 'refused', ['newest', 'failed']],
    ['an attempt beyond it may have got no answer', '9', 'unanswered', ['newest', 'failed', 'older', 'older']],
  ] as const)('reads no more than it needs if %s', async (_, attempt, result, expected) => {
    const queries: string[] = [];
    const list: HookDeliveries = {
      name: 'a',
      async list(query) {
        queries.push(query);
        const attempts = query === 'newest' ? [{ ...failed('x', attempt), result }] : [];
        return { attempts, next: query === 'failed' ? undefined : 'older' };
      },
      resend: async () => 'requested',
    };
    await round(async () => [list], JSON.stringify([{ name: 'a', upTo: 5, open: [] }]), 0);
    expect(queries).toEqual(expected);
  });

  describe('a round that fails', () => {
    it('returns what it did before the failure', async () => {
      const limited = new SyncError('rate_limited', 'slow');
      const one = hookOf('a', [[failed('x', '1')], []]);
      const two = hookOf('b', [limited, [failed('y', '2')]]);
      const three = hookOf('c', [[failed('z', '3')]]);
      const lists = [one.list, two.list, three.list];
      const first = await round(async () => lists, undefined, 0);
      expect(first).toMatchObject({ requested: 1, failure: limited });
      await round(async () => lists, first.cursor, 1);
      expect([one.resent, two.resent, three.resent]).toEqual([['1'], ['2'], ['3']]);
    });
  });
});
