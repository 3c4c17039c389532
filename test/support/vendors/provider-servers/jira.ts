import { createHmac } from 'node:crypto';
import { workItemKey } from '../../../../src/model/item.ts';
import { altered } from '../model-providers/provider.ts';
import { jira } from '../model-providers/trackers.ts';
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

const PROJECT = { id: '10008', key: 'ENG', name: 'Engineering' };
const SITE = 'acme.atlassian.net';
const CLOUD_ID = '6a7b1d3c-90c8-4a52-9b0e-41d2c3f5a610';
/** Jira may give fewer than it is asked for. */
const PAGE = 4;

export function jiraTracker(secret: string): Tracker {
  return {
    ...{ id: 'jira', secret, answer },
    options: (apiUrl) => ({ ...{ site: SITE, cloudId: CLOUD_ID, apiUrl, projects: ['ENG'] } }),
    issueHook(issue, { event, delivery }) {
      const payload = altered(jira.webhook(stateOf(issue), issue.updated).payload, {
        ...within('issue.', issue),
        ...{ webhookEvent: `jira:issue_${event}`, timestamp: issue.updated },
      });
      const body = JSON.stringify(payload);
      const headers = {
        'content-type': 'application/json',
        'x-atlassian-webhook-identifier': delivery,
        'x-hub-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      };
      return { headers, body };
    },
    itemKey: ({ number }) => workItemKey('jira', CLOUD_ID, idOf(number)),
    page: ({ number }) => `https://${SITE}/browse/ENG-${number}`,
    calledAt: (_vendor, { number }) => `ENG-${number}`,
  };
}

const idOf = (number: number) => String(10_100 + number);

function stateOf({ fields }: HeldIssue) {
  return { ...fields, description: fields.description || null, assignees: [] };
}

/** Fields that identify the issue, below a path of the payload. */
function within(above: string, { number, created }: HeldIssue): Readonly<Record<string, unknown>> {
  return {
    ...{ [`${above}id`]: idOf(number), [`${above}key`]: `ENG-${number}` },
    [`${above}fields.created`]: new Date(created).toISOString().replace('Z', '+0000'),
    [`${above}fields.project`]: PROJECT,
  };
}

function ofIssue(issue: HeldIssue): unknown {
  return altered(jira.fetched(stateOf(issue), issue.updated).payload, within('', issue));
}

function answer({ url }: Asked, { issues }: Held): VendorAnswer | undefined {
  const path = url.pathname.replace(/^\/rest\/api\/3/, '');
  if (path === '/project/ENG' || path === `/project/${PROJECT.id}`) return { body: PROJECT };
  const one = [...issues.values()].find(({ number }) => path === `/issue/${idOf(number)}`);
  if (one) return one.isDeleted ? NO_MORE : { body: ofIssue(one) };
  return path === '/search/jql' ? found(url, present(issues)) : undefined;
}

/** As much of the language as is asked in: a project, a time, whether it is done, and an order. */
function found(url: URL, issues: readonly HeldIssue[]): VendorAnswer | undefined {
  const query = url.searchParams.get('jql') ?? '';
  const [, condition, by, order] =
    /^project = (?:"ENG"|10008)(?: AND (.+?))? ORDER BY (created|updated) (ASC|DESC)$/.exec(query) ?? [];
  if (by === undefined) return undefined;
  const since = Number(/updated >= (\d+)/.exec(condition ?? '')?.[1] ?? 0);
  const orOpen = condition?.includes('statusCategory != Done') ?? false;
  const page = Number(url.searchParams.get('nextPageToken') ?? 1);
  const { shown, hasNext } = listed(issues, {
    where: ({ fields, updated }) => updated >= since || (orOpen && fields.state !== 'done'),
    by: by as 'created' | 'updated',
    isDescending: order === 'DESC',
    ...{ page, perPage: PAGE },
  });
  return { body: { issues: shown.map(ofIssue), isLast: !hasNext, ...(hasNext && { nextPageToken: `${page + 1}` }) } };
}
