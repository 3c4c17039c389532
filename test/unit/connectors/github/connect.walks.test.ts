import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { github } from '../../../../src/connectors/github/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/http/http-client.ts';
import { silentLogger } from '../../../../src/lib/logger.ts';
import { drawn } from '../../../support/depth.ts';
import { PollMirror } from '../../../support/poll-mirror.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/travelling-clock.ts';

/**
 * A repository that behaves as GitHub's list does: sorted, cut into pages by offset, linked by page number, with an ETag
 * over the content. Between two requests the world may go on.
 */
interface Pull {
  readonly number: number;
  readonly created: number;
  state: 'open' | 'closed';
  updated: number;
}

const LIST = 'https://api.github.com/repos/acme/api/pulls';

class Repository {
  readonly pulls = new Map<number, Pull>();
  readonly requests: HttpRequest[] = [];
  /** Called after each answer was made. */
  meanwhile: () => void = () => {};
  readonly clock: TravellingClock;

  constructor(clock: TravellingClock) {
    this.clock = clock;
  }

  get now(): number {
    return this.clock.now();
  }

  open(): void {
    const number = this.pulls.size + 1;
    this.pulls.set(number, { number, created: this.now, state: 'open', updated: this.now });
  }

  set(number: number, state: Pull['state']): void {
    const pull = this.pulls.get(number) as Pull;
    pull.state = state;
    pull.updated = this.now;
  }

  get states(): Record<string, string> {
    return Object.fromEntries([...this.pulls.values()].map(({ number, state }) => [String(number), state]));
  }

  async request(request: HttpRequest): Promise<HttpAnswer> {
    this.requests.push(request);
    const url = new URL(request.url);
    if (url.origin + url.pathname !== LIST) throw new Error(`asked for ${request.url}`);
    const answer = this.list(url.searchParams, request.headers?.['if-none-match']);
    this.meanwhile();
    return answer;
  }

  list(query: URLSearchParams, validator: string | undefined): HttpAnswer {
    const by = query.get('sort') === 'created' ? 'created' : 'updated';
    const sign = query.get('direction') === 'asc' ? 1 : -1;
    const pulls = [...this.pulls.values()]
      .filter(({ state }) => query.get('state') === 'all' || state === 'open')
      .sort((a, b) => sign * (a[by] - b[by] || a.number - b.number));
    const size = Number(query.get('per_page'));
    const page = Number(query.get('page') ?? 1);
    const last = Math.max(1, Math.ceil(pulls.length / size));
    const body = JSON.stringify(pulls.slice((page - 1) * size, page * size).map(asJson));
    const etag = `W/"${digest(body)}"`;
    const headers: Record<string, string> = { etag, ...links(query, page, last) };
    headers['date'] = new Date(this.now).toUTCString();
    if (validator === etag) return { status: 304, headers, body: Buffer.alloc(0) };
    return { status: 200, headers, body: Buffer.from(body) };
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function asJson({ number, created, state, updated }: Pull) {
  return {
    number,
    state,
    title: `Change ${number}`,
    created_at: new Date(created).toISOString(),
    updated_at: new Date(updated).toISOString(),
    merged_at: null,
    head: { ref: `change-${number}`, sha: 'a'.repeat(40) },
    base: { ref: 'main', repo: { id: 70100, full_name: 'acme/api' } },
  };
}

function links(query: URLSearchParams, page: number, last: number): { link?: string } {
  const to = (rel: string, target: number) => {
    const linked = new URLSearchParams(query);
    linked.set('page', String(target));
    return `<https://api.github.com/repositories/70100/pulls?${linked.toString()}>; rel="${rel}"`;
  };
  if (last === 1) return {};
  const before = page > 1 ? [to('prev', page - 1), to('first', 1)] : [];
  const after = page < last ? [to('next', page + 1), to('last', last)] : [];
  return { link: [...before, ...after].join(', ') };
}

const options = github.options.parse({ token: 'ghp_poll', repositories: ['acme/api'] });

const mirrorOf = (provider: Repository) => new PollMirror({ connector: github, options, unit: 'acme/api', provider });
const MINUTE = 60_000;

async function repositoryOf(count: number): Promise<Repository> {
  const repository = new Repository(createTravellingClock());
  for (let made = 0; made < count; made += 1) {
    repository.open();
    await repository.clock.advance(MINUTE);
  }
  return repository;
}

describe('the first walk', () => {
  it('takes the open pull requests, from the last page to the first', async () => {
    const repository = await repositoryOf(350);
    repository.set(7, 'closed');
    const mirror = mirrorOf(repository);
    await mirror.walk();
    expect(repository.requests.map(({ url }) => new URL(url).searchParams.get('page'))).toEqual([
      null,
      '4',
      '3',
      '2',
      '1',
    ]);
    expect(Object.keys(mirror.states)).toHaveLength(349);
    expect(mirror.states).not.toHaveProperty('7');
  });

  it('misses none when others are closed between its pages', async () => {
    const closings = fc.array(fc.array(fc.integer({ min: 1, max: 420 }), { maxLength: 30 }), {
      minLength: 6,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(closings, fc.boolean(), async (rounds, opens) => {
        const repository = await repositoryOf(420);
        let round = 0;
        repository.meanwhile = () => {
          for (const number of rounds[round++] ?? []) repository.set(number, 'closed');
          if (opens) repository.open();
        };
        const mirror = mirrorOf(repository);
        await mirror.walk();
        repository.meanwhile = () => {};
        const seen = mirror.states;
        const missed = [...repository.pulls.values()].filter(
          ({ number, state }) => number <= 420 && state === 'open' && !(String(number) in seen),
        );
        expect(missed).toEqual([]);
        // What happened meanwhile belongs to the next walk.
        await mirror.walk();
        for (const [number, state] of Object.entries(mirror.states))
          expect(state).toBe(repository.pulls.get(Number(number))?.state);
        expect(Object.keys(mirror.states).filter((number) => Number(number) > 420)).toHaveLength(
          repository.pulls.size - 420,
        );
      }),
      { numRuns: drawn(20) },
    );
  });
});

const anAction = fc.record({
  state: fc.constantFrom(undefined, 'closed' as const, 'open' as const),
  which: fc.nat(10_000),
});
const aRound = fc.record({ actions: fc.array(anAction, { maxLength: 150 }), minutes: fc.nat(600) });

/** Opens a new one, or closes or reopens one that exists. */
async function act(repository: Repository, { state, which }: { state?: Pull['state']; which: number }): Promise<void> {
  if (state === undefined) repository.open();
  else repository.set((which % repository.pulls.size) + 1, state);
  await repository.clock.advance(1_000);
}

describe('later walks', () => {
  it('end in the state of the provider, whatever happens between them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aRound, { minLength: 1, maxLength: 5 }), async (rounds) => {
        const repository = await repositoryOf(120);
        const mirror = mirrorOf(repository);
        await mirror.walk();
        for (const { actions, minutes } of rounds) {
          await repository.clock.advance(minutes * MINUTE);
          for (const action of actions) await act(repository, action);
          await mirror.walk();
          expect(mirror.states).toMatchObject(repository.states);
        }
      }),
      { numRuns: drawn(20) },
    );
  });
});

