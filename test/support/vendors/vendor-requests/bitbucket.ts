import { z } from 'zod';
import { described, fields, number, type Operation, query, texts } from './operation.ts';

/**
 * Bitbucket Cloud's API 2.0 (developer.atlassian.com/cloud/bitbucket/rest, its Swagger description). Every list pages by
 * `page` and `pagelen`, and every answer is cut down by `fields` (…/cloud/bitbucket/rest/intro, "Pagination", "Partial responses").
 */
const REPOSITORY = '/repositories/{workspace}/{repo_slug}';
const PULL = `${REPOSITORY}/pullrequests/{pull_request_id}`;
const partial = texts('fields');
const paged = { ...partial, ...texts('page', 'ctx'), pagelen: number(1, 100) };
const STATE = z.enum(['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED']);

const branch = fields({ branch: fields({ name: z.string() }) });
const pull = {
  title: z.string().optional(),
  description: z.string().optional(),
  draft: z.boolean().optional(),
  destination: branch.optional(),
  reviewers: z.array(fields({ uuid: z.string() })).optional(),
};
const comment = fields({ content: fields({ raw: z.string() }) });
const hook = fields({
  description: z.string().optional(),
  url: z.url(),
  active: z.boolean(),
  events: z.array(z.string().regex(/^(?:pullrequest|repo|issue):[\w:]+$/)),
  secret: z.string().optional(),
  skip_cert_verification: z.boolean().optional(),
});

const hooksOf = (owner: string): readonly Operation[] => [
  { method: 'GET', path: `${owner}/hooks`, query: query(paged) },
  { method: 'POST', path: `${owner}/hooks`, body: hook },
  { method: 'PUT', path: `${owner}/hooks/{uid}`, body: hook },
];

const operations: readonly Operation[] = [
  { method: 'GET', path: '/user', query: query(partial) },
  {
    method: 'GET',
    path: '/repositories/{workspace}',
    query: query({
      ...paged,
      ...texts('q', 'sort', 'after'),
      role: z.enum(['admin', 'contributor', 'member', 'owner']),
    }),
  },
  ...hooksOf('/workspaces/{workspace}'),
  ...hooksOf(REPOSITORY),
  { method: 'GET', path: REPOSITORY, query: query(partial) },
  {
    method: 'GET',
    path: `${REPOSITORY}/pullrequests`,
    query: query({ ...paged, ...texts('q', 'sort'), pagelen: number(1, 50), state: z.union([STATE, z.array(STATE)]) }),
  },
  {
    method: 'POST',
    path: `${REPOSITORY}/pullrequests`,
    body: fields({
      ...pull,
      title: z.string(),
      source: fields({
        branch: fields({ name: z.string() }),
        repository: fields({ full_name: z.string() }).optional(),
      }),
    }),
  },
  { method: 'GET', path: PULL, query: query(partial) },
  { method: 'PUT', path: PULL, body: fields(pull) },
  { method: 'POST', path: `${PULL}/decline`, body: fields({}).optional() },
  { method: 'GET', path: `${PULL}/commits`, query: query(paged) },
  { method: 'GET', path: `${PULL}/comments`, query: query({ ...paged, ...texts('q', 'sort') }) },
  { method: 'POST', path: `${PULL}/comments`, body: comment },
  { method: 'PUT', path: `${PULL}/comments/{comment_id}`, body: comment },
  {
    method: 'POST',
    path: `${REPOSITORY}/commit/{commit}/statuses/build`,
    body: fields({
      key: z.string().max(40),
      state: z.enum(['SUCCESSFUL', 'FAILED', 'INPROGRESS', 'STOPPED']),
      url: z.url(),
      name: z.string().optional(),
      description: z.string().optional(),
    }),
  },
  { method: 'GET', path: `${REPOSITORY}/effective-default-reviewers`, query: query(paged) },
  { method: 'GET', path: `${REPOSITORY}/refs/branches`, query: query({ ...paged, ...texts('q', 'sort') }) },
];

export const bitbucket = described('https://api.bitbucket.org/2.0', operations);
