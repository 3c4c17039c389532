import { z } from 'zod';
import { described, fields, number, type Operation, query, texts, truth } from './operation.ts';

/**
 * Jira Cloud's platform API, version 3 (developer.atlassian.com/cloud/jira/platform/rest/v3). Beside it: admin webhooks
 * (…/platform/webhooks, "Registering a webhook using the Jira REST API"), and the id of a site, which everybody may read
 * (support.atlassian.com, "Retrieve my Atlassian site's Cloud ID").
 */
const ISSUE = '/rest/api/3/issue/{issueIdOrKey}';
const paged = { startAt: number(0), maxResults: number(1) };
const ORDERS = [
  'category',
  'issueCount',
  'key',
  'lastIssueUpdatedTime',
  'name',
  'owner',
  'archivedDate',
  'deletedDate',
];
const text = z.looseObject({ type: z.literal('doc'), version: z.literal(1), content: z.array(z.unknown()) });

const comment = fields({ body: text, properties: z.array(fields({ key: z.string(), value: z.unknown() })).optional() });

const webhook = fields({
  name: z.string(),
  url: z.url(),
  events: z.array(z.string().regex(/^(?:jira:issue|comment)_(?:created|updated|deleted)$/)),
  filters: fields({ 'issue-related-events-section': z.string() }),
  excludeBody: z.boolean(),
  enabled: z.boolean().optional(),
  description: z.string().optional(),
  secret: z.string().optional(),
});

const operations: readonly Operation[] = [
  // developer.atlassian.com/cloud/oauth/getting-started/refresh-tokens
  {
    method: 'POST',
    path: '/oauth/token',
    body: fields({
      grant_type: z.literal('refresh_token'),
      client_id: z.string(),
      client_secret: z.string(),
      refresh_token: z.string(),
    }),
  },
  { method: 'GET', path: '/_edge/tenant_info' },
  { method: 'GET', path: '/rest/api/3/myself', query: query(texts('expand')) },
  { method: 'GET', path: '/rest/webhooks/1.0/webhook' },
  { method: 'POST', path: '/rest/webhooks/1.0/webhook', body: webhook },
  { method: 'PUT', path: '/rest/webhooks/1.0/webhook/{id}', body: webhook },
  {
    method: 'GET',
    path: '/rest/api/3/search/jql',
    query: query({
      ...texts('jql', 'nextPageToken', 'fields', 'expand', 'properties', 'reconcileIssues'),
      maxResults: number(1, 5_000),
      fieldsByKeys: truth,
      failFast: truth,
    }),
  },
  { method: 'POST', path: '/rest/api/3/search/approximate-count', body: fields({ jql: z.string() }) },
  {
    method: 'GET',
    path: '/rest/api/3/project/search',
    query: query({
      ...paged,
      ...texts(
        'id',
        'keys',
        'query',
        'typeKey',
        'categoryId',
        'action',
        'expand',
        'status',
        'properties',
        'propertyQuery',
      ),
      orderBy: z.enum(ORDERS.flatMap((order) => [order, `-${order}`, `+${order}`])),
    }),
  },
  { method: 'GET', path: '/rest/api/3/project/{projectIdOrKey}', query: query(texts('expand', 'properties')) },
  {
    method: 'GET',
    path: ISSUE,
    query: query({
      ...texts('fields', 'expand', 'properties'),
      fieldsByKeys: truth,
      updateHistory: truth,
      failFast: truth,
    }),
  },
  {
    method: 'GET',
    path: `${ISSUE}/comment`,
    query: query({ ...paged, ...texts('expand'), orderBy: z.enum(['created', '-created', '+created']) }),
  },
  { method: 'POST', path: `${ISSUE}/comment`, query: query(texts('expand')), body: comment },
  {
    method: 'PUT',
    path: `${ISSUE}/comment/{id}`,
    query: query({ ...texts('expand'), notifyUsers: truth, overrideEditableFlag: truth }),
    body: comment,
  },
  {
    method: 'GET',
    path: `${ISSUE}/transitions`,
    query: query({
      ...texts('expand', 'transitionId'),
      skipRemoteOnlyCondition: truth,
      includeUnavailableTransitions: truth,
      sortByOpsBarAndStatus: truth,
    }),
  },
  {
    method: 'POST',
    path: `${ISSUE}/transitions`,
    body: fields({ transition: fields({ id: z.string() }), fields: z.record(z.string(), z.unknown()).optional() }),
  },
];

export const jira = described('https://api.atlassian.com/ex/jira/{cloudId}', operations);
