import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/http/http-client.ts';
import { silentLogger } from '../../../../src/lib/logger.ts';
import { drawn } from '../../../support/depth.ts';
import { PollMirror } from '../../../support/poll-mirror.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/travelling-clock.ts';

/**
 * A project that behaves as GitLab's list does: filtered, sorted, cut into pages by offset, with plain page numbers and
 * an ETag over the content. Between two requests the world may go on.
 */
interface MergeRequest {
  readonly iid: number;
  readonly created: number;
  state: 'opened' | 'closed';
  updated: number;
}

const LIST = 'https://gitlab.com/api/v4/projects/acme%2Fapi/merge_requests';
const MINUTE = 60_000;
/** Above so many GitLab no longer counts them. */
const COUNTED = 10_000;

class Project {
  readonly all = new Map<number, MergeRequest>();
  readonly requests: HttpRequest[] = [];
  /** Called after each answer was made. */
  meanwhile: () => void = () => {};
  readonly clock: TravellingClock;
  counted = COUNTED;

  constructor(clock: TravellingClock) {
    this.clock = clock;
  }

  get now(): number {
    return this.clock.now();
  }

  open(): void {
    const iid = this.all.size + 1;
    this.all.set(iid, { iid, created: this.now, state: 'opened', updated: this.now });
  }

  set(iid: number, state: MergeRequest['state']): void {
    const found = this.all.get(iid) as MergeRequest;
    found.state = state;
    found.updated = this.now;
  }

  get states(): Record<string, string> {
    return Object.fromEntries([...this.all.values()].map(({ iid, state }) => [iid, state]));
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
    const by = query.get('order_by') === 'created_at' ? 'created' : 'updated';
    const sign = query.get('sort') === 'asc' ? 1 : -1;
    const since = Date.parse(query.get('updated_after') ?? '1970-01-01');
    const found = [...this.all.values()]
      .filter(({ state, updated }) => updated >= since && ['all', state].includes(query.get('state') ?? 'all'))
      .sort((a, b) => sign * (a[by] - b[by] || a.iid - b.iid));
    const size = Number(query.get('per_page'));
    const page = Number(query.get('page') ?? 1);
    const last = Math.max(1, Math.ceil(found.length / size));
    const body = JSON.stringify(found.slice((page - 1) * size, page * size).map(asJson));
    const headers: Record<string, string> = {
      etag: `W/"${hash('sha256', body)}"`,
      'x-next-page': page < last ? String(page + 1) : '',
      'x-prev-page': page > 1 ? String(page - 1) : '',
    };
    if (found.length <= this.counted) headers['x-total-pages'] = String(last);
    headers['date'] = new Date(this.now).toUTCString();
    if (validator === headers['etag']) return { status: 304, headers, body: Buffer.alloc(0) };
    return { status: 200, headers, body: Buffer.from(body) };
  }
}

function asJson({ iid, created, state, updated }: MergeRequest) {
  return {
    iid,
    project_id: 80200,
    state,
    title: `Change ${iid}`,
    description: null,
    created_at: new Date(created).toISOString(),
    updated_at: new Date(updated).toISOString(),
    source_branch: `change-${iid}`,
    target_branch: 'main',
  };
}

const options = gitlab.options.parse({ token: 'glpat-poll', projects: ['acme/api'] });

const mirrorOf = (provider: Project) => new PollMirror({ connector: gitlab, options, unit: 'acme/api', provider });

async function projectOf(count: number): Promise<Project> {
  const project = new Project(createTravellingClock());
  for (let made = 0; made < count; made += 1) {
    project.open();
    await project.clock.advance(MINUTE);
  }
  return project;
}

