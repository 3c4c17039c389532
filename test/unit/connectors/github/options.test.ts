import { describe, expect, it } from 'vitest';
import { github } from '../../../../src/connectors/github/index.ts';

const repositories = ['acme/api'];
const app = {
  id: 'Iv1abc',
  privateKey: '-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----',
  installationId: 66,
};
const problems = (given: object) =>
  github.options.safeParse({ repositories, ...given }).error?.issues.map(({ path }) => path.join('.')) ?? [];

describe('what is accepted', () => {
  it.each([
    {},
    { host: 'ghe.example.com' },
    { host: 'localhost' },
    { token: 'github_pat_11A' },
    { app },
    { apiUrl: 'https://proxy.example.com/github' },
    { apiUrl: 'http://localhost:9/api/v3' },
    { apiUrl: 'http://[::1]:9' },
    { repositories: ['a/b', 'acme-corp_x/Repo.name-1'] },
    { repositories: ['acme/.github'] },
    { token: 'x', repositories: ['acme/*', 'acme/api-*', '*/api', 70100, '70101'] },
    { token: 'x', repositories: undefined, organizations: ['acme', 'Other-Org'] },
    { app, repositories: undefined },
    { repositories: ['acme/api'], exclude: ['acme/api-*', 'acme/old', 7] },
    { archived: true, forks: true, issues: true },
  ])('%j', (given) => {
    expect(problems(given)).toEqual([]);
  });

  it('numbers and text as ids', () => {
    expect(github.options.parse({ repositories, app })).toMatchObject({ app: { id: 'Iv1abc', installationId: '66' } });
  });
});

describe('what is refused, and where', () => {
  it.each([
    [{ repositories: [] }, ['repositories']],
    [{ repositories: undefined }, ['repositories']],
    [{ repositories: ['acme'] }, ['repositories.0']],
    [{ repositories: ['acme/*'] }, ['repositories']],
    [{ repositories: undefined, organizations: ['acme'] }, ['repositories']],
    [{ token: 'x', repositories: [] }, ['repositories']],
    [{ token: 'x', organizations: ['acme/api'] }, ['organizations.0']],
    [{ token: 'x', organizations: ['..'] }, ['organizations.0']],
    [
      { token: 'x', repositories: ['acme/[ab]', 'acme/?', '-1', '**', 'a/../../../b'] },
      [0, 1, 2, 3, 4].map((n) => `repositories.${n}`),
    ],
    [{ exclude: ['acme'] }, ['exclude.0']],
    [{ repositories: ['acme/api', 'https://github.com/acme/api'] }, ['repositories.1']],
    [
      { repositories: ['../..', './.', 'acme/..', 'acme/api/x', 'acme/a%2f'] },
      [0, 1, 2, 3, 4].map((n) => `repositories.${n}`),
    ],
    [{ host: 'https://github.com' }, ['host']],
    [{ host: 'github.com/' }, ['host']],
    [{ host: 'ghe.example.com:8443' }, ['host']],
    [{ host: '' }, ['host']],
    [{ apiUrl: 'http://proxy.example.com' }, ['apiUrl']],
    [{ apiUrl: 'https://user:pw@proxy.example.com' }, ['apiUrl']],
    [{ apiUrl: 'https://proxy.example.com/?x=1' }, ['apiUrl']],
    [{ apiUrl: 'file:///etc/passwd' }, ['apiUrl']],
    [{ token: '' }, ['token']],
    [{ token: 'two words' }, ['token']],
    [{ token: 'line\nbreak' }, ['token']],
    [{ token: 'x', app }, ['app']],
    [{ app: { ...app, privateKey: 'key.pem' } }, ['app.privateKey']],
    [{ app: { ...app, installationId: '66/../../../67' } }, ['app.installationId']],
    [{ app: { ...app, extra: 1 } }, ['app']],
    [{ organisation: 'acme' }, ['']],
  ])('%j', (given, where) => {
    expect(problems(given)).toEqual(where);
  });

  it('says that patterns need a credential', () => {
    const issue = github.options.safeParse({ repositories: ['acme/*'] }).error?.issues[0];
    expect(issue?.message).toContain('need app or token');
  });
});

describe('the shortest poll', () => {
  const minutes = (given: object, count = 1) => {
    const names = Array.from({ length: count }, (_, at) => `acme/r${at}`);
    return (github.shortestPoll?.(github.options.parse({ repositories: names, ...given })) ?? 0) / 60_000;
  };

  it.each([
    [{ token: 'x' }, 1, 1],
    [{ app }, 100, 1],
    [{}, 1, 5],
    [{}, 4, 5],
    [{}, 40, 50],
  ])('with %j and %i repositories is %i minutes', (given, count, expected) => {
    expect(minutes(given, count)).toBe(expected);
  });

  it.each([1, 4, 7, 60])('never asks more than 60 times an hour without a token, %i repositories', (count) => {
    expect((60 / minutes({}, count)) * count).toBeLessThanOrEqual(60);
  });
});

describe('what only one connection should have', () => {
  it('is its App', () => {
    expect(github.exclusive?.(github.options.parse({ repositories, app }))).toBe('GitHub App Iv1abc of github.com');
    expect(github.exclusive?.(github.options.parse({ repositories, token: 'x' }))).toBeUndefined();
  });
});
