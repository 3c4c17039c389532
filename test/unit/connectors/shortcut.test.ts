import { describe, expect, it } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import { shortcut } from '../../../src/connectors/shortcut/index.ts';
import type { ItemReference } from '../../../src/model/item.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import {
  conversations,
  exactly,
  itemsIn,
  type Reply,
  type Turn,
  translationsOf,
} from '../../support/vendors/course.ts';
import { documentedOnly } from '../../support/vendors/vendor-requests/index.ts';

type Connected = Required<Connection>;

const TEAM = '5c2b1f0a-7d3e-4b8a-9c11-2a3b4c5d6e7f';
const OTHER = '5c2b1f0a-7d3e-4b8a-9c11-2a3b4c5d6e70';
const { signal } = new AbortController();
const PARTY = {
  connector: shortcut,
  given: { token: 'a-token', teams: ['web'] },
  origin: 'https://api.app.shortcut.com/api/v3',
};
const REFERENCE: ItemReference = { kind: 'work_item', key: 'k', locator: { storyId: '318', teamId: TEAM } };
const story = (more: object = {}): Turn => [
  'GET /stories/318',
  { body: { id: 318, group_id: TEAM, created_at: '2026-01-05T08:00:00Z', completed: false, workflow_id: 7, ...more } },
];
const teams: Turn = [
  'GET /groups',
  {
    body: [
      { id: TEAM, mention_name: 'Web', archived: false },
      { id: OTHER, mention_name: 'web-old', archived: true },
    ],
  },
];

describe('a story', () => {
  const me: Turn = ['GET /member', { body: { id: 'me', name: 'sync' } }];
  const STORED = 'Linked to ABC-1.\n\nworksync:w:tasks';
  const COMMENT = { marker: '<!-- worksync:w:tasks -->', text: 'Linked to ABC-1.' };
  const comment = async (connection: Connected) => void (await connection.comment(REFERENCE, COMMENT, signal));
  const listed = (...comments: object[]): Turn => ['GET /stories/318/comments', { body: comments }];
  const by = (author_id: string | null, text: string | null, more: object = {}) => ({
    id: 4,
    text,
    author_id,
    ...more,
  });
  const sent = { text: STORED };
  const close = (connection: Connected) => connection.close(REFERENCE, signal);
  const states = [
    { id: 11, name: 'To do', type: 'unstarted', position: 1 },
    { id: 13, name: 'Released', type: 'done', position: 9 },
    { id: 12, name: 'Finished', type: 'done', position: 5 },
  ];
  const workflow: Turn = ['GET /workflows/7', { body: { states } }];
  const set = (workflow_state_id: number): Turn => ['PUT /stories/318', { body: {} }, { workflow_state_id }];
  const fetch = (reference: ItemReference) => async (connection: Connected) => {
    const { event, body } = await connection.fetch(reference, signal);
    return itemsIn(PARTY, { event, body }, 'fetch');
  };

  conversations(PARTY, {
    'gets a comment if there is none of our own': [
      comment,
      [
        me,
        listed(by('somebody else', STORED), by('me', STORED, { deleted: true }), by(null, null)),
        ['POST /stories/318/comments', { status: 201, body: {} }, sent],
      ],
    ],
    'has its comment edited in place': [
      comment,
      [me, listed(by('me', 'Before\n\nworksync:w:tasks')), ['PUT /stories/318/comments/4', { body: {} }, sent]],
    ],
    'is closed by the first state of type done': [close, [story(), workflow, set(12)]],
    'is not closed by a state that is not done': [
      close,
      [story(), workflow],
      expect.objectContaining({ code: 'conflict', hint: expect.stringContaining('completedStatus') }),
      { completedStatus: 'To do' },
    ],
    'stays as it is if completed': [close, [story({ completed: true })]],
    'without a team stays with the team that it had': [
      fetch(REFERENCE),
      [story({ group_id: null })],
      [{ containerId: TEAM }],
    ],
    'that never changed has the time of its creation': [
      fetch(REFERENCE),
      [story()],
      [{ updatedAt: Date.UTC(2026, 0, 5, 8), identifier: 'sc-318' }],
    ],
    'is in a team of a pattern, unless the team is archived': [
      (connection) => connection.units(signal),
      [teams],
      exactly(['web']),
      { teams: ['web*'] },
    ],
  });

  it('is referenced once by a webhook that names it twice, or not at all without an id', () => {
    const { hook } = translationsOf(PARTY);
    const keys = (...ids: (number | null)[]) => {
      const actions = ids.map((id) => ({ id, entity_type: 'story', action: 'update' }));
      const translation = hook('webhook', { changed_at: '2026-01-05T09:00:00Z', actions });
      return translation.outcome === 'references'
        ? translation.references.map(({ locator }) => locator['storyId'])
        : [];
    };
    expect([keys(318, 319, 318), keys(null, 319)]).toEqual([['318', '319'], ['319']]);
  });
});

