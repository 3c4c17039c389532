import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { github } from '../../../../src/connectors/github/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/http/http-client.ts';
import { drawn } from '../../../support/depth.ts';
import { PollMirror } from '../../../support/poll-mirror.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/travelling-clock.ts';

/**
 * The list of issues as GitHub has it: pull requests among them, "since", whole seconds, linked pages that are cut by
 * offset (the worse of the two ways it has), an ETag over the content. Between two requests the world may go on.
 */
interface Issue {
  readonly number: number;
  readonly isPull: boolean;
  state: 'open' | 'closed';
  updated: number;
}

const MINUTE = 60_000;
const SIZE = 100;
const options = github.options.parse({ token: 'ghp_x', repositories: ['acme/api'], issues: true });

const mirrorOf = (provider: Repository) =>
  new PollMirror({ connector: github, options, unit: 'issues:acme/api', provider });

class Repository {
  readonly issues: Issue[] = [];
  readonly requests: string[] = [];
  meanwhile: () => void = () => {};
  readonly clock: TravellingClock = createTravellingClock();

  open(isPull = false): void {
    this.issues.push({ number: this.issues.length + 1, isPull, state: 'open', updated: this.clock.now() });
  }

  set(at: number, state: Issue['state']): void {
    const issue = this.issues[at % this.issues.length] as Issue;
    issue.state = state;
    issue.updated = this.clock.now();
  }

  async request({ url, headers }: HttpRequest): Promise<HttpAnswer> {
    const { pathname, searchParams } = new URL(url);
    if (pathname === '/repos/acme/api') return answered({ id: 70100, full_name: 'acme/api', has_issues: true });
    if (pathname !== '/repos/acme/api/issues') throw new Error(`asked for ${url}`);
    this.requests.push(searchParams.toString());
    const answer = this.list(searchParams, headers?.['if-none-match']);
    this.meanwhile();
    return answer;
  }

  list(query: URLSearchParams, validator: string | undefined): HttpAnswer {
    const sign = query.get('direction') === 'asc' ? 1 : -1;
    const since = Date.parse(query.get('since') ?? '1970-01-01T00:00:00Z');
    const found = this.issues
      .filter(({ state, updated }) => (query.get('state') === 'all' || state === 'open') && whole(updated) >= since)
      .toSorted((a, b) => sign * (whole(a.updated) - whole(b.updated) || a.number - b.number));
    const page = Number(query.get('page') ?? 1);
    const body = found.slice((page - 1) * SIZE, page * SIZE).map(asJson);
    const etag = `"${createHash('sha256').update(JSON.stringify(body)).digest('hex')}"`;
    const date = new Date(this.clock.now()).toUTCString();
    if (validator === etag) return { status: 304, headers: { date, etag }, body: Buffer.alloc(0) };
    const more = new URLSearchParams({ ...Object.fromEntries(query), page: String(page + 1), after: `cursor${page}` });
    const link = `<https://api.github.com/repositories/70100/issues?${more.toString()}>; rel="next"`;
    return answered(body, { date, etag, ...(found.length > page * SIZE ? { link } : {}) });
  }

  get states(): Record<string, string> {
    const plain = this.issues.filter(({ isPull }) => !isPull);
    return Object.fromEntries(plain.map(({ number, state }) => [`#${number}`, state === 'open' ? 'open' : 'done']));
  }
}

function whole(time: number): number {
  return Math.floor(time / 1_000) * 1_000;
}

function answered(content: unknown, headers: Record<string, string> = {}): HttpAnswer {
  return { status: 200, headers, body: Buffer.from(JSON.stringify(content)) };
}

function asJson({ number, isPull, state, updated }: Issue) {
  return {
    id: 9_000 + number,
    number,
    state,
    title: `Issue ${number}`,
    updated_at: new Date(whole(updated)).toISOString(),
    ...(isPull && { pull_request: { url: 'x' } }),
  };
}

async function repositoryOf(count: number): Promise<Repository> {
  const repository = new Repository();
  for (let made = 0; made < count; made += 1) {
    repository.open(made % 5 === 0);
    await repository.clock.advance(MINUTE);
  }
  return repository;
}

describe('the first walk over issues', () => {
  it('takes the open ones, and no pull request', async () => {
    const repository = await repositoryOf(350);
    repository.set(6, 'closed');
    const mirror = mirrorOf(repository);
    await mirror.walk();
    expect(Object.keys(mirror.states)).toHaveLength(350 - 70 - 1);
    expect(mirror.states).not.toHaveProperty('#7');
  });

  it('misses none when others are closed between its pages', async () => {
    const closings = fc.array(fc.array(fc.nat(419), { maxLength: 30 }), { minLength: 6, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(closings, fc.boolean(), async (rounds, opens) => {
        const repository = await repositoryOf(420);
        let round = 0;
        repository.meanwhile = () => {
          for (const at of rounds[round++] ?? []) repository.set(at, 'closed');
          if (opens) repository.open();
        };
        const mirror = mirrorOf(repository);
        await mirror.walk();
        repository.meanwhile = () => {};
        const missed = repository.issues.filter(
          ({ number, isPull, state }) =>
            number <= 420 && !isPull && state === 'open' && !(`#${number}` in mirror.states),
        );
        expect(missed).toEqual([]);
        // What happened meanwhile belongs to the next walk.
        await mirror.walk();
        for (const [identifier, state] of Object.entries(mirror.states))
          expect(state).toBe(repository.states[identifier]);
      }),
      { numRuns: drawn(20) },
    );
  });

  it('ends where all share one second', async () => {
    const repository = new Repository();
    for (let made = 0; made < 350; made += 1) repository.open();
    const mirror = mirrorOf(repository);
    expect(await mirror.walk()).toBe(4);
    expect(Object.keys(mirror.states)).toHaveLength(350);
  });
});

describe('later walks over issues', () => {
  const anAction = fc.record({
    state: fc.constantFrom(undefined, 'closed' as const, 'open' as const),
    which: fc.nat(10_000),
  });
  const aRound = fc.record({ actions: fc.array(anAction, { maxLength: 150 }), minutes: fc.nat(600) });

  it('end in the state of the provider, whatever happens between them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aRound, { minLength: 1, maxLength: 5 }), async (rounds) => {
        const repository = await repositoryOf(120);
        const mirror = mirrorOf(repository);
        await mirror.walk();
        for (const { actions, minutes } of rounds) {
          await repository.clock.advance(minutes * MINUTE);
          for (const { state, which } of actions) {
            if (state === undefined) repository.open(which % 5 === 0);
            else repository.set(which, state);
            await repository.clock.advance(1_000);
          }
          await mirror.walk();
          expect(mirror.states).toMatchObject(repository.states);
        }
      }),
      { numRuns: drawn(20) },
    );
  });
});
