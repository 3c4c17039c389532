import { z } from 'zod';
import { commas, described, fields, number, type Operation, query, texts } from './operation.ts';

/** Redmine's REST API (redmine.org/projects/redmine/wiki/Rest_api and the pages of its resources, `config/routes.rb` of 6.0). */
const paged = { offset: number(0), limit: number(1, 100) };
const INCLUDED = ['children', 'attachments', 'relations', 'changesets', 'journals', 'watchers', 'allowed_statuses'];
const typed = z.looseObject({ 'content-type': z.literal('application/json') });

const operations: readonly Operation[] = [
  { method: 'GET', path: '/users/current.json', query: query({ include: commas(['memberships', 'groups']) }) },
  { method: 'GET', path: '/issue_statuses.json' },
  {
    method: 'GET',
    path: '/projects.json',
    query: query({ ...paged, include: commas(['trackers', 'issue_categories', 'enabled_modules']) }),
  },
  { method: 'GET', path: '/projects/{id}.json', query: query(texts('include')) },
  {
    method: 'GET',
    path: '/issues.json',
    query: query({
      ...paged,
      ...texts('project_id', 'subproject_id', 'tracker_id', 'assigned_to_id', 'parent_id', 'created_on', 'updated_on'),
      issue_id: z.string().regex(/^(?:[<>]=)?\d+(?:,\d+)*$/),
      status_id: z.string().regex(/^(?:open|closed|\*|\d+)$/),
      sort: z.string().regex(/^(?:id|updated_on|created_on)(?::desc)?$/),
      include: commas(['attachments', 'relations', 'journals']),
    }),
  },
  { method: 'GET', path: '/issues/{id}.json', query: query({ include: commas(INCLUDED) }) },
  {
    method: 'PUT',
    path: '/issues/{id}.json',
    headers: typed,
    body: fields({
      issue: fields({
        notes: z.string().optional(),
        private_notes: z.boolean().optional(),
        status_id: z.int().optional(),
      }),
    }),
  },
  {
    method: 'PUT',
    path: '/journals/{id}.json',
    headers: typed,
    body: fields({ journal: fields({ notes: z.string(), private_notes: z.boolean().optional() }) }),
  },
];

export const redmine = described('https://www.redmine.org', operations);
