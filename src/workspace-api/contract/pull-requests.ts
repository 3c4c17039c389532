import { z } from 'zod';
import { PROVIDERS, PULL_REQUEST_STATES } from './field-values.ts';
import { answered, asked, listOf, openEnum, type Route, sent } from './route.ts';

/** W57: a number is accepted, a string is returned. */
const numberOrName = z.union([z.int().nonnegative().transform(String), sent.name]);

/** W58. `taskIds` is worked out by the service from the work-item links with this address. */
const pullRequest = z
  .looseObject({
    provider: answered.id.meta({ 'x-extensible-enum': PROVIDERS }),
    repoId: answered.id,
    identifier: answered.id,
    title: answered.string,
    description: answered.text,
    headBranch: answered.string,
    baseBranch: answered.string,
    state: openEnum(PULL_REQUEST_STATES),
    draft: answered.flag,
    url: answered.text,
    author: answered.text,
    reviewers: answered.strings,
    labels: answered.strings,
    assignees: answered.strings,
    // An absent list says nothing about links; an empty one says that there are none.
    taskIds: z.array(z.string()).optional().catch(undefined),
    createdAt: answered.time,
    updatedAt: answered.time,
    mergedAt: answered.time,
  })
  .meta({ id: 'PullRequest' });

const people = z.array(sent.name).max(1_000);

/** Fields that an edit may change (W59). */
const editable = {
  description: sent.text.optional(),
  draft: z.boolean().optional(),
  state: z.enum(PULL_REQUEST_STATES).optional(),
  reviewers: people.optional(),
  labels: people.optional(),
  assignees: people.optional(),
};

/**
 * W59, W74. Fields that a repeated record leaves out keep their values: a record that never knew a field does not
 * clear it. `null` and `[]` clear.
 */
const newPullRequest = z
  .object({
    provider: z.enum(PROVIDERS),
    repoId: numberOrName,
    identifier: numberOrName.optional(),
    title: sent.title,
    headBranch: sent.name,
    baseBranch: sent.name,
    ...editable,
    url: sent.url.nullish(),
    author: sent.name.nullish(),
    createdAt: sent.time.optional(),
    mergedAt: sent.time.nullish(),
  })
  .meta({ id: 'NewPullRequest' });

/** W74. */
const pullRequestRecord = newPullRequest.extend({ identifier: numberOrName }).meta({ id: 'PullRequestRecord' });

const pullRequestEdit = z
  .object({
    provider: z.enum(PROVIDERS),
    repoId: numberOrName,
    identifier: numberOrName,
    title: sent.title.optional(),
    baseBranch: sent.name.optional(),
    ...editable,
  })
  .meta({ id: 'PullRequestEdit' });

/** W61. */
const pullRequestQuery = z.object({
  provider: z.enum(PROVIDERS).optional(),
  repoId: asked.text.optional(),
  state: asked.list.pipe(z.array(z.enum(PULL_REQUEST_STATES))).optional(),
  headBranch: asked.text.optional(),
  limit: asked.limit.optional(),
  cursor: asked.cursor.optional(),
});

/** W61. */
const pullRequestList = listOf('pullRequests', pullRequest, ['provider', 'repoId', 'identifier'], {
  nextCursor: answered.cursor,
});

export const pullRequestRoutes = {
  /** W53, W61. `{pullRequests, nextCursor}`, newest record first. */
  listPullRequests: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/pull-requests',
    summary: 'List pull requests',
    rules: 'W53, W61',
    query: pullRequestQuery,
    response: pullRequestList,
  },
  /**
   * W53, W59. Opens a pull request at the provider, 201; 403 `provider_not_connected` if the member has no token there.
   * Our extension: with `identifier` the service only records it, 201 new, 200 replaced. A server that does not know
   * the extension opens one then too, so the daemon never calls this route.
   */
  createPullRequest: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/pull-requests',
    summary: 'Record or open a pull request',
    rules: 'W53, W59',
    body: newPullRequest,
    response: pullRequest,
    success: [201, 200],
  },
  /** W53, W59. A person's edit; the target is named in the body. Errors: 404, 409 `pull_request_declined`. */
  updatePullRequest: {
    method: 'PATCH',
    path: '/workspaces/{workspaceId}/pull-requests',
    summary: 'Edit a pull request',
    rules: 'W53, W59, W60',
    body: pullRequestEdit,
    response: pullRequest,
  },
  /** W74. `{pullRequests, nextCursor}` of the recorded pull requests, newest record first. */
  listPullRequestRecords: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/pull-request-records',
    summary: 'List recorded pull requests',
    rules: 'W61, W74',
    query: pullRequestQuery,
    response: pullRequestList,
  },
  /** W74. Upserts the record of an existing pull request: 201 new, 200 replaced. Never contacts the provider. */
  recordPullRequest: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/pull-request-records',
    summary: 'Record an existing pull request',
    rules: 'W74',
    body: pullRequestRecord,
    response: pullRequest,
    success: [201, 200],
  },
} as const satisfies Record<string, Route>;
