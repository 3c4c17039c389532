import { createHmac } from 'node:crypto';
import { workItemKey } from '../../../../src/model/item.ts';
import { altered } from '../model-providers/provider.ts';
import { linear } from '../model-providers/trackers.ts';
import { type Asked, type Held, type HeldIssue, listed, type Tracker, type VendorAnswer } from './provider.ts';

const TEAM = { id: '72b2a2dc-6f4f-4423-9d34-24b5bd10634a', key: 'DES', name: 'Design' };
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';

/** Linear, the team `DES`. What is deleted is in the trash, and tells so. */
export function linearTracker(secret: string): Tracker {
  return {
    ...{ id: 'linear', secret, answer },
    options: (apiUrl) => ({ organizationId: ORGANIZATION, apiUrl: `${apiUrl}/graphql`, apiKey: 'k', teams: ['DES'] }),
    issueHook(issue, { event, delivery, sentAt }) {
      const payload = altered(linear.webhook(stateOf(issue), issue.updated).payload, {
        ...within('data.', issue),
        ...{ 'data.trashed': issue.isDeleted, 'data.teamId': TEAM.id },
        action: { created: 'create', updated: 'update', deleted: 'remove' }[event],
        createdAt: new Date(issue.updated).toISOString(),
        webhookTimestamp: sentAt,
      });
      const body = JSON.stringify(payload);
      const headers = {
        'content-type': 'application/json',
        'linear-event': 'Issue',
        'linear-delivery': delivery,
        'linear-signature': createHmac('sha256', secret).update(body).digest('hex'),
      };
      return { headers, body };
    },
    itemKey: ({ number }) => workItemKey('linear', ORGANIZATION, idOf(number)),
    page: ({ number }) => `https://linear.app/acme/issue/DES-${number}`,
    calledAt: (_vendor, { number }) => `DES-${number}`,
  };
}

const idOf = (number: number) => `2174add1-f7c8-44e3-bbf3-${String(number).padStart(12, '0')}`;

function stateOf({ fields }: HeldIssue) {
  return { ...fields, description: fields.description || null, priority: null, assignees: [] };
}

/** Fields that identify the issue, below a path of the payload. Its address contains its title. */
function within(above: string, { number, fields, created }: HeldIssue): Readonly<Record<string, unknown>> {
  const slug = fields.title.toLowerCase().replace(/\W+/g, '-');
  const identity = { id: idOf(number), identifier: `DES-${number}`, team: TEAM };
  const rest = {
    url: `https://linear.app/acme/issue/DES-${number}/${slug}`,
    createdAt: new Date(created).toISOString(),
  };
  return Object.fromEntries(Object.entries({ ...identity, ...rest }).map(([name, value]) => [above + name, value]));
}

function ofIssue(issue: HeldIssue): unknown {
  const node = linear.fetched(stateOf(issue), issue.updated).payload;
  return altered(node, { ...within('', issue), trashed: issue.isDeleted || null });
}

/** The supported part of a filter. */
interface Filter {
  readonly id?: { readonly eq: string };
  readonly state?: { readonly type: { readonly nin: readonly string[] } };
  readonly updatedAt?: { readonly gte: string };
  readonly or?: readonly Filter[];
}

function fits(issue: HeldIssue, { id, state, updatedAt, or }: Filter): boolean {
  if (id !== undefined && id.eq !== idOf(issue.number)) return false;
  if (state?.type.nin.includes('completed') && issue.fields.state === 'done') return false;
  if (updatedAt !== undefined && issue.updated < Date.parse(updatedAt.gte)) return false;
  return or?.some((each) => fits(issue, each)) ?? true;
}

interface Variables {
  readonly filter?: Filter;
  readonly orderBy?: 'createdAt' | 'updatedAt';
  readonly first?: number;
  readonly after?: string;
  readonly issueId?: string;
}

function answer({ body }: Asked, { issues }: Held): VendorAnswer | undefined {
  const { query, variables } = JSON.parse(body) as { query: string; variables: Variables };
  const all = [...issues.values()];
  switch (/query (\w+)/.exec(query)?.[1]) {
    case 'Teams':
      return { body: { data: { teams: { nodes: [TEAM], pageInfo: LAST } } } };
    case 'Issues':
    case 'IssueIds':
      return { body: { data: { issues: pageOf(all, variables) } } };
    case 'OneIssue': {
      const nodes = all.filter(({ number }) => idOf(number) === variables.issueId).map(ofIssue);
      return { body: { data: { issues: { nodes }, teams: { nodes: [{ id: TEAM.id }] } } } };
    }
    default:
      return undefined;
  }
}

const LAST = { hasNextPage: false, endCursor: null };
/** Smaller than what is asked for, so that lists have pages. */
const PAGE = 4;

/** A cursor names the issue that it stands behind. */
function pageOf(issues: readonly HeldIssue[], { filter = {}, orderBy = 'createdAt', after }: Variables): object {
  const { shown } = listed(issues, {
    where: (issue) => fits(issue, filter),
    by: orderBy === 'createdAt' ? 'created' : 'updated',
    isDescending: true,
    ...{ page: 1, perPage: issues.length },
  });
  const from = shown.findIndex(({ number }) => idOf(number) === after) + 1;
  const nodes = shown.slice(from, from + PAGE);
  const hasNextPage = from + PAGE < shown.length;
  const last = nodes.at(-1);
  return { nodes: nodes.map(ofIssue), pageInfo: { hasNextPage, endCursor: last ? idOf(last.number) : null } };
}
