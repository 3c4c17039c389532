import { shortcut } from '../../../src/connectors/shortcut/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf } from './profile.ts';

const API = '/api/v3';
const SEARCH = `${API}/stories/search`;
const STORY = `${API}/stories/318`;
const TEAM_ID = '5c2b1f0a-7d3e-4b8a-9c11-2a3b4c5d6e7f';
const TEAM = `${API}/groups/${TEAM_ID}`;
const DAY = 24 * 60 * 60_000;
/** The watermark less the overlap of ten minutes. */
const SINCE = Date.UTC(2026, 0, 1, 11, 50);
const PAGES = 4;

const { story } = fixture<{ story: object }>('shortcut', 'stories.get');
const team = { id: TEAM_ID, mention_name: 'web', archived: false };

const iso = (time: number) => new Date(time).toISOString();

/** Each of four days holds two stories; the last has no end. */
function page(number: number): Exchange {
  const start = SINCE + (number - 1) * DAY;
  const stories = [1, 2].map((hour) => ({
    ...story,
    id: 10 * number + hour,
    updated_at: iso(start + hour * 3_600_000),
  }));
  const until = number < PAGES ? { updated_at_end: iso(start + DAY) } : {};
  return {
    method: 'POST',
    path: SEARCH,
    sent: { group_id: TEAM_ID, includes_description: true, updated_at_start: iso(start), ...until },
    body: stories,
  };
}

const member: Exchange = { path: `${API}/member`, body: { id: 'm', name: 'sync' } };

export const profile = profileOf({
  id: 'shortcut',
  options: { token: 'token-contract', teams: [TEAM_ID] },
  origin: 'https://api.app.shortcut.com',
  webhook: hmacWebhook(shortcut, {
    header: 'payload-signature',
    elsewhere: (hex) => ({ 'the former header': { 'clubhouse-signature': hex } }),
  }),
  fixtures: [
    { file: 'story.updated', source: 'webhook', event: 'webhook', outcome: 'references' },
    { file: 'story.several', source: 'webhook', event: 'webhook', outcome: 'references' },
    ignored('epic.updated', 'webhook', 'event_not_followed'),
    from('stories.list', 'poll', 'stories.list'),
    from('stories.get', 'fetch', 'stories.get'),
    {
      ...from('stories.closed', 'poll', 'stories.list'),
      document: 'https://developer.shortcut.com/api/rest/v3',
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-01-06T09:00:00Z' },
        { state: 'done', isDropped: true, closedAt: null },
        { state: 'done', isDropped: false, closedAt: '2026-01-06T10:00:00Z' },
        { state: 'in_progress', isDropped: false, closedAt: null },
      ],
    },
    from('stories.hook', 'fetch', 'stories.judged'),
    { ...from('stories.hook.other-team', 'fetch', 'stories.judged'), outcome: 'ignored', reason: 'team_not_in_scope' },
    from('stories.gone', 'fetch', 'stories.gone'),
  ],
  about: [
    'changed_at',
    'actions',
    ...[0, 1, 2, 3].flatMap((at) => ['', '.id', '.entity_type'].map((part) => `actions.${at}${part}`)),
  ],
  poll: {
    unit: TEAM_ID,
    watermark: '2026-01-01T12:00:00.000Z',
    page,
    pages: PAGES,
    newest: '2026-01-04T13:50:00.000Z',
    foreignNext: { body: { data: [story], next: 'https://evil.example/stories' } },
  },
  fetch: {
    kind: 'work_item',
    reference: { storyId: '318', teamId: TEAM_ID },
    found: [{ path: STORY, body: story }],
    gone: [
      { path: STORY, status: 404 },
      { path: TEAM, body: team },
    ],
    unjudged: {
      reference: { storyId: '318', isFollowed: 'unknown' },
      found: [
        { path: STORY, body: story },
        { path: TEAM, body: team },
      ],
      missing: [{ path: STORY, status: 404 }],
    },
  },
  check: { good: [member, { path: TEAM, body: team }], refused: [{ ...member, status: 401, body: '' }] },
});
