import { expect } from 'vitest';
import type { Connector, GitProvider, MemberAccess } from '../../../src/connectors/connector.ts';
import type { Turn } from '../../support/vendors/course.ts';

const { signal } = new AbortController();

type Act = (git: GitProvider, access: MemberAccess) => Promise<unknown>;

/** What a member does, the requests that follow from it, and what comes of it: a value, or an error. */
type Writing = readonly [name: string, act: Act, course: readonly Turn[], expected: unknown];

/** What a vendor's writes are put to the test with. */
export interface WritesProfile {
  readonly connector: Connector<never>;
  readonly origin: string;
  readonly access: MemberAccess;
  /** Stands on every request that names no other. */
  readonly authorization: string;
  readonly cases: readonly Writing[];
}

/** What members do in one repository; each part may be another. */
export function actsIn(repoId: string) {
  const wanted = { repoId, title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };
  return {
    has:
      (branch: string, more: object = {}, by: object = {}): Act =>
      async (git, access) =>
        git.hasBranch({ ...access, ...by }, { repoId, branch, ...more }, signal),
    open:
      (more: object = {}, by: object = {}): Act =>
      (git, access) =>
        git.openPullRequest({ ...access, ...by }, { ...wanted, ...more }, signal),
    edit:
      (fields: object): Act =>
      (git, access) =>
        git.editPullRequest(access, { repoId, identifier: '12', ...fields }, signal),
  };
}

export function failing(code: string, errorCode?: string, words = ''): unknown {
  return expect.objectContaining({ code, errorCode, message: expect.stringContaining(words) });
}

/** What was written: fields of the pull request, and why a part is missing; nothing is, unless told. */
export function written(repoId: string) {
  return (fields: object, refused?: unknown) => ({ repoId, pullRequest: expect.objectContaining(fields), refused });
}
