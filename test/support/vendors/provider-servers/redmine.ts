import { createHmac } from 'node:crypto';
import { workItemKey } from '../../../../src/model/item.ts';
import { altered, seconds } from '../model-providers/provider.ts';
import { redmine } from '../model-providers/trackers.ts';
import {
  type Asked,
  type Held,
  type HeldIssue,
  listed,
  NO_MORE,
  present,
  type Tracker,
  type VendorAnswer,
} from './provider.ts';

const PROJECT = { id: 12, name: 'Website' };
const HOST = 'redmine.example.com';
const PAGE = 4;

/** Redmine, the project `website`. It has no labels: the first one here is the issue's tracker there. */
export function redmineTracker(secret: string): Tracker {
  // Its pages lie where its API does.
  let base = '';
  const page = ({ number }: HeldIssue) => `${base}/issues/${idOf(number)}`;
  return {
    ...{ id: 'redmine', secret, answer, page },
    options(url) {
      base = url;
      return { url, host: HOST, projects: ['website'] };
    },
    issueHook(issue, { event }) {
      const timestamp = seconds(issue.updated);
      const body = JSON.stringify({ type: `issue.${event}`, timestamp, data: { issue: ofIssue(issue) } });
      const headers = {
        'content-type': 'application/json',
        'x-redmine-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      };
      return { headers, body };
    },
    itemKey: ({ number }) => workItemKey('redmine', HOST, String(idOf(number))),
    calledAt: (_vendor, issue) => page(issue),
  };
}

const idOf = (number: number) => 300 + number;

function ofIssue({ number, fields, created, updated }: HeldIssue): unknown {
  const state = { ...fields, priority: 'Normal', assignees: [] };
  const { issue } = redmine.fetched(state, updated).payload as { issue: object };
  const tracker = { id: 1, name: fields.labels[0] ?? 'Bug' };
  return altered(issue, { id: idOf(number), project: PROJECT, tracker, created_on: seconds(created) });
}

function answer({ url }: Asked, { issues }: Held): VendorAnswer | undefined {
  const path = url.pathname;
  if (path === '/projects/website.json' || path === `/projects/${PROJECT.id}.json`)
    return { body: { project: { ...PROJECT, identifier: 'website' } } };
  const one = [...issues.values()].find(({ number }) => path === `/issues/${idOf(number)}.json`);
  if (one) return one.isDeleted ? NO_MORE : { body: { issue: ofIssue(one) } };
  return path === '/issues.json' ? listOf(url.searchParams, present(issues)) : undefined;
}

function listOf(query: URLSearchParams, issues: readonly HeldIssue[]): VendorAnswer {
  const from = Number(/^>=(\d+)$/.exec(query.get('issue_id') ?? '')?.[1] ?? 0);
  const since = Date.parse(/^>=(.+)$/.exec(query.get('updated_on') ?? '')?.[1] ?? '1970-01-01T00:00:00Z');
  const found = issues.filter(
    ({ number, fields, updated }) =>
      idOf(number) >= from && updated >= since && (query.get('status_id') === '*' || fields.state === 'open'),
  );
  const { shown } = listed(found, { where: () => true, by: 'number', isDescending: false, page: 1, perPage: PAGE });
  return { body: { issues: shown.map(ofIssue), total_count: found.length } };
}
