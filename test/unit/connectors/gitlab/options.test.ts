import { describe, expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';

const projects = ['acme/api'];
const problems = (given: object) =>
  gitlab.options.safeParse({ projects, ...given }).error?.issues.map(({ path }) => path.join('.')) ?? [];

describe('what is accepted', () => {
  it.each([
    {},
    { host: 'gitlab.example.com' },
    { host: 'example.com', apiUrl: 'https://example.com/gitlab/api/v4' },
    { apiUrl: 'http://127.0.0.1:9/api/v4' },
    { token: 'glpat-x_y.z' },
    { projects: [4861503, '4861503'] },
    { projects: ['group/sub.group/deeper_one/Project-1.x', '_a/b'] },
    { projects: ['acme/*', 'acme/platform/**', 'acme/*/api-*'], exclude: ['acme/old-*', 7] },
    { projects: undefined, groups: ['acme', 'acme/platform'], archived: true, forks: true },
    { issues: true, confidential: true },
  ])('%j', (given) => {
    expect(problems(given)).toEqual([]);
  });

  it('numbers as texts, hosts in lower case', () => {
    expect(gitlab.options.parse({ host: 'GitLab.Example.com', projects: [7] })).toEqual({
      host: 'gitlab.example.com',
      projects: ['7'],
      groups: [],
      exclude: [],
      archived: false,
      forks: false,
      issues: false,
      commits: false,
      confidential: false,
    });
  });
});

describe('what is refused, and where', () => {
  it.each([
    [{ projects: [] }, ['projects']],
    [{ projects: undefined }, ['projects']],
    [{ projects: ['acme'] }, ['projects.0']],
    [{ projects: ['*/api', 'https://gitlab.com/acme/api', 0, -1, 1.5] }, [0, 1, 2, 3, 4].map((n) => `projects.${n}`)],
    [
      { projects: ['../..', 'a/../../../b', './b', 'a/.', 'a//b', '/a/b', 'a/b/'] },
      [0, 1, 2, 3, 4, 5, 6].map((n) => `projects.${n}`),
    ],
    [{ projects: ['acme/a%2f', 'acme/a b', 'acme/a?b'] }, [0, 1, 2].map((n) => `projects.${n}`)],
    [{ host: 'https://gitlab.com' }, ['host']],
    [{ host: 'example.com/gitlab' }, ['host']],
    [{ apiUrl: 'http://gitlab.example.com/api/v4' }, ['apiUrl']],
    [{ apiUrl: 'https://user:pw@gitlab.example.com' }, ['apiUrl']],
    [{ token: 'two words' }, ['token']],
    [{ groups: ['acme/*', '..', 'a/../../../b', 'a/', ''] }, [0, 1, 2, 3, 4].map((n) => `groups.${n}`)],
    [{ group: 'acme' }, ['']],
    [{ issues: 'yes' }, ['issues']],
  ])('%j', (given, where) => {
    expect(problems(given)).toEqual(where);
  });
});
