import { createHmac } from 'node:crypto';
import { workItemKey } from '../../../../src/model/item.ts';
import { altered } from '../model-providers/provider.ts';
import { generic } from '../model-providers/trackers.ts';
import { type Asked, type Held, type HeldIssue, listed, present, type Tracker, type VendorAnswer } from './provider.ts';

const PROJECT = { id: 'web', name: 'Website' };
const KEY = Buffer.from('a signing key of tests alone');
const PAGE = 4;

/** A tracker of one's own, `desk`, that speaks as the README of the connector has it. */
export function genericTracker(): Tracker {
  return {
    ...{ id: 'generic', secret: `whsec_${KEY.toString('base64')}`, answer },
    options: (feedUrl) => ({ system: 'desk', feedUrl, projects: ['web'] }),
    issueHook(issue, { event, delivery, sentAt }) {
      const timestamp = new Date(issue.updated).toISOString();
      const body = JSON.stringify({ type: `item.${event}`, timestamp, data: ofIssue(issue) });
      const seconds = String(Math.floor(sentAt / 1_000));
      const signature = createHmac('sha256', KEY).update(`${delivery}.${seconds}.${body}`).digest('base64');
      const headers = {
        'content-type': 'application/json',
        'webhook-id': delivery,
        'webhook-timestamp': seconds,
        'webhook-signature': `v1,${signature}`,
      };
      return { headers, body };
    },
    itemKey: ({ number }) => workItemKey('generic', 'desk', idOf(number)),
    page,
    calledAt: (_vendor, { number }) => `WEB-${number}`,
  };
}

const idOf = (number: number) => String(4_700 + number);
const page = ({ number }: HeldIssue) => `https://desk.example.com/tickets/${number}`;

function ofIssue(issue: HeldIssue): unknown {
  const { number, fields, created, updated } = issue;
  const rawState = fields.state === 'open' ? 'New' : 'Done';
  const state = { ...fields, description: fields.description || null, rawState, priority: null, assignees: [] };
  return altered(generic.fetched(state, updated).payload, {
    ...{ id: idOf(number), identifier: `WEB-${number}`, project: PROJECT, url: page(issue) },
    createdAt: new Date(created).toISOString(),
  });
}

function answer({ url }: Asked, { issues }: Held): VendorAnswer | undefined {
  const query = url.searchParams;
  const one = [...issues.values()].find(({ number }) => url.pathname === `/items/${idOf(number)}`);
  if (one) return one.isDeleted ? { status: 410, body: {} } : { body: ofIssue(one) };
  const since = Date.parse(query.get('updatedSince') ?? '1970-01-01T00:00:00Z');
  // A cursor names the item that it stands behind: what changes meanwhile hides nothing.
  const behind = Number(query.get('cursor') ?? 0);
  const { shown, hasNext } = listed(present(issues), {
    where: ({ number, fields, updated }) =>
      number > behind && updated >= since && (query.get('done') !== 'false' || fields.state !== 'done'),
    by: 'number',
    isDescending: false,
    ...{ page: 1, perPage: PAGE },
  });
  const next = hasNext ? { nextCursor: String(shown.at(-1)?.number) } : {};
  if (url.pathname === '/items') return { body: { items: shown.map(ofIssue), ...next } };
  if (url.pathname !== '/ids') return undefined;
  return { body: { ids: shown.map(({ number }) => idOf(number)), projects: [PROJECT.id], ...next } };
}
