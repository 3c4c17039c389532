import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../src/connectors/azure-boards/index.ts';
import { bitbucket } from '../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import { jira } from '../../src/connectors/jira/index.ts';
import { linear } from '../../src/connectors/linear/index.ts';
import { redmine } from '../../src/connectors/redmine/index.ts';
import { sentry } from '../../src/connectors/sentry/index.ts';

type Refused = readonly [given: object, where: readonly string[]];

interface Vendor {
  readonly connector: unknown;
  readonly given: object;
  readonly accepted?: readonly object[];
  readonly refused: readonly Refused[];
}

/** Each of these values is refused where it stands in the list of that name. */
const each = (name: string, values: readonly unknown[], more: object = {}): Refused => [
  { [name]: values, ...more },
  values.map((_, at) => `${name}.${at}`),
];
const ESCAPES = ['../..', './.', 'acme/..', 'a/../../../b', 'acme/a%2f'];
const UUID = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const PRIVATE_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
  type: 'pkcs1',
  format: 'pem',
});
const app = { id: 'Iv1abc', privateKey: PRIVATE_KEY, installationId: 66 };
const person = { email: 'ada@example.com', apiToken: 'ATATT3x' };
/** Credentials would go out in clear, or to somebody else. */
const addresses = (name: string, address: string): readonly Refused[] => [
  [{ [name]: address.replace('https:', 'http:') }, [name]],
  [{ [name]: address.replace('//', '//user:pw@') }, [name]],
];

const VENDORS: readonly Vendor[] = [
  {
    connector: github,
    given: { repositories: ['acme/api'] },
    accepted: [
      {},
      { app },
      { apiUrl: 'http://localhost:9/api/v3' },
      { token: 'x', repositories: ['acme/*', 'acme/api-*', '*/api', 70100, '70101'] },
    ],
    refused: [
      [{ repositories: [] }, ['repositories']],
      [{ repositories: ['acme/*'] }, ['repositories']],
      each('repositories', ['acme/[ab]', 'acme/?', '-1', '**', ...ESCAPES, 'acme', 'acme/api/x'], { token: 'x' }),
      ...['https://github.com', 'github.com/', 'ghe.example.com:8443', ''].map((host) => [{ host }, ['host']] as const),
      ...addresses('apiUrl', 'https://proxy.example.com'),
      ...['', 'two words', 'line\nbreak'].map((token) => [{ token }, ['token']] as const),
      [{ token: 'x', app }, ['app']],
      [{ app: { ...app, privateKey: 'key.pem' } }, ['app.privateKey']],
      [{ app: { ...app, installationId: '66/../../../67' } }, ['app.installationId']],
    ],
  },
  {
    connector: gitlab,
    given: { projects: ['acme/api'] },
    accepted: [
      {},
      { host: 'example.com', apiUrl: 'https://example.com/gitlab/api/v4' },
      { projects: undefined, groups: ['acme', 'acme/platform'], archived: true, forks: true },
    ],
    refused: [
      [{ projects: [] }, ['projects']],
      each('projects', ['acme', '*/api', 'https://gitlab.com/acme/api', 0, -1, 1.5]),
      each('projects', ['../..', 'a/../../../b', './b', 'a/.', 'a//b', '/a/b', 'a/b/']),
      ...addresses('apiUrl', 'https://gitlab.example.com/api/v4'),
      each('groups', ['acme/*', '..', 'a/../../../b', 'a/', '']),
    ],
  },
  {
    connector: bitbucket,
    given: { repositories: ['acme/api'] },
    accepted: [
      {},
      person,
      { repositories: undefined, workspaces: ['acme'], exclude: ['acme/old', 'acme/*-fork'], forks: true },
    ],
    refused: [
      [{ repositories: [] }, ['repositories']],
      each('repositories', ['acme', '*/api', ...ESCAPES, 'acme/api/x', '{a}/b']),
      each('workspaces', ['acme/api', '*', '..']),
      ...addresses('apiUrl', 'https://proxy.example.com'),
      [{ token: 'two words' }, ['token']],
      [{ ...person, token: 'x' }, ['apiToken']],
      [{ ...person, email: 'a:b@example.com' }, ['email']],
    ],
  },
  {
    connector: jira,
    given: { site: 'acme.atlassian.net', cloudId: UUID, email: 'sync@example.com', token: 'T', projects: ['ENG'] },
    refused: [
      [{ cloudId: 'acme' }, ['cloudId']],
      [{ projects: [] }, ['projects']],
      each('projects', ['ENG-1', 'E G', '"', 0, '../../../x']),
      ...addresses('apiUrl', 'https://acme.atlassian.net'),
      [{ token: 'two words' }, ['token']],
    ],
  },
  {
    connector: linear,
    given: { organizationId: UUID, apiKey: 'lin_api_k', teams: ['ENG'] },
    refused: [
      [{ organizationId: 'acme' }, ['organizationId']],
      [{ teams: [] }, ['teams']],
      each('teams', ['ENG-1', 'E G', '', '../../../x']),
      [{ accessToken: 't' }, ['accessToken']],
      ...addresses('apiUrl', 'https://api.linear.app/graphql'),
    ],
  },
  {
    connector: azureBoards,
    given: { organization: 'acme', organizationId: UUID, token: 'pat', projects: ['Website'] },
    refused: [
      [{ organizationId: 'acme' }, ['organizationId']],
      [{ projects: [] }, ['projects']],
      each('projects', ['a/b', '..', '', 'a\u0000', "x'", 'y.']),
      [{ accessToken: 't' }, ['accessToken']],
      ...addresses('apiUrl', 'https://dev.azure.com/acme'),
    ],
  },
  {
    connector: redmine,
    given: { url: 'https://redmine.example.com/tracker/', projects: ['web*'] },
    refused: [
      ...addresses('url', 'https://redmine.example.com'),
      [{ projects: [] }, ['projects']],
      each('projects', ['a/b', '', '../../../x', 'a b']),
    ],
  },
  {
    connector: sentry,
    given: { organization: 'acme', projects: ['front-*'] },
    refused: [
      [{ projects: [] }, ['projects']],
      each('projects', ['a/b', '', '../../../x']),
      ...addresses('apiUrl', 'https://sentry.io/api/0'),
      [{ token: 'two words' }, ['token']],
    ],
  },
];

