import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { bitbucketVendor } from '../support/vendors/provider-servers/bitbucket.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import type { HeldPull, Vendor } from '../support/vendors/provider-servers/provider.ts';

const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
/** Milliseconds of the API, which webhooks of some vendors do not have. */
const AT = Date.UTC(2026, 0, 5, 9) + 417;

interface Git {
  readonly vendor: Vendor;
  readonly repoId: string;
  readonly closed: 'closed' | 'declined';
  /** Where its API lists a pull request. */
  readonly path: string;
  /** Stands for the vendor: `created` resolves with the pull request before the request is answered. */
  stand(number: number, created: () => Promise<object>): void;
}

const GITHUB: Git = {
  vendor: githubVendor(WEBHOOK_SECRET),
  ...{ repoId: '5001', closed: 'closed', path: '/repos/acme/app/pulls' },
  stand(number, created) {
    const repository = { id: 5_001, full_name: 'acme/app', archived: false };
    const scope = nock('https://api.github.com').persist();
    scope.get('/repositories/5001').reply(200, repository);
    scope.get(`/repos/acme/app/branches/branch-${number}`).reply(200, {});
    nock('https://api.github.com').post('/repos/acme/app/pulls').reply(201, created);
  },
};

const BITBUCKET: Git = {
  vendor: bitbucketVendor(WEBHOOK_SECRET),
  ...{ repoId: UUID, closed: 'declined', path: '/repositories/acme/app/pullrequests' },
  stand(number, created) {
    const place = `/2.0/repositories/acme/${encodeURIComponent(UUID)}`;
    const answers: readonly (readonly [string, object])[] = [
      [`/2.0/repositories/%7B%7D/${encodeURIComponent(UUID)}`, { uuid: UUID, full_name: 'acme/app' }],
      [`${place}/refs/branches`, { values: [{ name: `branch-${number}` }] }],
      [`${place}/pullrequests`, { values: [] }],
      [`${place}/effective-default-reviewers`, { values: [] }],
    ];
    const scope = nock('https://api.bitbucket.org').persist();
    for (const [path, body] of answers) scope.get(path).query(true).reply(200, body);
    nock('https://api.bitbucket.org').post(`${place}/pullrequests`).query(true).reply(201, created);
  },
};

let world: World;
answerByNock('127.0.0.1');
beforeAll(async () => {
  const connection = (connector: string, scope: object) => ({
    ...{ connector, webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
    ...scope,
  });
  world = await createWorld({
    memberTokens: { github: 'ghp_ada', bitbucket: 'ATCTT3ada' },
    config: {
      connections: {
        github: connection('github', { repositories: ['acme/app'] }),
        bitbucket: connection('bitbucket', { repositories: ['acme/app'] }),
      },
    },
  });
  await world.settled();
});
afterAll(() => world.close());

let number = 0;
let deliveries = 0;

function pullNow(isClosed = false): HeldPull {
  const fields = { title: 'A change', description: 'Text', draft: false, head: 'abc', reviewers: [], labels: [] };
  const state = isClosed ? 'closed' : 'open';
  return {
    ...{ number, created: AT, updated: isClosed ? AT + 60_000 : AT, merged: null },
    fields: { ...fields, assignees: [], state },
  };
}

async function deliver({ vendor }: Git, isClosing = false): Promise<void> {
  const hook = vendor.hook(pullNow(isClosing), isClosing ? 'closed' : 'opened', `delivery-${++deliveries}`);
  expect(await world.post(vendor.id, hook)).toBe(202);
}

/** The only record of the pull request. */
async function record({ repoId }: Git) {
  const all = (await world.records()).filter((each) => each.repoId === repoId && each.identifier === String(number));
  expect(all.length).toBeLessThanOrEqual(1);
  return all[0];
}

/** Lets time pass while a request to the vendor is open, until the record is there in this state. */
async function recorded(git: Git, state: string): Promise<void> {
  for (let turn = 0; turn < 2_000; turn++) {
    for (let pause = 0; pause < 10; pause++) await new Promise((resolve) => setImmediate(resolve));
    if ((await record(git))?.state === state) return;
    await world.clock.advance(1_000);
  }
  throw new Error('the daemon did not record it');
}

const ARRIVALS: Readonly<Record<string, (git: Git) => Promise<void>>> = {
  async 'before the answer, and is recorded by then'(git) {
    await deliver(git);
    await recorded(git, 'open');
  },
  'while it is answered': (git) => deliver(git),
  'after the answer': async () => {},
};

const TEXTS = { title: 'A change', description: 'Text' };

describe.each([
  ['github', GITHUB],
  ['bitbucket', BITBUCKET],
] as const)('opened through the workspace at %s', (provider, git) => {
  /** Opens the next one; `meanwhile` happens before the vendor answers. */
  async function open(meanwhile: () => Promise<void>) {
    number++;
    const url = new URL(`http://vendor${git.path}/${number}`);
    const held = { pulls: new Map([[number, pullNow()]]), issues: new Map() };
    const object = git.vendor.answer({ method: 'GET', url, body: '' }, held)?.body as object;
    git.stand(number, async () => {
      await meanwhile();
      return object;
    });
    const wanted = { ...TEXTS, headBranch: `branch-${number}`, baseBranch: 'main' };
    return (await world.people.createPullRequest({ body: { provider, repoId: git.repoId, ...wanted } }, {})).body;
  }

  it.each(Object.entries(ARRIVALS))(
    'its webhook comes %s: one request more at most, and one record',
    async (_, arrival) => {
      const cost = await world.costOf(async () => {
        const opened = await open(() => arrival(git));
        expect(opened).toMatchObject({ identifier: String(number), state: 'open' });
        // After the answer, and twice: vendors repeat themselves.
        for (const _time of [1, 2]) {
          await deliver(git);
          await world.settled();
        }
        expect(await record(git)).toMatchObject({ provider, ...TEXTS, state: 'open', author: opened.author });
      });
      expect(cost).toBeLessThanOrEqual(1);
    },
  );

  it('closed before the answer comes: the answer, older than that, opens nothing again', async () => {
    const opened = await open(async () => {
      await deliver(git);
      await recorded(git, 'open');
      await deliver(git, true);
      await recorded(git, git.closed);
    });
    expect(opened).toMatchObject({ identifier: String(number), state: git.closed });
    await deliver(git, true);
    await world.settled();
    expect(await record(git)).toMatchObject({ ...TEXTS, state: git.closed, url: opened.url });
  });
});
