import { standardSignature } from '../../../src/connectors/kit/verify.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, ignored, profileOf } from './profile.ts';

const ORIGIN = 'https://desk.example.com';
const ITEMS = '/feed/items';
const ITEM = '/feed/items/4711';
const PAGES = 4;
/** The watermark less the overlap of ten minutes. */
const SINCE = { updatedSince: '2026-02-28T23:50:00.000Z' };
const SENT_AT = 1_750_000_000;

const item = fixture('generic', 'items.get');

const key = (fill: number) => `whsec_${Buffer.alloc(32, fill).toString('base64')}`;

function sign(body: Buffer, secret: string, id = 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W', sentAt = SENT_AT) {
  return standardSignature(body, secret, { id, at: sentAt * 1_000 });
}

/** Page n of four holds two items, each an hour older than the one before. */
function page(number: number): Exchange {
  const items = [2 * number - 2, 2 * number - 1].map((age) => ({
    ...item,
    id: String(4_711 - age),
    updatedAt: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString(),
  }));
  return {
    path: ITEMS,
    query: number === 1 ? SINCE : { ...SINCE, cursor: `after-${number - 1}` },
    body: { items, nextCursor: number < PAGES ? `after-${number}` : null },
  };
}

const said = (message: string) => ({ message });

export const profile = profileOf({
  id: 'generic',
  options: { system: 'desk', feedUrl: `${ORIGIN}/feed/`, token: 'feed-token-contract', projects: ['web*'] },
  origin: ORIGIN,
  webhook: {
    signatureHeader: 'webhook-signature',
    secrets: [key(1), key(2), key(3)],
    sentAt: SENT_AT * 1_000,
    required: [],
    sign,
    vector: {
      // Computed outside this program, from the standard's description.
      secret: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
      body: '{"object_kind":"merge_request"}',
      headers: {
        'webhook-id': 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f',
        'webhook-timestamp': '1750000000',
        'webhook-signature': 'v1,dqTGfM7zFJcswV+BxNDPvvv5Fv42/Ejc5cfWSKWZMUM=',
      },
    },
    forgeries(body, secret) {
      const good = sign(body, secret);
      const { 'webhook-id': _id, ...nameless } = good;
      const { 'webhook-timestamp': _time, ...timeless } = good;
      return {
        'a signature for another id': { ...good, 'webhook-id': 'msg_other' },
        'no id': nameless,
        'no time': timeless,
        'a signature for another time': { ...good, 'webhook-timestamp': String(SENT_AT + 1) },
        'a signature that is six minutes old': sign(body, secret, 'msg_1', SENT_AT - 360),
        'a signature of six minutes from now': sign(body, secret, 'msg_1', SENT_AT + 360),
        'a version that is not known': { ...good, 'webhook-signature': good['webhook-signature'].replace('v1', 'v2') },
        'the secret itself': { ...good, 'webhook-signature': secret },
      };
    },
  },
  fixtures: [
    from('item.created', 'webhook', 'webhook'),
    from('item.updated', 'webhook', 'webhook'),
    ignored('item.updated.other-project', 'webhook', 'project_not_in_scope'),
    from('item.deleted', 'webhook', 'webhook'),
    ignored('report.ready', 'webhook', 'event_not_followed'),
    from('items.list', 'poll', 'items.list'),
    from('items.get', 'fetch', 'items.get'),
    {
      ...from('items.closed', 'poll', 'items.list'),
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-03-05T08:00:00.000Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-05T09:10:00.5Z' },
        { state: 'done' },
        { state: 'open', isDropped: false, closedAt: null },
      ],
    },
    from('items.gone', 'fetch', 'items.gone'),
  ],
  about: [
    'type',
    'timestamp',
    'data',
    'data.id',
    'data.project',
    'data.project.id',
    'data.identifier',
    'data.updatedAt',
  ],
  tests: [
    {
      name: 'a sender that tries its signature',
      event: 'webhook',
      payload: { type: 'ping', timestamp: '2026-03-02T09:30:00Z', data: {} },
      reason: 'event_not_followed',
    },
  ],
  poll: {
    unit: 'items',
    page,
    pages: PAGES,
    foreignNext: { body: { items: [item], nextCursor: `https://evil.example${ITEMS}?cursor=2` } },
  },
  fetch: {
    kind: 'work_item',
    reference: { id: '4711', projectId: 'web', identifier: 'WEB-4711' },
    found: [{ path: ITEM, body: item }],
    gone: [{ path: ITEM, status: 410, body: said('deleted') }],
    hidden: [{ path: ITEM, status: 404, body: said('no such item, or not for you') }],
  },
  check: {
    good: [
      { path: ITEMS, query: { done: 'false' }, body: { items: [] } },
      { path: '/feed/ids', body: { ids: ['4711'], projects: ['web'] } },
    ],
    refused: [
      { path: ITEMS, query: { done: 'false' }, status: 401, body: said('who are you') },
      { path: '/feed/ids', status: 401, body: said('who are you') },
    ],
  },
});