describe.each(VENDORS)('options of $connector.id', ({ connector, given, accepted = [{}], refused }) => {
  const { options } = connector as Connector<unknown>;
  const parsed = (more: object) => options.safeParse({ ...given, ...more });

  it.each(accepted)('accept %j', (more) => {
    expect(parsed(more).error).toBeUndefined();
  });

  it.each(refused)('refuse %j at %j', (more, where) => {
    expect(parsed(more).error?.issues.map(({ path }) => path.join('.'))).toEqual(where);
  });
});

it('of GitHub only one connection should have its App', () => {
  const exclusive = (given: object) =>
    github.exclusive?.(github.options.parse({ repositories: ['acme/api'], ...given }));
  expect(exclusive({ app })).toBe('GitHub App Iv1abc of github.com');
  expect(exclusive({ token: 'x' })).toBeUndefined();
});

describe('the shortest poll', () => {
  const shortest = (connector: unknown, given: object, count: number) => {
    const { shortestPoll, options } = connector as Connector<unknown>;
    const repositories = Array.from({ length: count }, (_, at) => `acme/r${at}`);
    return shortestPoll?.(options.parse({ repositories, ...given })) ?? 0;
  };

  it.each([
    [github, { token: 'x' }, 1, 60_000],
    [github, {}, 40, 3_000_000],
    [bitbucket, { token: 'x' }, 14, 63_000],
    [bitbucket, person, 200, 900_000],
  ])('of $id with %j and %i repositories is %i ms', (connector, given, count, expected) => {
    expect(shortest(connector, given, count)).toBe(expected);
  });
});
