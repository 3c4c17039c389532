import { createHmac } from 'node:crypto';
import type { Fields } from '../../../bench/quota/references/trace.ts';
import {
  type Asked,
  type Held,
  type HeldPull,
  listed,
  messageOf,
  mirrored,
  recordOf,
  type Vendor,
  type VendorAnswer,
} from './provider.ts';

const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const REPOSITORY = { uuid: UUID, full_name: 'acme/app', name: 'app' };

export function bitbucketVendor(secret: string): Vendor {
  return {
    id: 'bitbucket',
    options: (apiUrl) => ({ apiUrl, token: 'a-token-of-the-tests', repositories: ['acme/app'] }),
    // There are no labels, no assignees and no time of merging.
    said: ({ fields }) => mirrored(fields),
    hook(pull, event) {
      const body = JSON.stringify({ pullrequest: ofPull(pull), repository: REPOSITORY, actor: account('ada') });
      const headers = {
        'content-type': 'application/json',
        'x-event-key': EVENTS[event] ?? 'pullrequest:updated',
        'x-hub-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      };
      return { headers, body };
    },
    answer,
    record: (pull) => ({
      ...recordOf(pull, 'bitbucket', UUID),
      state: STATES[pull.fields.state],
      reviewers: pull.fields.reviewers.map((name) => account(name).uuid).toSorted(),
    }),
  };
}

const EVENTS: Readonly<Record<string, string>> = { opened: 'pullrequest:created', submitted: 'pullrequest:approved' };
/** As the workspace calls them. */
const STATES: Readonly<Record<Fields['state'], string>> = { open: 'open', closed: 'declined', merged: 'merged' };

function account(name: string) {
  const digits = Buffer.from(name).toString('hex').padEnd(12, '0').slice(-12);
  return { uuid: `{a1c0ffee-0001-4a5b-8c9d-${digits}}`, nickname: name };
}

/** To the microsecond. */
const time = (at: number) => new Date(at).toISOString().replace('Z', '000+00:00');

function ofPull({ number, fields, created, updated }: HeldPull) {
  return {
    ...{ id: number, title: fields.title, description: fields.description, draft: fields.draft },
    state: (STATES[fields.state] as string).toUpperCase(),
    author: account('ada'),
    reviewers: fields.reviewers.map(account),
    source: { branch: { name: `branch-${number}` }, commit: { hash: fields.head.padEnd(12, '0').slice(0, 12) } },
    destination: { branch: { name: 'main' }, repository: REPOSITORY },
    created_on: time(created),
    updated_on: time(updated),
    links: { html: { href: `https://bitbucket.org/acme/app/pull-requests/${number}` } },
  };
}

function answer({ url }: Asked, { pulls }: Held): VendorAnswer | undefined {
  const path = decodeURIComponent(url.pathname).replace(`/repositories/acme/${UUID}`, '/repositories/acme/app');
  if (path === '/repositories/acme/app') return { body: REPOSITORY };
  const list = '/repositories/acme/app/pullrequests';
  const one = path.startsWith(`${list}/`) ? pulls.get(Number(path.slice(list.length + 1))) : undefined;
  if (one) return { body: ofPull(one), shown: [one] };
  const commits = pulls.get(Number(new RegExp(`^${list}/(\\d+)/commits$`).exec(path)?.[1]));
  if (commits) return { body: { values: [{ message: messageOf(commits) }] } };
  if (path !== list) return undefined;
  const query = url.searchParams;
  const page = Number(query.get('page') ?? 1);
  const condition = query.get('q') ?? '';
  const since = Date.parse(/updated_on >= (\S+)/.exec(condition)?.[1] ?? '1970-01-01T00:00:00Z');
  // Beside `q`, `state` is not looked at.
  const isOpenOnly = condition === '' ? query.getAll('state').join() === 'OPEN' : condition.includes('state = "OPEN"');
  const found = listed(pulls.values(), {
    where: ({ fields, updated }) => (!isOpenOnly || fields.state === 'open') && updated >= since,
    by: 'updated',
    isDescending: query.get('sort') === '-updated_on',
    ...{ page, perPage: Number(query.get('pagelen') ?? 10) },
  });
  const next = new URL(url);
  next.searchParams.set('page', String(page + 1));
  return { body: { values: found.shown.map(ofPull), ...(found.hasNext && { next: next.href }) }, shown: found.shown };
}
