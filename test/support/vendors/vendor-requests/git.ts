import { z } from 'zod';
import { described, fields, type Operation } from './operation.ts';

/** The public APIs of GitLab and Bitbucket, as far as they are used. */

type Routes = Readonly<Record<string, Pick<Operation, 'body' | 'headers'>>>;

const PAGE = 'page<=1000000 per_page<=100';
const PROJECT = '/projects/{id}';
const GROUP = '/groups/{id}';
const MERGE_REQUEST = `${PROJECT}/merge_requests/{merge_request_iid}`;
const ISSUE = `${PROJECT}/issues/{issue_iid}`;
const LIST = `${PAGE} updated_after updated_before created_after search labels sort=asc|desc iids[]
  order_by=created_at|updated_at|priority|label_priority|milestone_due|popularity|title`;
const MERGES = `${LIST} source_branch target_branch view state=opened|closed|locked|merged|all
  scope=created_by_me|assigned_to_me|reviews_for_me|all`;
const ISSUES = `${LIST} confidential=true|false state=opened|closed|all scope=created_by_me|assigned_to_me|all`;

const flag = z.boolean().optional();
const hook = fields({
  url: z.url(),
  ...{ name: z.string().optional(), description: z.string().optional() },
  ...{ merge_requests_events: flag, note_events: flag, issues_events: flag, confidential_issues_events: flag },
  ...{ confidential_note_events: flag, push_events: flag, enable_ssl_verification: flag },
  ...{ token: z.string().optional(), signing_token: z.string().optional() },
});
/** Nothing is asked for, and an empty object is nothing. */
const EMPTY = { body: fields({}).optional() };

/** `status`: codes, or the class of codes. */
const hooksOf = (owner: string): Routes => ({
  [`GET ${owner}/hooks ${PAGE}`]: {},
  [`POST ${owner}/hooks`]: { body: hook },
  [`GET ${owner}/hooks/{hook_id}`]: {},
  [`PUT ${owner}/hooks/{hook_id}`]: { body: hook },
  [`GET ${owner}/hooks/{hook_id}/events ${PAGE} status=successful|client_failure|server_failure`]: {},
  [`POST ${owner}/hooks/{hook_id}/events/{hook_log_id}/resend`]: EMPTY,
  [`POST ${owner}/hooks/{hook_id}/test/{trigger}`]: EMPTY,
});

const text = { body: fields({ body: z.string() }) };
const notesOf = (owner: string): Routes => ({
  [`GET ${owner}/notes ${PAGE} sort=asc|desc order_by=created_at|updated_at`]: {},
  [`POST ${owner}/notes`]: text,
  [`PUT ${owner}/notes/{note_id}`]: text,
});

const people = z.array(z.int()).optional();
const written = {
  ...{ target_branch: z.string().optional(), title: z.string().optional(), description: z.string().optional() },
  ...{ labels: z.string().optional(), assignee_ids: people, reviewer_ids: people },
};
const opened = fields({
  ...{ ...written, source_branch: z.string(), target_branch: z.string(), title: z.string() },
  target_project_id: z.int().optional(),
});

/**
 * GitLab's REST API v4 (docs.gitlab.com/api; its own OpenAPI description, `doc/api/openapi/openapi_v3.yaml` of 19.5). The
 * types of `@gitbeaker/rest` say less: they know neither `all` as a state nor what a webhook's events are asked by.
 */
