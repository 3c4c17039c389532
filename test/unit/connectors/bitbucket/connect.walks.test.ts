import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../../src/connectors/bitbucket/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/http/http-client.ts';
import { silentLogger } from '../../../../src/lib/logger.ts';
import type { PullRequest } from '../../../../src/model/item.ts';
import { drawn } from '../../../support/depth.ts';
import { PollMirror } from '../../../support/poll-mirror.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/travelling-clock.ts';

/**
 * A repository that behaves as Bitbucket's list does: filtered by state and time, sorted by the time of the last
 * change, cut into pages by offset, and linked to the next page by its number or by a word that means nothing to others.
 * Between two requests the world may go on.
 */
type State = 'OPEN' | 'MERGED' | 'DECLINED' | 'SUPERSEDED';

interface Pull {
  readonly id: number;
  state: State;
  /** Microseconds since 1970. */
  updated: number;
}

const API = 'https://api.bitbucket.org/2.0';
const PATH = '/repositories/acme/api/pullrequests';
const MINUTE = 60_000;

interface Manner {
  readonly cursors?: boolean;
}

class Repository {
  readonly pulls = new Map<number, Pull>();
  readonly requests: HttpRequest[] = [];
  /** Called after each answer was made. */
  meanwhile: () => void = () => {};
  readonly clock: TravellingClock;
  readonly manner: Manner;
  private last = 0;

  constructor(clock: TravellingClock, manner: Manner) {
    this.clock = clock;
    this.manner = manner;
  }

  get now(): number {
    return this.clock.now();
  }

  /** No two changes share a microsecond, as far as the test does not say otherwise. */
  private stamp(): number {
    this.last = Math.max(this.now * 1_000, this.last + 1);
    return this.last;
  }

  open(updated = this.stamp()): void {
    const id = this.pulls.size + 1;
    this.pulls.set(id, { id, state: 'OPEN', updated });
  }

  set(id: number, state: State): void {
    const pull = this.pulls.get(id) as Pull;
    pull.state = state;
    pull.updated = this.stamp();
  }

  get states(): Record<string, string> {
    return Object.fromEntries([...this.pulls.values()].map(({ id, state }) => [String(id), state]));
  }

  async request(request: HttpRequest): Promise<HttpAnswer> {
    this.requests.push(request);
    const url = new URL(request.url);
    if (!request.url.startsWith(`${API}${PATH}?`)) throw new Error(`asked for ${request.url}`);
    const answer = this.list(url.searchParams);
    this.meanwhile();
    return answer;
  }

  private list(query: URLSearchParams): HttpAnswer {
    const size = Number(query.get('pagelen'));
    if (size > 50) return { status: 400, headers: {}, body: Buffer.from('{"error":{"message":"Invalid pagelen"}}') };
    const { states, since } = conditionOf(query);
    const sign = query.get('sort')?.startsWith('-') ? -1 : 1;
    const pulls = [...this.pulls.values()]
      .filter(({ state, updated }) => states.includes(state) && updated >= since)
      .sort((a, b) => sign * (a.updated - b.updated || a.id - b.id));
    const page = Number(query.get('page') ?? query.get('ctx')?.slice(1) ?? 1);
    const values = pulls.slice((page - 1) * size, page * size).map(asJson);
    const next = page * size < pulls.length ? { next: this.linkTo(query, page + 1) } : {};
    const headers: Record<string, string> = {};
    headers['date'] = new Date(this.now).toUTCString();
    return { status: 200, headers, body: Buffer.from(JSON.stringify({ values, ...next })) };
  }

  private linkTo(query: URLSearchParams, page: number): string {
    const linked = new URLSearchParams(query);
    if (this.manner.cursors) linked.set('ctx', `c${page}`);
    else linked.set('page', String(page));
    return `${API}${PATH}?${linked.toString()}`;
  }
}

/**
 * The forms of condition that are sent: a time without quotes, and without the `Z` that Bitbucket refuses. Beside `q` the
 * parameter `state` counts for nothing.
 */
