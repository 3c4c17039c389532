import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../src/connectors/azure-boards/index.ts';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { inScope, matches, type Scope } from '../../../src/connectors/kit/scope.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import type { Names } from '../../../src/model/names.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { drawn } from '../../support/harness/depth.ts';
import { translationsOf } from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

describe('matches', () => {
  it.each([
    ['Acme/API', 'acme/api', true],
    ['acme/api', 'acme/api-2', false],
    ['acme/*', 'acme/api', true],
    ['acme/*', 'acme/group/api', false],
    ['acme/**', 'acme/group/api', true],
    ['acme/api-*', 'acme/api-web', true],
    // Only stars are special characters.
    ['acme/a.i', 'acme/api', false],
  ])('%j against %j is %s', (pattern, name, expected) => {
    expect(matches(pattern, name)).toBe(expected);
  });

  it('agrees with an equivalent regular expression', () => {
    const text = (alphabet: string) => fc.stringMatching(new RegExp(`^[${alphabet}]{0,12}$`));
    fc.assert(
      fc.property(text('ab/*'), text('ab/'), (pattern, name) => {
        const source = pattern.replace(/\*\*|\*/g, (stars) => (stars === '**' ? '.*' : '[^/]*'));
        expect(matches(pattern, name)).toBe(new RegExp(`^${source}$`).test(name));
      }),
      { numRuns: drawn(2_000) },
    );
  });

  it('takes time proportional to both lengths [A8]', () => {
    // A backtracking engine would not finish.
    expect(matches(`${'a*'.repeat(200)}b`, 'a'.repeat(400))).toBe(false);
  });
});

describe('inScope', () => {
  const scope: Scope = { include: ['acme/*', 'tools/cli', '42'], exclude: [], archived: false, forks: false };
  const candidate = { id: '7', name: 'acme/api' };

  it('includes names, patterns and ids', () => {
    expect(inScope(candidate, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'Tools/CLI' }, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'other/api' }, scope)).toBe(false);
  });

  it('includes archived repositories and forks only if an option or a name does', () => {
    for (const trait of [{ archived: true }, { fork: true }]) {
      expect(inScope({ ...candidate, ...trait }, scope)).toBe(false);
      expect(inScope({ ...candidate, ...trait, id: '42' }, scope)).toBe(true);
      expect(inScope({ ...trait, id: '8', name: 'tools/cli' }, scope)).toBe(true);
      expect(inScope({ ...candidate, ...trait }, { ...scope, archived: true, forks: true })).toBe(true);
    }
  });

  it('excludes what `exclude` matches, even if it is named', () => {
    for (const exclude of ['acme/api', 'acme/a*', '7'])
      expect(inScope(candidate, { ...scope, exclude: [exclude] })).toBe(false);
    expect(inScope({ id: '42', name: 'tools/cli' }, { ...scope, exclude: ['tools/*'] })).toBe(false);
  });
});

describe('a name that is bound to an id', () => {
  const bound = new Map([['acme/api', '1']]);
  const reported: string[] = [];
  const names = {
    idOf: (entry: string) => bound.get(entry.toLowerCase()),
    addressOf: (unit: string) => bound.get(unit.toLowerCase()) ?? unit,
    report: ({ id, name }: { id: string; name: string }) => void reported.push(`${id} ${name}`),
  };
  const scope = (include: readonly string[], exclude: readonly string[] = []): Scope => ({
    include,
    exclude,
    archived: false,
    forks: false,
    names,
  });

  it.each([
    ['1', 'acme/api', ['Acme/API'], true],
    ['1', 'acme/core', ['acme/api'], true],
    ['1', 'other/core', ['acme/api'], true],
    ['2', 'acme/api', ['acme/api'], false],
    // An unbound entry matches by name.
    ['3', 'acme/web', ['acme/web'], true],
    // A pattern matches current names.
    ['2', 'acme/api', ['acme/api', 'acme/*'], true],
  ])('%s %s in %j: %s', (id, name, include, expected) => {
    expect(inScope({ id, name }, scope(include))).toBe(expected);
  });

  it('is excluded by its current name, and each candidate is reported to the name bindings', () => {
    reported.length = 0;
    expect(inScope({ id: '1', name: 'acme/secret' }, scope(['acme/api'], ['acme/secret']))).toBe(false);
    expect(reported).toEqual(['1 acme/secret']);
  });
});

