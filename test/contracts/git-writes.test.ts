import { describe, expect, it } from 'vitest';
import { gitCourse } from '../support/vendors/course.ts';
import { profile as bitbucket } from './git-writes/bitbucket.ts';
import { profile as github } from './git-writes/github.ts';
import { profile as gitlab } from './git-writes/gitlab.ts';

/** Members look for branches, open and edit pull requests: each conversation with each git provider, request by request. */
describe.each([github, gitlab, bitbucket])('$connector.id', ({ connector, origin, access, authorization, cases }) => {
  it.each(cases)('%s', async (_, act, course, expected) => {
    const turns = course.map(
      ([asked, reply, sent, headers = { authorization }]) => [asked, reply, sent, headers] as const,
    );
    const came: unknown = await act(gitCourse(connector, origin, turns), access).catch((error: unknown) => error);
    expect(came).toEqual(expected);
  });
});