describe('walks', () => {
  /** The windows that a walk requests until its last page, at noon on 5 January 2026, without what all of them have. */
  async function windows(walk: (connection: Connected, page?: string) => Promise<{ next?: string }>) {
    const found: Record<string, string>[] = [];
    const http = documentedOnly({
      async request({ method, url, body }) {
        if (method === 'POST') found.push(JSON.parse(String(body)));
        const answer = method === 'POST' ? [] : url.endsWith(TEAM) ? { id: TEAM } : (teams[1] as Reply).body;
        return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
      },
      close: async () => undefined,
    });
    const clock = createTravellingClock({ start: Date.UTC(2026, 0, 5, 12) });
    const deps = { http, clock, logger: silentLogger };
    const connection = shortcut.connect(shortcut.options.parse(PARTY.given), deps) as Connected;
    for (let page: string | undefined, isFirst = true; isFirst || page !== undefined; isFirst = false)
      page = (await walk(connection, page)).next;
    return found.map(({ group_id, ...window }) => {
      expect(group_id).toBe(TEAM);
      delete window['includes_description'];
      return window;
    });
  }

  it('of changes leave no moment out, and have no end', async () => {
    const position = { unit: 'web', watermark: '2026-01-03T12:10:00.000Z', startedAt: '2026-01-05T12:00:00.000Z' };
    const poll = (connection: Connected, page?: string) =>
      connection.poll({ ...position, page }, signal) as Promise<object>;
    expect(await windows(poll)).toEqual([
      { updated_at_start: '2026-01-03T12:00:00.000Z', updated_at_end: '2026-01-04T12:00:00.000Z' },
      { updated_at_start: '2026-01-04T12:00:00.000Z' },
    ]);
  });

  it.each([
    [
      'first',
      (connection: Connected, page?: string) =>
        connection.poll({ unit: 'web', startedAt: '2026-01-05T12:00:00.000Z', page }, signal) as Promise<object>,
    ],
    ['sweep', (connection: Connected, page?: string) => connection.sweep('web', page, signal)],
    ['history', (connection: Connected, page?: string) => connection.history({ unit: 'web', page }, signal)],
  ] as const)('of kind %s go by years of creation, all of them', async (kind, walk) => {
    const found = await windows(walk);
    expect(found).toHaveLength(12);
    expect(found[0]).toMatchObject({ created_at_start: '2026-01-01T00:00:00.000Z' });
    expect(found[0]).not.toHaveProperty('created_at_end');
    expect(found[11]).toMatchObject({ created_at_end: '2016-01-01T00:00:00.000Z' });
    expect(found[11]).not.toHaveProperty('created_at_start');
    const ends = found.slice(1).map((query) => Date.parse(query['created_at_end'] as string));
    expect(ends).toEqual(found.slice(0, -1).map((query) => Date.parse(query['created_at_start'] as string)));
    for (const query of found) expect('workflow_state_types' in query).toBe(kind === 'first');
  });
});