/** One webhook of a vendor, and the scopes that include it and those that do not. */
interface VendorScopes {
  readonly connector: Connector<never>;
  readonly given: object;
  readonly event: string;
  readonly payload: unknown;
  readonly followed: readonly object[];
  readonly ignored: readonly object[];
}

const opened = fixture<{ repository: object; pull_request: { base: { repo: object } } }>(
  'github',
  'pull_request.opened',
);
const created = fixture<{ repository: object }>('bitbucket', 'pullrequest.created');
const merge = fixture<{ project: object }>('gitlab', 'merge_request.open');

/** GitHub names the repository twice. */
function ofGithub(change: object) {
  const repo = { ...opened.pull_request.base.repo, ...change };
  const pull_request = { ...opened.pull_request, base: { ...opened.pull_request.base, repo } };
  return { ...opened, repository: { ...opened.repository, ...change }, pull_request };
}

const GITHUB = { connector: github as Connector<unknown>, given: { token: 'x' }, event: 'pull_request' };
const ORG = { organizations: ['acme'] };
const BITBUCKET = { connector: bitbucket as Connector<unknown>, given: { token: 'x' }, event: 'pullrequest:created' };
const ofBitbucket = (change: object) => ({ ...created, repository: { ...created.repository, ...change } });
const GITLAB = { connector: gitlab as Connector<unknown>, given: {}, event: 'Merge Request Hook' };
const ofGitlab = (path_with_namespace: string) => ({ ...merge, project: { ...merge.project, path_with_namespace } });
const GROUP = { groups: ['acme/platform'], exclude: ['acme/platform/deep/**'] };

const SCOPES = [
  {
    ...{ ...GITHUB, payload: opened, ignored: [{ ...ORG, exclude: ['acme/api'] }] },
    followed: [{ repositories: ['acme/*'] }, ORG],
  },
  {
    ...{ ...GITHUB, payload: ofGithub({ archived: true }), ignored: [ORG] },
    followed: [{ ...ORG, archived: true }, { repositories: ['acme/api'] }],
  },
  {
    ...{ ...GITHUB, payload: ofGithub({ fork: true }), ignored: [ORG] },
    followed: [{ ...ORG, forks: true }, { repositories: ['acme/api'] }],
  },
  {
    // Renamed and transferred: the id is the same.
    ...{ ...GITHUB, payload: ofGithub({ full_name: 'other/gateway' }) },
    ...{ followed: [{ repositories: [70100] }], ignored: [{ repositories: ['acme/api'] }] },
  },
  {
    ...{ ...BITBUCKET, payload: ofBitbucket({ parent: null }), followed: [{ workspaces: ['Acme'] }] },
    ignored: [{ repositories: ['acme/*'], exclude: ['acme/api'] }, { workspaces: ['other'] }],
  },
  {
    ...{ ...BITBUCKET, payload: ofBitbucket({ parent: { uuid: '{7d3f4c1a-52be-4a0e-9c61-000000000000}' } }) },
    ...{ followed: [{ workspaces: ['acme'], forks: true }], ignored: [{ workspaces: ['acme'] }] },
  },
  {
    ...{ ...GITLAB, payload: merge },
    followed: [['acme/platform/api'], ['ACME/platform/Api'], ['80200'], [80200]].map((projects) => ({ projects })),
    ignored: ['acme/api', 'platform/api', 'acme/platform/api2', '8020', '802000'].map((each) => ({ projects: [each] })),
  },
  {
    ...{ ...GITLAB, payload: ofGitlab('Acme/Platform/sub/x') },
    followed: [GROUP],
    ignored: [{ groups: ['acme/plat'] }],
  },
  { ...{ ...GITLAB, payload: ofGitlab('acme/platform/deep/x') }, followed: [{ groups: ['acme'] }], ignored: [GROUP] },
] as unknown as readonly VendorScopes[];

describe.each(SCOPES)(
  '$connector.id follows what its scope includes',
  ({ connector, given, event, payload, ...scopes }) => {
    const { hook } = translationsOf({ connector, given });

    it.each(scopes.followed)('with %j', (scope) => {
      expect(hook(event, payload, scope).outcome).toMatch(/^(items|references)$/);
    });

    it.each(scopes.ignored)('not with %j', (scope) => {
      const reason = expect.stringMatching(/_not_in_scope$/) as string;
      expect(hook(event, payload, scope)).toMatchObject({ outcome: 'ignored', reason });
    });
  },
);

