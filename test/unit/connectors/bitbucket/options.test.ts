import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../../src/connectors/bitbucket/index.ts';

const repositories = ['acme/api'];
const person = { email: 'ada@example.com', apiToken: 'ATATT3x' };
const problems = (given: object) =>
  bitbucket.options.safeParse({ repositories, ...given }).error?.issues.map(({ path }) => path.join('.')) ?? [];

describe('what is accepted', () => {
  it.each([
    {},
    { token: 'ATCTT3x' },
    person,
    { apiUrl: 'https://proxy.example.com/bitbucket' },
    { apiUrl: 'http://localhost:9/2.0' },
    { repositories: ['a/b', 'acme-corp_x/repo.name-1', 'acme/api-*', 'acme/*'] },
    { repositories: undefined, workspaces: ['acme'], exclude: ['acme/old', 'acme/*-fork'], forks: true },
  ])('%j', (given) => {
    expect(problems(given)).toEqual([]);
  });
});

describe('what is refused, and where', () => {
  it.each([
    [{ repositories: [] }, ['repositories']],
    [{ repositories: undefined }, ['repositories']],
    [{ repositories: ['acme', '*/api', '../..', './.', 'acme/..', 'acme/api/x', 'acme/a%2f', '{a}/b'] }, 8],
    [{ workspaces: ['acme/api', '*', '..'] }, ['workspaces.0', 'workspaces.1', 'workspaces.2']],
    [{ exclude: ['acme'] }, ['exclude.0']],
    [{ apiUrl: 'http://proxy.example.com' }, ['apiUrl']],
    [{ apiUrl: 'https://user:pw@proxy.example.com' }, ['apiUrl']],
    [{ token: '' }, ['token']],
    [{ token: 'two words' }, ['token']],
    [{ ...person, token: 'x' }, ['apiToken']],
    [{ email: person.email }, ['apiToken']],
    [{ apiToken: person.apiToken }, ['apiToken']],
    [{ ...person, email: 'ada' }, ['email']],
    [{ ...person, email: 'a:b@example.com' }, ['email']],
    [{ ...person, apiToken: 'line\nbreak' }, ['apiToken']],
    [{ host: 'bitbucket.example.com' }, ['']],
    [{ password: 'x' }, ['']],
  ])('%j', (given, where) => {
    const expected = typeof where === 'number' ? Array.from({ length: where }, (_, at) => `repositories.${at}`) : where;
    expect(problems(given)).toEqual(expected);
  });
});

describe('the shortest poll', () => {
  const shortest = (given: object, count: number) => {
    const names = Array.from({ length: count }, (_, at) => `acme/r${at}`);
    return bitbucket.shortestPoll?.(bitbucket.options.parse({ repositories: names, ...given })) ?? 0;
  };

  it.each([
    [{ token: 'x' }, 13, 60_000],
    [{ token: 'x' }, 14, 63_000],
    [person, 200, 900_000],
    [{}, 1, 300_000],
    [{}, 4, 300_000],
    [{}, 40, 3_000_000],
  ])('with %j and %i repositories is %i ms', (given, count, expected) => {
    expect(shortest(given, count)).toBe(expected);
  });

  it.each([1, 4, 7, 60, 999])('takes at most four fifths of the limit, %i repositories', (count) => {
    const anHour = (given: object) => (3_600_000 / shortest(given, count)) * count;
    expect(anHour({ token: 'x' })).toBeLessThanOrEqual(800);
    expect(anHour({})).toBeLessThanOrEqual(48);
  });
});
