import { describe } from 'vitest';
import { writings } from '../support/vendors/course.ts';
import { profile as bitbucket } from './git-writes/bitbucket.ts';
import { profile as github } from './git-writes/github.ts';
import { profile as gitlab } from './git-writes/gitlab.ts';

/** Members look for branches, open and edit pull requests: each conversation with each git provider, request by request. */
describe.each([github, gitlab, bitbucket])('$connector.id', (profile) => {
  writings(profile);
});