describe('a walk that cannot go on', () => {
  const pollWith = (headers: Record<string, string>, page?: string) => {
    const http = { request: async () => ({ status: 200, headers, body: Buffer.from('[]') }), close: async () => {} };
    const connection = github.connect(options, { http, clock: createTravellingClock(), logger: silentLogger });
    const position = { unit: 'acme/api', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z', page };
    return connection.poll(position, new AbortController().signal);
  };
  const next = (url: string) => ({ link: `<${url}>; rel="next"` });

  it.each([
    'https://api.github.com/repos/acme/api/pulls?page=3',
    'https://api.github.com/repositories/70100/pulls?page=3',
  ])('takes %s', async (url) => {
    expect(await pollWith(next(url), 'next:2')).toMatchObject({ next: 'next:3' });
  });

  it.each([
    'https://evil.example/repos/acme/api/pulls?page=3',
    'https://api.github.com@evil.example/repos/acme/api/pulls?page=3',
    'https://api.github.com.evil.example/repos/acme/api/pulls?page=3',
    'http://api.github.com/repos/acme/api/pulls?page=3',
    'https://api.github.com/repos/acme/api/issues?page=3',
    'https://api.github.com/repos/acme/other/pulls?page=3',
    'https://api.github.com/repos/acme/api/pulls/../../../../../../user?page=3',
    'https://api.github.com/repositories/70100/pulls/%2e%2e/keys?page=3',
    'https://api.github.com/repos/acme/api/pulls',
    'https://api.github.com/repos/acme/api/pulls?page=0',
    'https://api.github.com/repos/acme/api/pulls?page=x',
    'https://api.github.com/repos/acme/api/pulls?page=2',
    'https://api.github.com/repos/acme/api/pulls?page=1',
    '/repos/acme/api/pulls?page=3',
    '',
  ])('refuses %j', async (url) => {
    await expect(pollWith(next(url), 'next:2')).rejects.toMatchObject({ code: 'answer_malformed' });
  });

  it.each(['2', 'next:', 'next:2&state=open', 'https://evil.example'])('refuses the stored page %j', async (page) => {
    await expect(pollWith({}, page)).rejects.toMatchObject({ code: 'internal' });
  });
});
