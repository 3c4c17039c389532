import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import type { HttpAnswer, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { drawn } from '../../support/harness/depth.ts';
import { PollMirror } from '../../support/harness/poll-mirror.ts';
import { courseOf } from '../../support/vendors/course.ts';
import { bitbucketVendor } from '../../support/vendors/provider-servers/bitbucket.ts';
import { githubTracker } from '../../support/vendors/provider-servers/github.ts';
import { gitlabVendor } from '../../support/vendors/provider-servers/gitlab.ts';
import { createProvider, type Vendor } from '../../support/vendors/provider-servers/provider.ts';

/** Walks over the lists of model vendors. Items may change between two requests. */

const MINUTE = 60_000;
const API = 'https://api.example.com';

interface ListModel {
  readonly name: string;
  readonly connector: Connector<unknown>;
  readonly vendor: () => Vendor;
  readonly unit: string;
  readonly size: number;
  readonly closed: string;
  identifier(number: number): string;
}

interface Action {
  readonly which: number;
  readonly isOpen?: boolean | undefined;
}

const FIELDS = {
  title: 'A change',
  description: '',
  draft: false,
  reviewers: [],
  labels: [],
  assignees: [],
  head: 'a',
};

class World {
  readonly requests: HttpRequest[] = [];
  /** Called after each answer. */
  meanwhile: () => void = () => {};
  readonly clock = createTravellingClock();
  readonly model: ListModel;
  readonly #provider;
  readonly #open: boolean[] = [];

  constructor(model: ListModel) {
    this.model = model;
    this.#provider = createProvider(model.vendor(), { clock: this.clock });
  }

  get count(): number {
    return this.#open.length;
  }

  open(): void {
    this.#open.push(true);
    this.set(this.count, true);
  }

  /** Sets the state of an item. Every fifth element of the list of issues is a pull request. */
  set(number: number, isOpen: boolean): void {
    this.#open[number - 1] = isOpen;
    if (this.#isIssue(number)) this.#provider.change(number, { state: isOpen ? 'open' : 'done' });
    const state = isOpen ? ('open' as const) : ('closed' as const);
    const line = { at: 0, updated: 0, connection: 'main', event: 'edited', item: `app/${number}` };
    if (!this.#isIssue(number)) this.#provider.happen({ ...line, fields: { ...FIELDS, state } }, this.clock.now());
  }

  #isIssue(number: number): boolean {
    return this.model.unit.startsWith('issues:') && number % 5 !== 0;
  }

  /** Whether the list contains the item. */
  contains(number: number): boolean {
    return this.#isIssue(number) || !this.model.unit.startsWith('issues:');
  }

  isOpen(number: number): boolean {
    return this.#open[number - 1] === true;
  }

  /** Opens a new item, or closes or reopens an existing one. */
  act({ which, isOpen }: Action): void {
    if (isOpen === undefined) this.open();
    else this.set((which % this.count) + 1, isOpen);
  }

  get states(): Record<string, string> {
    const { identifier, closed } = this.model;
    const numbers = this.#open.map((_, index) => index + 1).filter((number) => this.contains(number));
    return Object.fromEntries(numbers.map((each) => [identifier(each), this.isOpen(each) ? 'open' : closed]));
  }

  async request(request: HttpRequest): Promise<HttpAnswer> {
    const { method, url, headers } = request;
    this.requests.push(request);
    const asked = { method, url: new URL(url), body: '' };
    const answer = this.#provider.answer(asked, headers ?? {});
    this.meanwhile();
    return { ...answer, body: Buffer.from(answer.body) };
  }
}

const GITHUB: ListModel = {
  ...{ name: 'github', connector: github as Connector<unknown>, vendor: () => githubTracker('s'), unit: 'acme/app' },
  ...{ size: 100, closed: 'closed', identifier: String },
};
const ISSUES: ListModel = {
  ...{ ...GITHUB, name: 'github, issues', unit: 'issues:acme/app', closed: 'done' },
  identifier: (number) => `#${number}`,
};
const GITLAB: ListModel = {
  ...{ ...GITHUB, name: 'gitlab', connector: gitlab as Connector<unknown>, vendor: () => gitlabVendor('s') },
};
const BITBUCKET: ListModel = {
  ...{ ...GITHUB, name: 'bitbucket', connector: bitbucket as Connector<unknown>, vendor: () => bitbucketVendor('s') },
  ...{ size: 50, closed: 'declined' },
};

/** A world with so many items, one a minute. */
async function worldOf(model: ListModel, count: number): Promise<World> {
  const world = new World(model);
  for (let made = 0; made < count; made += 1) {
    world.open();
    await world.clock.advance(MINUTE);
  }
  return world;
}

function mirrorOf(world: World) {
  const { connector, vendor, unit } = world.model;
  return new PollMirror({ connector, options: connector.options.parse(vendor().options(API)), unit, provider: world });
}

const LIST_MODELS = [GITHUB, ISSUES, GITLAB, BITBUCKET];

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
        const missed = Array.from({ length: count }, (_, at) => at + 1).filter(
          (each) => world.contains(each) && world.isOpen(each) && !(model.identifier(each) in mirror.states),
        );
        expect(missed).toEqual([]);
        // The next walk reads what changed meanwhile.
        await mirror.walk();
        expect(world.states).toMatchObject(mirror.states);
      }),
      { numRuns: drawn(20) },
    );
  });

  it('continue if more elements than a page contains share one time', async () => {
    const world = await worldOf(model, 30);
    for (let made = 0; made < 3 * model.size + 20; made += 1) world.open();
    await world.clock.advance(MINUTE);
    for (let made = 0; made < 40; made += 1) world.open();
    const mirror = mirrorOf(world);
    await mirror.walk();
    expect(mirror.states).toEqual(world.states);
  });
});

describe('the next page of a list', () => {
  const PULLS = 'https://api.github.com/repos/acme/api/pulls';
  const position = { unit: 'acme/api', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z' };
  const pollWith = (url: string) => {
    const reply = { headers: { link: `<${url}>; rel="next"` }, body: [] };
    const { connection } = courseOf(github, { repositories: ['acme/api'] }, 'https://', [['*', reply]]);
    return connection.poll({ ...position, page: 'next:2' }, new AbortController().signal);
  };

  it.each([PULLS, 'https://api.github.com/repositories/70100/pulls'])('is read from %s', async (url) => {
    expect(await pollWith(`${url}?page=3`)).toMatchObject({ outcome: 'page', next: 'next:3' });
  });

  it.each([
    `${PULLS.replace(/\/\/[^/]+/, '$&.evil.example')}?page=3`,
    `${PULLS.replace(/\/\/[^/]+/, '$&@evil.example')}?page=3`,
    `${PULLS.replace('https:', 'http:')}?page=3`,
    'https://api.github.com/repos/acme/other/pulls?page=3',
    'https://api.github.com/repos/acme/api/issues?page=3',
    `${PULLS}/../../../../../../user?page=3`,
    `${PULLS}?page=2`,
    `${PULLS}?page=x`,
    '',
  ])('is rejected from %j [A4]', async (url) => {
    await expect(pollWith(url)).rejects.toMatchObject({ code: 'answer_malformed' });
  });
});
