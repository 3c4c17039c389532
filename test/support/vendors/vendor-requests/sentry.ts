import { z } from 'zod';
import { commas, described, fields, number, type Operation, query, texts } from './operation.ts';

/**
 * Sentry's public API (github.com/getsentry/sentry-api-schema, `openapi-derefed.json`, 16 August 2026). Comments stand in no
 * description: their routes are those of Sentry's own source (`src/sentry/api/urls.py`, group notes), which its pages use.
 */
const ORGANIZATION = '/organizations/{organization_id_or_slug}';
const ISSUE = `${ORGANIZATION}/issues/{issue_id}`;
const cursor = texts('cursor');

const operations: readonly Operation[] = [
  { method: 'GET', path: `${ORGANIZATION}/`, query: query(texts('detailed')) },
  {
    method: 'GET',
    path: `${ORGANIZATION}/projects/`,
    query: query({ ...cursor, ...texts('query'), per_page: number(1, 100) }),
  },
  { method: 'GET', path: '/projects/{organization_id_or_slug}/{project_id_or_slug}/' },
  {
    method: 'GET',
    path: `${ORGANIZATION}/issues/`,
    query: query({
      ...cursor,
      ...texts('environment', 'statsPeriod', 'start', 'end', 'groupStatsPeriod', 'query', 'viewId'),
      project: number(-1),
      shortIdLookup: z.enum(['0', '1']),
      sort: z.enum(['date', 'freq', 'inbox', 'new', 'recommended', 'trends', 'user']),
      limit: number(1, 100),
      expand: commas([
        'inbox',
        'integrationIssues',
        'latestEventHasAttachments',
        'owners',
        'sentryAppIssues',
        'sessions',
      ]),
      collapse: commas(['base', 'filtered', 'lifetime', 'stats', 'unhandled']),
    }),
  },
  {
    method: 'GET',
    path: `${ISSUE}/`,
    query: query({ ...texts('environment'), collapse: commas(['release', 'stats', 'tags']) }),
  },
  {
    method: 'PUT',
    path: `${ISSUE}/`,
    body: fields({ status: z.enum(['resolved', 'unresolved', 'ignored', 'resolvedInNextRelease', 'muted']) }),
  },
  { method: 'GET', path: `${ISSUE}/comments/`, query: query(cursor) },
  { method: 'POST', path: `${ISSUE}/comments/`, body: fields({ text: z.string() }) },
  { method: 'PUT', path: `${ISSUE}/comments/{note_id}/`, body: fields({ text: z.string() }) },
];

export const sentry = described('https://sentry.io/api/0', operations);
