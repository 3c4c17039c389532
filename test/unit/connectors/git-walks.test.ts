import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import type { Item } from '../../../src/model/item.ts';
import type { HttpAnswer, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { drawn } from '../../support/harness/depth.ts';
import { PollMirror } from '../../support/harness/poll-mirror.ts';
import { courseOf, type Reply } from '../../support/vendors/course.ts';

/**
 * Walks over lists that behave as those of the git providers: filtered, sorted, cut into pages by offset, and linked in the
 * vendor's way. Items may change between two requests.
 */

const MINUTE = 60_000;
const SECOND = 1_000_000;

interface Element {
  readonly number: number;
  /** Microseconds since 1970, as all times here. */
  readonly created: number;
  isOpen: boolean;
  updated: number;
}

interface ListModel {
  readonly name: string;
  readonly connector: Connector<unknown>;
  readonly options: object;
  readonly unit: string;
  readonly size: number;
  /** The resolution of the vendor's times, microseconds. */
  readonly unitOfTime: number;
  readonly closed: string;
  identifier(number: number): string;
  list(
    query: URLSearchParams,
    world: World,
  ): { elements: Element[]; page: number; of: (elements: Element[]) => unknown };
  /** Headers, or parts of the body, that lead to other pages. */
  links(
    query: URLSearchParams,
    page: number,
    last: number,
    world: World,
  ): { headers?: Record<string, string>; body?: object };
}

class World {
  readonly elements: Element[] = [];
  readonly requests: URLSearchParams[] = [];
  /** Called after each answer. */
  meanwhile: () => void = () => {};
  /** GitLab reports no number of pages for lists with more elements. */
  counted = 10_000;
  readonly clock = createTravellingClock();
  readonly model: ListModel;
  #last = 0;

  constructor(model: ListModel) {
    this.model = model;
  }

  /** Returns a time of its own for each change, rounded to the resolution of the vendor's times. */
  #stamp(): number {
    this.#last = Math.max(this.clock.now() * 1_000, this.#last + 1);
    return Math.floor(this.#last / this.model.unitOfTime) * this.model.unitOfTime;
  }

  open(updated = this.#stamp()): void {
    this.elements.push({ number: this.elements.length + 1, created: updated, isOpen: true, updated });
  }

  set(number: number, isOpen: boolean): void {
    const element = this.elements[number - 1] as Element;
    Object.assign(element, { isOpen, updated: this.#stamp() });
  }

  /** Opens a new element, or closes or reopens an existing one. */
  act({ which, isOpen }: Action): void {
    if (isOpen === undefined) this.open();
    else this.set((which % this.elements.length) + 1, isOpen);
  }

  get states(): Record<string, string> {
    const { identifier, closed } = this.model;
    return Object.fromEntries(
      this.elements
        .filter(isListed(this.model))
        .map(({ number, isOpen }) => [identifier(number), isOpen ? 'open' : closed]),
    );
  }

  async request({ url, headers }: HttpRequest): Promise<HttpAnswer> {
    const { pathname, searchParams: query } = new URL(url);
    if (pathname === '/repos/acme/api') return answered({ id: 70100, full_name: 'acme/api', has_issues: true }, {});
    if (pathname === '/api/v4/projects/acme%2Fapi')
      return answered(
        { id: 80200, path_with_namespace: 'acme/api', default_branch: 'main', visibility: 'private' },
        {},
      );
    this.requests.push(query);
    const { model } = this;
    const { elements, page, of } = model.list(query, this);
    const last = Math.max(1, Math.ceil(elements.length / model.size));
    const linked = model.links(query, page, last, this);
    const content = of(elements.slice((page - 1) * model.size, page * model.size));
    const etag = `W/"${hash('sha256', JSON.stringify(content))}"`;
    const all = { etag, date: new Date(this.clock.now()).toUTCString(), ...linked.headers };
    this.meanwhile();
    if (headers?.['if-none-match'] === etag) return { status: 304, headers: all, body: Buffer.alloc(0) };
    return answered(linked.body ? { ...(content as object), ...linked.body } : content, all);
  }
}

interface Action {
  readonly which: number;
  readonly isOpen?: boolean | undefined;
}

/** Every fifth element of the list of issues is a pull request. */
const isListed =
  ({ unit }: ListModel) =>
  ({ number }: Element) =>
    !unit.startsWith('issues:') || number % 5 !== 0;

function answered(content: unknown, headers: Record<string, string>): HttpAnswer {
  return { status: 200, headers, body: Buffer.from(JSON.stringify(content)) };
}

const at = (micros: number) => new Date(micros / 1_000).toISOString();
const micros = (time: string | null) => Date.parse(time ?? '1970-01-01T00:00:00Z') * 1_000;

function sorted(elements: Element[], by: 'created' | 'updated', sign: number): Element[] {
  return elements.toSorted((a, b) => sign * (a[by] - b[by] || a.number - b.number));
}

function pageIn(query: URLSearchParams, more: Record<string, string>): URLSearchParams {
  const linked = new URLSearchParams(query);
  for (const [name, value] of Object.entries(more)) linked.set(name, value);
  return linked;
}

const GITHUB: ListModel = {
  name: 'github',
  connector: github as Connector<unknown>,
  options: { token: 'ghp_poll', repositories: ['acme/api'] },
  unit: 'acme/api',
  size: 100,
  unitOfTime: 1_000,
  closed: 'closed',
  identifier: String,
  list(query, { elements }) {
    const selected = elements.filter(({ isOpen }) => query.get('state') === 'all' || isOpen);
    const by = query.get('sort') === 'created' ? 'created' : 'updated';
    return {
      elements: sorted(selected, by, query.get('direction') === 'asc' ? 1 : -1),
      page: Number(query.get('page') ?? 1),
      of: (found) =>
        found.map(({ number, created, isOpen, updated }) => ({
          number,
          state: isOpen ? 'open' : 'closed',
          title: `Change ${number}`,
          merged_at: null,
          created_at: at(created),
          updated_at: at(updated),
          head: { ref: `change-${number}`, sha: 'a' },
          base: { ref: 'main', repo: { id: 70100, full_name: 'acme/api' } },
        })),
    };
  },
  links(query, page, last) {
    const to = (rel: string, target: number) =>
      `<https://api.github.com/repositories/70100/pulls?${pageIn(query, { page: String(target) }).toString()}>; rel="${rel}"`;
    if (last === 1) return {};
    const before = page > 1 ? [to('prev', page - 1), to('first', 1)] : [];
    const after = page < last ? [to('next', page + 1), to('last', last)] : [];
    return { headers: { link: [...before, ...after].join(', ') } };
  },
};

/** Pages by offset, which is the less safe of GitHub's two ways. */
const ISSUES: ListModel = {
  ...GITHUB,
  name: 'github, issues',
  options: { token: 'ghp_poll', repositories: ['acme/api'], issues: true },
  unit: 'issues:acme/api',
  unitOfTime: SECOND,
  closed: 'done',
  identifier: (number: number) => `#${number}`,
  list(query, world) {
    const elements = world.elements.filter(({ updated }) => updated >= micros(query.get('since')));
    return {
      ...GITHUB.list(query, { elements } as World),
      of: (found) =>
        found.map(({ number, isOpen, updated }) => ({
          id: 9_000 + number,
          number,
          state: isOpen ? 'open' : 'closed',
          title: `Issue ${number}`,
          updated_at: at(updated),
          ...(number % 5 === 0 && { pull_request: { url: 'x' } }),
        })),
    };
  },
  links(query, page, last) {
    const more = pageIn(query, { page: String(page + 1), after: `cursor${page}` }).toString();
    const link = `<https://api.github.com/repositories/70100/issues?${more}>; rel="next"`;
    return page < last ? { headers: { link } } : {};
  },
};

const GITLAB: ListModel = {
  name: 'gitlab',
  connector: gitlab as Connector<unknown>,
  options: { token: 'glpat-poll', projects: ['acme/api'] },
  unit: 'acme/api',
  size: 100,
  unitOfTime: 1_000,
  closed: 'closed',
  identifier: String,
  list(query, { elements }) {
    const selected = elements.filter(
      ({ isOpen, updated }) =>
        updated >= micros(query.get('updated_after')) &&
        ['all', isOpen ? 'opened' : 'closed'].includes(query.get('state') ?? 'all'),
    );
    const by = query.get('order_by') === 'created_at' ? 'created' : 'updated';
    return {
      elements: sorted(selected, by, query.get('sort') === 'asc' ? 1 : -1),
      page: Number(query.get('page') ?? 1),
      of: (found) =>
        found.map(({ number, created, isOpen, updated }) => ({
          iid: number,
          project_id: 80200,
          state: isOpen ? 'opened' : 'closed',
          title: `Change ${number}`,
          description: null,
          source_branch: `change-${number}`,
          target_branch: 'main',
          created_at: at(created),
          updated_at: at(updated),
        })),
    };
  },
  links(_query, page, last, { counted, model }) {
    const plain = {
      'x-next-page': page < last ? String(page + 1) : '',
      'x-prev-page': page > 1 ? String(page - 1) : '',
    };
    return { headers: last * model.size <= counted ? { ...plain, 'x-total-pages': String(last) } : plain };
  },
};

const BITBUCKET: ListModel = {
  name: 'bitbucket',
  connector: bitbucket as Connector<unknown>,
  options: { token: 'ATCTT3poll', repositories: ['acme/api'] },
  unit: 'acme/api',
  size: 50,
  unitOfTime: 1,
  closed: 'declined',
  identifier: String,
  list(query, { elements }) {
    if (Number(query.get('pagelen')) !== 50) throw new Error('Invalid pagelen');
    const { states, since } = conditionOf(query);
    const selected = elements.filter(
      ({ isOpen, updated }) => states.includes(isOpen ? 'OPEN' : 'DECLINED') && updated >= since,
    );
    return {
      elements: sorted(selected, 'updated', query.get('sort')?.startsWith('-') ? -1 : 1),
      page: Number(query.get('page') ?? query.get('ctx')?.slice(1) ?? 1),
      of: (found) => ({
        values: found.map(({ number, isOpen, updated }) => ({
          id: number,
          state: isOpen ? 'OPEN' : 'DECLINED',
          title: `Change ${number}`,
          reviewers: [],
          updated_on: bitbucketTime(updated),
          source: { branch: { name: `change-${number}` } },
          destination: {
            branch: { name: 'main' },
            repository: { uuid: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}', full_name: 'acme/api' },
          },
        })),
      }),
    };
  },
  links(query, page, last) {
    const next = pageIn(query, { page: String(page + 1) }).toString();
    const link = `https://api.bitbucket.org/2.0/repositories/acme/api/pullrequests?${next}`;
    return { body: page < last ? { next: link } : {} };
  },
};

/** Links with an opaque cursor. */
const CURSORS: ListModel = {
  ...BITBUCKET,
  name: 'bitbucket, by cursor',
  links(query, page, last) {
    const next = pageIn(query, { ctx: `c${page + 1}` }).toString();
    const link = `https://api.bitbucket.org/2.0/repositories/acme/api/pullrequests?${next}`;
    return { body: page < last ? { next: link } : {} };
  },
};

/** Parses the conditions that worksync sends: times without quotes and without `Z`, which Bitbucket refuses. With `q`, `state` has no effect. */
function conditionOf(query: URLSearchParams): { states: readonly string[]; since: number } {
  const q = query.get('q');
  if (q === null) return { states: query.getAll('state'), since: 0 };
  const form = /^(?:state = "([A-Z]+)" AND )?updated_on >= (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00:00$/;
  const [, state, second, fraction = ''] = form.exec(q) ?? [];
  if (second === undefined) throw new Error(`Bitbucket does not understand ${q}`);
  return {
    states: state === undefined ? ['OPEN', 'DECLINED'] : [state],
    since: micros(`${second}Z`) + Number(fraction.padEnd(6, '0')),
  };
}

function bitbucketTime(micros: number): string {
  return `${at(micros).slice(0, 19)}.${String(micros % SECOND).padStart(6, '0')}+00:00`;
}

async function worldOf(model: ListModel, count: number): Promise<World> {
  const world = new World(model);
  const start = world.clock.now() * 1_000;
  for (let made = 0; made < count; made += 1) world.open(start + made * MINUTE * 1_000);
  await world.clock.advance(count * MINUTE);
  return world;
}

function mirrorOf(world: World) {
  const { connector, options, unit } = world.model;
  const order = ({ updatedAt, version = 0 }: Item & { version?: number }) => updatedAt * 1_000 + version;
  return new PollMirror({ connector, options: connector.options.parse(options), unit, provider: world, order });
}

const LIST_MODELS = [GITHUB, ISSUES, GITLAB, BITBUCKET, CURSORS];
const anAction = fc.record({ which: fc.nat(10_000), isOpen: fc.constantFrom(undefined, false, true) });
const actions = (maxLength: number) => fc.array(anAction, { maxLength });

describe.each(LIST_MODELS)('walks over the list of $name', (model) => {
  it('miss no open item when others are closed between the pages of the first walk', async () => {
    const count = model.size * 4 + 20;
    const closings = fc.array(fc.array(fc.integer({ min: 1, max: count }), { maxLength: 30 }), {
      minLength: 6,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(closings, fc.boolean(), async (rounds, opens) => {
        const world = await worldOf(model, count);
        let round = 0;
        world.meanwhile = () => {
          for (const number of rounds[round++] ?? []) world.set(number, false);
          if (opens) world.open();
        };
        const mirror = mirrorOf(world);
        await mirror.walk();
        world.meanwhile = () => {};
        const missed = world.elements.filter(
          (element) =>
            isListed(model)(element) &&
            element.number <= count &&
            element.isOpen &&
            !(model.identifier(element.number) in mirror.states),
        );
        expect(missed).toEqual([]);
        // The next walk reads what changed meanwhile.
        await mirror.walk();
        expect(world.states).toMatchObject(mirror.states);
        for (const element of world.elements.slice(count).filter(isListed(model)))
          expect(mirror.states).toHaveProperty(model.identifier(element.number));
      }),
      { numRuns: drawn(20) },
    );
  });

  it('end in the state of the provider, whatever changes between and during them', async () => {
    const aRound = fc.record({
      before: actions(150),
      during: fc.array(actions(20), { maxLength: 4 }),
      minutes: fc.nat(600),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(aRound, { minLength: 1, maxLength: 4 }), async (rounds) => {
        const world = await worldOf(model, 120);
        const mirror = mirrorOf(world);
        await mirror.walk();
        for (const { before, during, minutes } of rounds) {
          await world.clock.advance(minutes * MINUTE);
          for (const action of before) {
            world.act(action);
            await world.clock.advance(1_000);
          }
          const left = [...during];
          world.meanwhile = () => {
            for (const action of left.shift() ?? []) world.act(action);
          };
          await mirror.walk();
          world.meanwhile = () => {};
          await world.clock.advance(1_000);
        }
        await mirror.walk();
        expect(mirror.states).toEqual(world.states);
      }),
      { numRuns: drawn(20) },
    );
  });

  it('continue if more elements than a page contains share one time', async () => {
    const world = await worldOf(model, 30);
    const imported = world.clock.now() * 1_000;
    for (let made = 0; made < 3 * model.size + 20; made += 1) world.open(imported);
    await world.clock.advance(MINUTE);
    for (let made = 0; made < 40; made += 1) world.open();
    const mirror = mirrorOf(world);
    await mirror.walk();
    expect(mirror.states).toEqual(world.states);
  });
});

describe('the first walk', () => {
  it.each([
    ['github from the last page to the first', GITHUB, 'page', [null, '4', '3', '2', '1']],
    ['gitlab from the last page to the first', GITLAB, 'page', [null, '4', '3', '2', '1']],
    [
      'github issues from the end of the last page',
      ISSUES,
      'since',
      [null, '2026-01-05T10:39:59Z', '2026-01-05T12:18:59Z', '2026-01-05T13:57:59Z'],
    ],
    [
      'bitbucket from the end of the last page',
      BITBUCKET,
      'q',
      [
        null,
        ...['09:50', '10:39', '11:28', '12:17', '13:06', '13:55', '14:44'].map(
          (time) => `state = "OPEN" AND updated_on >= 2026-01-05T${time}:00.000000+00:00`,
        ),
      ],
    ],
  ] as const)('reads %s', async (_, model, parameter, expected) => {
    const world = await worldOf(model, 350);
    world.set(7, false);
    const mirror = mirrorOf(world);
    await mirror.walk();
    expect(world.requests.map((query) => query.get(parameter))).toEqual(expected);
    const { [model.identifier(7)]: _none, ...open } = world.states;
    expect(mirror.states).toEqual(open);
  });

  it('reads forward if GitLab does not report the number of pages', async () => {
    const world = await worldOf(GITLAB, 250);
    world.counted = 200;
    const mirror = mirrorOf(world);
    await mirror.walk();
    expect(world.requests.map((query) => query.get('page'))).toEqual([null, '2', '3']);
    expect(Object.keys(mirror.states)).toHaveLength(250);
  });
});

const PULLS = 'https://api.github.com/repos/acme/api/pulls';
const MERGES = 'https://gitlab.com/api/v4/projects/acme%2Fapi/merge_requests';
const BY_NUMBER = 'https://gitlab.com/api/v4/projects/80200/merge_requests';
const REQUESTS = 'https://api.bitbucket.org/2.0/repositories/acme/api/pullrequests';
const link = (url: unknown): Reply => ({ headers: { link: `<${String(url)}>; rel="next"` }, body: [] });
const plain = (page: string): Reply => ({ headers: { 'x-next-page': page }, body: [] });
const next = (url: unknown): Reply => ({ body: { values: [], next: url } });

/** Links to other hosts and other paths, and links back. */
const wrongLinks = (url: string, other: string) => [
  `${url.replace(/\/\/[^/]+/, '//evil.example')}?page=3`,
  `${url.replace(/\/\/[^/]+/, '$&@evil.example')}?page=3`,
  `${url.replace(/\/\/[^/]+/, '$&.evil.example')}?page=3`,
  `${url.replace('https:', 'http:')}?page=3`,
  `${other}?page=3`,
  `${url}/../../../../../../user?page=3`,
  `${url}/%2e%2e/keys?page=3`,
  `${url}?page=2`,
  `${url}?page=1`,
  url,
  `${new URL(url).pathname}?page=3`,
  '',
];
const numbered = (url: string) => [`${url}?page=0`, `${url}?page=x`];

describe.each([
  {
    ...GITHUB,
    page: 'next:2',
    taken: [`${PULLS}?page=3`, 'https://api.github.com/repositories/70100/pulls?page=3'].map((url) => [
      link(url),
      'next:3',
    ]),
    refused: [
      ...wrongLinks(PULLS, 'https://api.github.com/repos/acme/other/pulls'),
      ...numbered(PULLS),
      'https://api.github.com/repos/acme/api/issues?page=3',
    ].map(link),
    stored: ['2', 'next:', 'next:2&state=open', 'https://evil.example'],
  },
  {
    ...GITLAB,
    page: 'next:2',
    taken: [
      [link(`${MERGES}?page=3`), 'next:3'],
      [link(`${BY_NUMBER}?page=3&per_page=100`), 'next:3'],
      [{ ...plain('3'), headers: { ...link('https://evil.example/?page=9').headers, 'x-next-page': '3' } }, 'next:3'],
      [{ body: [] }, undefined],
      [plain(''), undefined],
    ],
    refused: [
      ...['2', '1', '3&state=opened'].map(plain),
      ...[
        ...wrongLinks(MERGES, 'https://gitlab.com/api/v4/projects/acme%2Fother/merge_requests'),
        ...numbered(MERGES),
        'https://gitlab.com/api/v4/projects/80200/issues?page=3',
      ].map(link),
    ],
    stored: ['2', 'next:', 'next:2&state=opened', 'https://evil.example'],
  },
  {
    ...BITBUCKET,
    page: 'link:page=2',
    taken: ['page=3', 'q=a%20%3E%20b&page=3', 'ctx=abc%2B'].map((query) => [
      next(`${REQUESTS}?${query}`),
      `link:${query}`,
    ]),
    refused: [
      ...wrongLinks(REQUESTS, 'https://api.bitbucket.org/2.0/repositories/acme/other/pullrequests'),
      ...['https://api.bitbucket.org/2.0/repositories/acme/api/commits?page=3', `${REQUESTS}/?page=3`],
      ...[7, null, { href: `${REQUESTS}?page=3` }],
    ].map(next),
    stored: ['2', 'link:', 'since:now', 'since:2026-03-01T00:00:00Z OR id > 0', 'since:', 'https://evil.example'],
  },
])('the next page of $name', ({ connector, options, unit, page, taken, refused, stored }) => {
  const position = { unit, watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z' };
  const pollWith = (at: string, reply?: Reply) => {
    const { connection } = courseOf(connector, options, 'https://', reply ? [['*', reply]] : []);
    return connection.poll({ ...position, page: at }, new AbortController().signal);
  };

  it.each(taken as [Reply, string | undefined][])('is read from %j', async (reply, expected) => {
    expect(await pollWith(page, reply)).toMatchObject({ outcome: 'page', next: expected });
  });

  it.each(refused)('is rejected from %j', async (reply) => {
    await expect(pollWith(page, reply)).rejects.toMatchObject({ code: 'answer_malformed' });
  });

  it.each(stored)('is rejected if it is stored as %j', async (at) => {
    await expect(pollWith(at)).rejects.toMatchObject({ code: 'internal' });
  });
});