it.each([
  [jira, '11223344-a1b2-4b33-8444-def123456789'],
  [linear, '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6'],
  [azureBoards, '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6'],
])('$id follows everything of any host without a configuration', (vendor, host) => {
  const { unrestricted, host: hostOf } = vendor as unknown as Required<Connector<unknown>>;
  expect(hostOf(unrestricted(host))).toBe(host);
  expect(() => unrestricted('example.com')).toThrow(expect.objectContaining({ code: 'usage' }));
});

const { signal } = new AbortController();
const UUID = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const BOUND = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';

/** An answer with enough fields for the check of each vendor. */
const ANSWER = {
  ...{
    id: 70100,
    key: 'NEW',
    name: 'New',
    full_name: 'acme/new',
    path_with_namespace: 'acme/new',
    value: [],
    values: [],
  },
  ...{ cloudId: UUID, instanceId: UUID, authenticatedUser: { id: 'me' }, accountId: 'me', displayName: 'Me' },
  data: { viewer: { name: 'Me' }, organization: { id: UUID, urlKey: 'acme' }, webhooks: { nodes: [], pageInfo: {} } },
};

interface Vendor {
  readonly connector: Connector<never>;
  readonly options: object;
  readonly name: string;
  readonly id: string;
}

const atJira = { site: 'acme.atlassian.net', cloudId: UUID, email: 'a@example.com', token: 'x' };
const VENDORS: readonly (readonly [string, Vendor])[] = (
  [
    { connector: github, options: { repositories: ['acme/taken'], token: 'x' }, name: 'acme/taken', id: '70100' },
    { connector: gitlab, options: { projects: ['acme/taken'], token: 'x' }, name: 'acme/taken', id: '70100' },
    {
      connector: bitbucket,
      options: { repositories: ['acme/taken'], token: 'x' },
      name: 'acme/taken',
      id: `{${BOUND}}`,
    },
    { connector: jira, options: { ...atJira, projects: ['TAKEN'] }, name: 'TAKEN', id: '70100' },
    { connector: linear, options: { organizationId: UUID, teams: ['TAKEN'], apiKey: 'x' }, name: 'TAKEN', id: BOUND },
    {
      connector: azureBoards,
      options: { organization: 'acme', organizationId: UUID, projects: ['Taken'], token: 'x' },
      ...{ name: 'Taken', id: BOUND },
    },
  ] as unknown as readonly Vendor[]
).map((vendor) => [vendor.connector.id, vendor]);

/** Returns a connection with a name that is bound to this id, and its requests. */
function connect({ connector, options, name, id }: Vendor) {
  const requests: string[] = [];
  const http = {
    async request({ method, url, body }: HttpRequest) {
      requests.push(decodeURIComponent(`${method} ${url} ${String(body ?? '')}`));
      const answer = url.endsWith('/rest/webhooks/1.0/webhook') && method === 'GET' ? [] : ANSWER;
      return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
    },
    close: async () => {},
  };
  const bound = { id, name: 'acme/elsewhere' };
  const names: Names = {
    idOf: (entry) => (entry === name ? id : undefined),
    addressOf: (unit) => (unit === name ? (connector.unitOf?.(bound) ?? id) : unit),
    report: () => undefined,
  };
  const given = { ...(connector.options.parse(options) as object), names } as never;
  return {
    connection: connector.connect(given, { http, clock: createTravellingClock(), logger: silentLogger }),
    requests,
  };
}

/** Ignores failures, because only the requests before them matter here. */
async function ignoringFailure(work: Promise<unknown> | undefined): Promise<void> {
  await work?.catch(() => undefined);
}

it.each(VENDORS)('%s checks a unit and registers its webhooks by the bound id of its name', async (_, vendor) => {
  const { connection, requests } = connect(vendor);
  const url = 'https://sync.example.com/webhooks/acme/vendor';
  await ignoringFailure(connection.check(signal));
  await ignoringFailure(connection.hooks?.states(url, signal));
  await ignoringFailure(connection.hooks?.install(url, 'a secret of some length', signal));
  expect(requests.filter((each) => each.includes(vendor.name))).toEqual([]);
  expect(requests.some((each) => each.includes(vendor.id))).toBe(true);
});
