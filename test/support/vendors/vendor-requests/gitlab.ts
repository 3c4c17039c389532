import { z } from 'zod';
import { described, fields, number, type Operation, query, texts, truth } from './operation.ts';

/**
 * GitLab's REST API v4 (docs.gitlab.com/api; its own OpenAPI description, `doc/api/openapi/openapi_v3.yaml` of 19.5). The
 * types of `@gitbeaker/rest` say less: they know neither `all` as a state nor what a webhook's events are asked by.
 */
const PROJECT = '/projects/{id}';
const GROUP = '/groups/{id}';
const MERGE_REQUEST = `${PROJECT}/merge_requests/{merge_request_iid}`;
const ISSUE = `${PROJECT}/issues/{issue_iid}`;

const paged = { page: number(1), per_page: number(1, 100) };
const sort = z.enum(['asc', 'desc']);
const list = {
  ...paged,
  ...texts('created_after', 'created_before', 'updated_after', 'updated_before', 'search', 'labels', 'milestone'),
  sort,
  'iids[]': z.union([z.string(), z.array(z.string())]),
};
const mergeRequests = {
  ...list,
  ...texts('source_branch', 'target_branch', 'view'),
  state: z.enum(['opened', 'closed', 'locked', 'merged', 'all']),
  scope: z.enum(['created_by_me', 'assigned_to_me', 'reviews_for_me', 'all']),
  order_by: z.enum([
    'created_at',
    'updated_at',
    'merged_at',
    'priority',
    'label_priority',
    'milestone_due',
    'popularity',
    'title',
  ]),
};
const issues = {
  ...list,
  confidential: truth,
  state: z.enum(['opened', 'closed', 'all']),
  scope: z.enum(['created_by_me', 'assigned_to_me', 'all']),
  order_by: z.enum([
    'created_at',
    'due_date',
    'label_priority',
    'milestone_due',
    'popularity',
    'priority',
    'relative_position',
    'title',
    'updated_at',
    'weight',
  ]),
};

const event = z.boolean().optional();
const hook = {
  url: z.url(),
  name: z.string().optional(),
  description: z.string().optional(),
  merge_requests_events: event,
  note_events: event,
  issues_events: event,
  confidential_issues_events: event,
  confidential_note_events: event,
  push_events: event,
  enable_ssl_verification: event,
  token: z.string().optional(),
  signing_token: z.string().optional(),
};

/** Nothing is asked for, and an empty object is nothing. */
const EMPTY = fields({}).optional();

const hooksOf = (owner: string): readonly Operation[] => [
  { method: 'GET', path: `${owner}/hooks`, query: query(paged) },
  { method: 'POST', path: `${owner}/hooks`, body: fields(hook) },
  { method: 'GET', path: `${owner}/hooks/{hook_id}` },
  { method: 'PUT', path: `${owner}/hooks/{hook_id}`, body: fields(hook) },
  // `status`: codes, or the class of codes.
  {
    method: 'GET',
    path: `${owner}/hooks/{hook_id}/events`,
    query: query({ ...paged, status: z.string().regex(/^(?:successful|client_failure|server_failure|[1-5]\d\d)$/) }),
  },
  { method: 'POST', path: `${owner}/hooks/{hook_id}/events/{hook_log_id}/resend`, body: EMPTY },
  { method: 'POST', path: `${owner}/hooks/{hook_id}/test/{trigger}`, body: EMPTY },
];

const notes = (owner: string): readonly Operation[] => [
  {
    method: 'GET',
    path: `${owner}/notes`,
    query: query({
      ...paged,
      sort,
      order_by: z.enum(['created_at', 'updated_at']),
      activity_filter: z.enum(['all_notes', 'only_comments', 'only_activity']),
    }),
  },
  { method: 'POST', path: `${owner}/notes`, body: fields({ body: z.string() }) },
  { method: 'PUT', path: `${owner}/notes/{note_id}`, body: fields({ body: z.string() }) },
];

const people = z.array(z.int()).optional();
const written = {
  target_branch: z.string().optional(),
  title: z.string().optional(),
  description: z.string().optional(),
  labels: z.string().optional(),
  assignee_ids: people,
  reviewer_ids: people,
};

const operations: readonly Operation[] = [
  { method: 'GET', path: '/user' },
  { method: 'GET', path: '/users', query: query({ ...paged, ...texts('username') }) },
  { method: 'GET', path: '/personal_access_tokens/self' },
  { method: 'GET', path: PROJECT, query: query({ license: truth, statistics: truth }) },
  { method: 'GET', path: GROUP, query: query({ with_projects: truth }) },
  {
    method: 'GET',
    path: `${GROUP}/projects`,
    query: query({
      ...paged,
      archived: truth,
      include_subgroups: truth,
      with_shared: truth,
      simple: truth,
      sort,
      order_by: z.enum([
        'id',
        'name',
        'path',
        'created_at',
        'updated_at',
        'similarity',
        'star_count',
        'last_activity_at',
      ]),
    }),
  },
  { method: 'GET', path: `${PROJECT}/merge_requests`, query: query(mergeRequests) },
  { method: 'GET', path: `${GROUP}/merge_requests`, query: query({ ...mergeRequests, non_archived: truth }) },
  { method: 'GET', path: `${PROJECT}/issues`, query: query(issues) },
  { method: 'GET', path: `${GROUP}/issues`, query: query({ ...issues, non_archived: truth }) },
  { method: 'GET', path: MERGE_REQUEST },
  { method: 'GET', path: `${MERGE_REQUEST}/commits`, query: query(paged) },
  { method: 'GET', path: `${MERGE_REQUEST}/approvals` },
  {
    method: 'POST',
    path: `${PROJECT}/merge_requests`,
    body: fields({
      ...written,
      source_branch: z.string(),
      target_branch: z.string(),
      title: z.string(),
      target_project_id: z.int().optional(),
    }),
  },
  {
    method: 'PUT',
    path: MERGE_REQUEST,
    body: fields({ ...written, state_event: z.enum(['close', 'reopen']).optional() }),
  },
  { method: 'GET', path: ISSUE },
  { method: 'PUT', path: ISSUE, body: fields({ state_event: z.enum(['close', 'reopen']) }) },
  ...notes(MERGE_REQUEST),
  ...notes(ISSUE),
  ...hooksOf(PROJECT),
  ...hooksOf(GROUP),
  {
    method: 'POST',
    path: `${PROJECT}/statuses/{sha}`,
    body: fields({
      state: z.enum(['pending', 'running', 'success', 'failed', 'canceled', 'skipped']),
      name: z.string().max(255).optional(),
      description: z.string().max(255).optional(),
    }),
  },
  { method: 'GET', path: `${PROJECT}/repository/branches/{branch}` },
  {
    method: 'GET',
    path: `${PROJECT}/repository/commits`,
    query: query({ ...paged, ...texts('ref_name', 'since', 'until', 'path', 'author') }),
  },
];

export const gitlab = described('https://gitlab.com/api/v4', operations);