describe('the first walk', () => {
  const pagesOf = (project: Project) => project.requests.map(({ url }) => new URL(url).searchParams.get('page'));

  it('takes the open merge requests, from the last page to the first', async () => {
    const project = await projectOf(350);
    project.set(7, 'closed');
    const mirror = mirrorOf(project);
    await mirror.walk();
    expect(pagesOf(project)).toEqual([null, '4', '3', '2', '1']);
    expect(Object.keys(mirror.rawStates)).toHaveLength(349);
    expect(mirror.rawStates).not.toHaveProperty('7');
  });

  it('goes forward where GitLab does not count that many', async () => {
    const project = await projectOf(250);
    project.counted = 200;
    const mirror = mirrorOf(project);
    await mirror.walk();
    expect(pagesOf(project)).toEqual([null, '2', '3']);
    expect(Object.keys(mirror.rawStates)).toHaveLength(250);
  });

  it('misses none when others are closed between its pages', async () => {
    const closings = fc.array(fc.array(fc.integer({ min: 1, max: 320 }), { maxLength: 30 }), {
      minLength: 5,
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(closings, fc.boolean(), async (rounds, opens) => {
        const project = await projectOf(320);
        let round = 0;
        project.meanwhile = () => {
          for (const iid of rounds[round++] ?? []) project.set(iid, 'closed');
          if (opens) project.open();
        };
        const mirror = mirrorOf(project);
        await mirror.walk();
        project.meanwhile = () => {};
        const seen = mirror.rawStates;
        const missed = [...project.all.values()].filter(
          ({ iid, state }) => iid <= 320 && state === 'opened' && !(String(iid) in seen),
        );
        expect(missed).toEqual([]);
        // What happened meanwhile belongs to the next walk.
        await mirror.walk();
        expect(project.states).toMatchObject(mirror.rawStates);
        const opened = Object.keys(mirror.rawStates).filter((iid) => Number(iid) > 320);
        expect(opened).toHaveLength(project.all.size - 320);
      }),
      { numRuns: drawn(15) },
    );
  });
});

const anAction = fc.record({
  state: fc.constantFrom(undefined, 'closed' as const, 'opened' as const),
  which: fc.nat(10_000),
});
type Action = { readonly state?: MergeRequest['state'] | undefined; readonly which: number };
const aRound = fc.record({
  before: fc.array(anAction, { maxLength: 250 }),
  during: fc.array(fc.array(anAction, { maxLength: 20 }), { maxLength: 4 }),
  minutes: fc.nat(600),
});

/** Opens a new one, or closes or reopens one that exists. */
function act(project: Project, { state, which }: Action): void {
  if (state === undefined) project.open();
  else project.set((which % project.all.size) + 1, state);
}

describe('later walks', () => {
  it('lose nothing, whatever happens between them and between their pages', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aRound, { minLength: 1, maxLength: 4 }), async (rounds) => {
        const project = await projectOf(120);
        const mirror = mirrorOf(project);
        await mirror.walk();
        for (const { before, during, minutes } of rounds) {
          await project.clock.advance(minutes * MINUTE);
          for (const action of before) {
            act(project, action);
            await project.clock.advance(1_000);
          }
          const settled = project.states;
          const touched = new Set<string>();
          const left = [...during];
          project.meanwhile = () => {
            const older = project.states;
            for (const action of left.shift() ?? []) act(project, action);
            for (const iid of Object.keys(project.states)) if (older[iid] !== project.states[iid]) touched.add(iid);
          };
          await mirror.walk();
          project.meanwhile = () => {};
          const untouched = Object.entries(settled).filter(([iid]) => !touched.has(iid));
          expect(mirror.rawStates).toMatchObject(Object.fromEntries(untouched));
          await project.clock.advance(1_000);
        }
        await mirror.walk();
        expect(mirror.rawStates).toEqual(project.states);
      }),
      { numRuns: drawn(15) },
    );
  });

  it('see every one when those of a page that was read change again', async () => {
    const project = await projectOf(300);
    const mirror = mirrorOf(project);
    await mirror.walk();
    for (let iid = 1; iid <= 300; iid += 1) {
      await project.clock.advance(MINUTE);
      project.set(iid, 'closed');
    }
    let answers = 0;
    project.meanwhile = () => {
      answers += 1;
      if (answers === 1) for (const iid of [50, 250]) project.set(iid, 'opened');
    };
    await mirror.walk();
    expect(answers).toBeGreaterThan(2);
    const { 50: _, 250: __, ...others } = project.states;
    expect(mirror.rawStates).toMatchObject(others);
    await mirror.walk();
    expect(mirror.rawStates).toEqual(project.states);
  });
});

describe('the next page', () => {
  const pollWith = (headers: Record<string, string>, page?: string) => {
    const http = { request: async () => ({ status: 200, headers, body: Buffer.from('[]') }), close: async () => {} };
    const connection = gitlab.connect(options, { http, clock: createTravellingClock(), logger: silentLogger });
    const position = { unit: 'acme/api', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z', page };
    return connection.poll(position, new AbortController().signal);
  };
  const link = (url: string) => ({ link: `<${url}>; rel="next"` });

  it.each([
    link(`${LIST}?page=3`),
    link('https://gitlab.com/api/v4/projects/80200/merge_requests?page=3&per_page=100'),
    { 'x-next-page': '3', ...link('https://evil.example/?page=9') },
  ])('is taken from %j', async (headers) => {
    expect(await pollWith(headers, 'next:2')).toMatchObject({ next: 'next:3' });
  });

  it.each<Record<string, string>>([{}, { 'x-next-page': '' }])('is not there with %j', async (headers) => {
    expect(await pollWith(headers, 'next:2')).toMatchObject({ outcome: 'page', next: undefined });
  });

  it.each([
    { 'x-next-page': '2' },
    { 'x-next-page': '1' },
    { 'x-next-page': '3&state=opened' },
    ...[
      'https://evil.example/api/v4/projects/80200/merge_requests?page=3',
      'https://gitlab.com@evil.example/api/v4/projects/80200/merge_requests?page=3',
      'https://gitlab.com.evil.example/api/v4/projects/80200/merge_requests?page=3',
      'http://gitlab.com/api/v4/projects/80200/merge_requests?page=3',
      'https://gitlab.com/api/v4/projects/80200/issues?page=3',
      'https://gitlab.com/api/v4/projects/acme%2Fother/merge_requests?page=3',
      'https://gitlab.com/api/v4/projects/80200/merge_requests/../../../../../user?page=3',
      `${LIST}`,
      `${LIST}?page=0`,
      `${LIST}?page=x`,
      `${LIST}?page=2`,
      '/api/v4/projects/80200/merge_requests?page=3',
      '',
    ].map(link),
  ])('is refused from %j', async (headers) => {
    await expect(pollWith(headers, 'next:2')).rejects.toMatchObject({ code: 'answer_malformed' });
  });

  it.each(['2', 'next:', 'next:2&state=opened', 'https://evil.example'])('is refused as stored: %j', async (page) => {
    await expect(pollWith({}, page)).rejects.toMatchObject({ code: 'internal' });
  });
});