export const gitlab = described('https://gitlab.com/api/v4', {
  'GET /user': {},
  [`GET /users ${PAGE} username`]: {},
  'GET /personal_access_tokens/self': {},
  [`GET ${PROJECT} license=true|false statistics=true|false`]: {},
  [`GET ${GROUP} with_projects=true|false`]: {},
  [`GET ${GROUP}/projects ${PAGE} archived=true|false include_subgroups=true|false with_shared=true|false
    simple=true|false sort=asc|desc order_by=id|name|path|created_at|updated_at|last_activity_at`]: {},
  [`GET ${PROJECT}/merge_requests ${MERGES}`]: {},
  [`GET ${GROUP}/merge_requests ${MERGES} non_archived=true|false`]: {},
  [`GET ${PROJECT}/issues ${ISSUES}`]: {},
  [`GET ${GROUP}/issues ${ISSUES} non_archived=true|false`]: {},
  [`GET ${MERGE_REQUEST}`]: {},
  [`GET ${MERGE_REQUEST}/commits ${PAGE}`]: {},
  [`GET ${MERGE_REQUEST}/approvals`]: {},
  [`POST ${PROJECT}/merge_requests`]: { body: opened },
  [`PUT ${MERGE_REQUEST}`]: { body: fields({ ...written, state_event: z.enum(['close', 'reopen']).optional() }) },
  [`GET ${ISSUE}`]: {},
  [`PUT ${ISSUE}`]: { body: fields({ state_event: z.enum(['close', 'reopen']) }) },
  ...notesOf(MERGE_REQUEST),
  ...notesOf(ISSUE),
  ...hooksOf(PROJECT),
  ...hooksOf(GROUP),
  [`POST ${PROJECT}/statuses/{sha}`]: {
    body: fields({
      state: z.enum(['pending', 'running', 'success', 'failed', 'canceled', 'skipped']),
      name: z.string().max(255).optional(),
      description: z.string().max(255).optional(),
    }),
  },
  [`GET ${PROJECT}/repository/branches/{branch}`]: {},
  [`GET ${PROJECT}/repository/commits ${PAGE} ref_name since until path author`]: {},
});

const REPOSITORY = '/repositories/{workspace}/{repo_slug}';
const PULL = `${REPOSITORY}/pullrequests/{pull_request_id}`;
const PAGED = 'fields page ctx pagelen<=100';

const branch = fields({ branch: fields({ name: z.string() }) });
const pull = {
  ...{ title: z.string().optional(), description: z.string().optional(), draft: z.boolean().optional() },
  destination: branch.optional(),
  reviewers: z.array(fields({ uuid: z.string() })).optional(),
};
const source = fields({
  branch: fields({ name: z.string() }),
  repository: fields({ full_name: z.string() }).optional(),
});
const comment = { body: fields({ content: fields({ raw: z.string() }) }) };
const bitbucketHook = {
  body: fields({
    ...{ description: z.string().optional(), url: z.url(), active: z.boolean(), secret: z.string().optional() },
    events: z.array(z.string().regex(/^(?:pullrequest|repo|issue):[\w:]+$/)),
    skip_cert_verification: z.boolean().optional(),
  }),
};
const webhooksOf = (owner: string): Routes => ({
  [`GET ${owner}/hooks ${PAGED}`]: {},
  [`POST ${owner}/hooks`]: bitbucketHook,
  [`PUT ${owner}/hooks/{uid}`]: bitbucketHook,
});

/**
 * Bitbucket Cloud's API 2.0 (developer.atlassian.com/cloud/bitbucket/rest, its Swagger description). Every list pages by
 * `page` and `pagelen`, and every answer is cut down by `fields` (…/cloud/bitbucket/rest/intro, "Pagination", "Partial responses").
 */
export const bitbucket = described('https://api.bitbucket.org/2.0', {
  'GET /user fields': {},
  [`GET /repositories/{workspace} ${PAGED} q sort after role=admin|contributor|member|owner`]: {},
  ...webhooksOf('/workspaces/{workspace}'),
  ...webhooksOf(REPOSITORY),
  [`GET ${REPOSITORY} fields`]: {},
  [`GET ${REPOSITORY}/pullrequests fields page ctx pagelen<=50 q sort state=OPEN|MERGED|DECLINED|SUPERSEDED`]: {},
  [`POST ${REPOSITORY}/pullrequests`]: { body: fields({ ...pull, title: z.string(), source }) },
  [`GET ${PULL} fields`]: {},
  [`PUT ${PULL}`]: { body: fields(pull) },
  [`POST ${PULL}/decline`]: EMPTY,
  [`GET ${PULL}/commits ${PAGED}`]: {},
  [`GET ${PULL}/comments ${PAGED} q sort`]: {},
  [`POST ${PULL}/comments`]: comment,
  [`PUT ${PULL}/comments/{comment_id}`]: comment,
  [`POST ${REPOSITORY}/commit/{commit}/statuses/build`]: {
    body: fields({
      key: z.string().max(40),
      state: z.enum(['SUCCESSFUL', 'FAILED', 'INPROGRESS', 'STOPPED']),
      url: z.url(),
      name: z.string().optional(),
      description: z.string().optional(),
    }),
  },
  [`GET ${REPOSITORY}/effective-default-reviewers ${PAGED}`]: {},
  [`GET ${REPOSITORY}/refs/branches ${PAGED} q sort`]: {},
});