function conditionOf(query: URLSearchParams): { states: readonly string[]; since: number } {
  const q = query.get('q');
  if (q === null) return { states: query.getAll('state'), since: Number.NEGATIVE_INFINITY };
  const [, state, second, fraction = ''] =
    /^(?:state = "([A-Z]+)" AND )?updated_on >= (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00:00$/.exec(q) ?? [];
  if (second === undefined) throw new Error(`Bitbucket does not understand ${q}`);
  const since = Date.parse(`${second}Z`) * 1_000 + Number(fraction.padEnd(6, '0'));
  return { states: state === undefined ? ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'] : [state], since };
}

function asTime(micros: number): string {
  const fraction = String(micros % 1_000_000).padStart(6, '0');
  return `${new Date(Math.floor(micros / 1_000)).toISOString().slice(0, 19)}.${fraction}+00:00`;
}

function asJson({ id, state, updated }: Pull) {
  return {
    id,
    state,
    title: `Change ${id}`,
    updated_on: asTime(updated),
    reviewers: [],
    source: { branch: { name: `change-${id}` } },
    destination: {
      branch: { name: 'main' },
      repository: { uuid: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}', full_name: 'acme/api' },
    },
  };
}

const options = bitbucket.options.parse({ token: 'ATCTT3poll', repositories: ['acme/api'] });

const mirrorOf = (provider: Repository) =>
  new PollMirror({
    connector: bitbucket,
    options,
    unit: 'acme/api',
    provider,
    order: (item) => order(item as PullRequest),
  });

function order({ updatedAt, version = 0 }: PullRequest): number {
  return updatedAt * 1_000 + version;
}

async function repositoryOf(count: number, manner: Manner = {}): Promise<Repository> {
  const repository = new Repository(createTravellingClock(), manner);
  for (let made = 0; made < count; made += 1) {
    repository.open();
    await repository.clock.advance(MINUTE);
  }
  return repository;
}

const MANNERS: readonly [string, Manner][] = [
  ['numbered', {}],
  ['by cursor', { cursors: true }],
];

const aState = fc.constantFrom<State>('OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED');
const aChange = fc.record({ which: fc.nat(10_000), state: aState });

describe('the first walk', () => {
  it('takes the open pull requests, each page from where the last one ended', async () => {
    const repository = await repositoryOf(120);
    repository.set(7, 'MERGED');
    const mirror = mirrorOf(repository);
    expect(await mirror.walk()).toBe(3);
    const asked = repository.requests.map(({ url }) => new URL(url).searchParams);
    expect(asked.map((query) => query.get('q'))).toEqual([
      null,
      `state = "OPEN" AND updated_on >= ${asTime(repository.pulls.get(51)?.updated ?? 0)}`,
      `state = "OPEN" AND updated_on >= ${asTime(repository.pulls.get(100)?.updated ?? 0)}`,
    ]);
    for (const query of asked) expect(query.getAll('state')).toEqual(['OPEN']);
    expect(Object.keys(mirror.rawStates)).toHaveLength(119);
    expect(mirror.rawStates).not.toHaveProperty('7');
  });

  it.each(MANNERS)('misses none when others are closed and changed between its pages, %s', async (_, manner) => {
    const rounds = fc.array(fc.array(aChange, { maxLength: 30 }), { minLength: 6, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(rounds, fc.boolean(), async (changes, opens) => {
        const repository = await repositoryOf(210, manner);
        let round = 0;
        repository.meanwhile = () => {
          for (const { which, state } of changes[round++] ?? []) repository.set((which % 210) + 1, state);
          if (opens) repository.open();
        };
        const mirror = mirrorOf(repository);
        await mirror.walk();
        repository.meanwhile = () => {};
        // Those that were open all the time are known; what happened meanwhile belongs to the next walk.
        const touched = new Set(changes.flat().map(({ which }) => (which % 210) + 1));
        const untouched = Array.from({ length: 210 }, (_none, at) => at + 1).filter((id) => !touched.has(id));
        expect(untouched.filter((id) => !(String(id) in mirror.rawStates))).toEqual([]);
        await mirror.walk();
        expect(mirror.rawStates).toEqual(repository.states);
      }),
      { numRuns: drawn(15) },
    );
  });

  it.each(MANNERS)('reads on where more than a page share one time, %s', async (_, manner) => {
    const repository = await repositoryOf(30, manner);
    const imported = repository.now * 1_000;
    for (let made = 0; made < 170; made += 1) repository.open(imported);
    await repository.clock.advance(MINUTE);
    for (let made = 0; made < 40; made += 1) repository.open();
    const mirror = mirrorOf(repository);
    await mirror.walk();
    expect(mirror.rawStates).toEqual(repository.states);
  });

  it('leaves what is closed during a long walk to the next walk', async () => {
    const repository = await repositoryOf(120);
    const mirror = mirrorOf(repository);
    let page = 0;
    repository.meanwhile = () => {
      page += 1;
      if (page === 1) repository.set(1, 'DECLINED');
      repository.clock.jumpWall(3 * 60 * MINUTE);
      if (page === 1) repository.set(120, 'OPEN');
    };
    await mirror.walk();
    repository.meanwhile = () => {};
    expect(mirror.rawStates).toMatchObject({ 1: 'OPEN' });
    await mirror.walk();
    expect(mirror.rawStates).toEqual(repository.states);
  });
});

describe('later walks', () => {
  const aRound = fc.record({
    before: fc.array(aChange, { maxLength: 120 }),
    during: fc.array(fc.array(aChange, { maxLength: 10 }), { maxLength: 4 }),
    minutes: fc.nat(600),
  });

  it.each(MANNERS)(
    'end in the state of the provider, whatever happens between and during them, %s',
    async (_, manner) => {
      await fc.assert(
        fc.asyncProperty(fc.array(aRound, { minLength: 1, maxLength: 5 }), async (rounds) => {
          const repository = await repositoryOf(130, manner);
          const mirror = mirrorOf(repository);
          await mirror.walk();
          for (const { before, during, minutes } of rounds) {
            await repository.clock.advance(minutes * MINUTE);
            for (const { which, state } of before) repository.set((which % 130) + 1, state);
            repository.open();
            let page = 0;
            repository.meanwhile = () => {
              for (const { which, state } of during[page++] ?? []) repository.set((which % 130) + 1, state);
            };
            await mirror.walk();
          }
          repository.meanwhile = () => {};
          await mirror.walk();
          expect(mirror.rawStates).toEqual(repository.states);
        }),
        { numRuns: drawn(15) },
      );
    },
  );

  it('ask for every state, changes since the overlap, newest first, with the reviewers', async () => {
    const repository = await repositoryOf(3);
    const mirror = mirrorOf(repository);
    await mirror.walk();
    mirror.position.watermark = '2026-03-01T00:00:00.000Z';
    await mirror.walk();
    const query = new URL(repository.requests.at(-1)?.url ?? '').searchParams;
    expect(query.getAll('state')).toEqual(['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED']);
    expect(query.get('q')).toBe('updated_on >= 2026-02-28T23:50:00.000+00:00');
    expect(query.get('sort')).toBe('-updated_on');
    expect(query.get('fields')?.split(',')).toEqual(expect.arrayContaining(['next', 'values.id', 'values.reviewers']));
  });

  it('cost one request when nothing happened, and bring the same page each time', async () => {
    const repository = await repositoryOf(250);
    const mirror = mirrorOf(repository);
    await mirror.walk();
    await mirror.walk();
    const bodies = new Set<string>();
    for (let quiet = 0; quiet < 3; quiet += 1) {
      await repository.clock.advance(60 * MINUTE);
      const position = { unit: 'acme/api', watermark: mirror.position.watermark, startedAt: '2026-03-01T00:00:00Z' };
      const page = await mirror.connection.poll(position, new AbortController().signal);
      if (page.outcome !== 'page') throw new Error(page.outcome);
      bodies.add(page.body.toString());
      expect(await mirror.walk()).toBe(1);
    }
    expect(bodies.size).toBe(1);
  });
});

describe('a walk that cannot go on', () => {
  const pollWith = (next: unknown, page?: string) => {
    const body = Buffer.from(JSON.stringify({ values: [], next }));
    const http = { request: async () => ({ status: 200, headers: {}, body }), close: async () => {} };
    const connection = bitbucket.connect(options, { http, clock: createTravellingClock(), logger: silentLogger });
    const position = { unit: 'acme/api', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z', page };
    return connection.poll(position, new AbortController().signal);
  };

  it.each([
    ['page=3', 'page=3'],
    ['q=a%20%3E%20b&page=3', 'q=a%20%3E%20b&page=3'],
    ['ctx=abc%2B', 'ctx=abc%2B'],
  ])('follows ?%s as it is given', async (query, kept) => {
    expect(await pollWith(`${API}${PATH}?${query}`, 'link:page=2')).toMatchObject({ next: `link:${kept}` });
  });

  it.each([
    `https://evil.example/2.0${PATH}?page=3`,
    `https://api.bitbucket.org@evil.example/2.0${PATH}?page=3`,
    `https://api.bitbucket.org.evil.example/2.0${PATH}?page=3`,
    `http://api.bitbucket.org/2.0${PATH}?page=3`,
    `${API}/repositories/acme/api/commits?page=3`,
    `${API}/repositories/acme/other/pullrequests?page=3`,
    `${API}${PATH}/?page=3`,
    `${API}${PATH}/../../../../../../user?page=3`,
    `${API}${PATH}/%2e%2e/hooks?page=3`,
    `${API}${PATH}`,
    `${API}${PATH}?page=2`,
    `${API}${PATH}?page=1`,
    `${PATH}?page=3`,
    '',
    7,
    null,
    { href: `${API}${PATH}?page=3` },
  ])('refuses %j', async (next) => {
    await expect(pollWith(next, 'link:page=2')).rejects.toMatchObject({ code: 'answer_malformed' });
  });

  it.each(['2', 'link:', 'since:now', 'since:2026-03-01T00:00:00Z OR id > 0', 'since:', 'https://evil.example'])(
    'refuses the stored page %j',
    async (page) => {
      await expect(pollWith(undefined, page)).rejects.toMatchObject({ code: 'internal' });
    },
  );
});
