import { beforeEach, describe, expect, it } from 'vitest';
import { shortcut } from '../../../src/connectors/shortcut/index.ts';
import type { ItemReference } from '../../../src/model/item.ts';
import type { HttpClient } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { documentedOnly } from '../../support/vendors/vendor-requests/index.ts';

/** What is asked of Shortcut beyond what every connector is asked: by an invented workspace with one team and one story. */

const TEAM = '5c2b1f0a-7d3e-4b8a-9c11-2a3b4c5d6e7f';
const OTHER = '5c2b1f0a-7d3e-4b8a-9c11-2a3b4c5d6e70';
const { signal } = new AbortController();
const REFERENCE: ItemReference = { kind: 'work_item', key: 'k', locator: { storyId: '318', teamId: TEAM } };
const UNJUDGED: ItemReference = { ...REFERENCE, locator: { storyId: '318', isFollowed: 'unknown' } };
const COMMENT = { marker: '<!-- worksync:w:tasks -->', text: 'Linked to ABC-1.' };
const STORED = 'Linked to ABC-1.\n\nworksync:w:tasks';

interface Asked {
  readonly request: string;
  readonly body: Record<string, unknown>;
}

let asked: Asked[];
let answers: Record<string, unknown>;

beforeEach(() => {
  asked = [];
  answers = {
    'GET /member': { id: 'me', name: 'sync' },
    'GET /groups': [
      { id: TEAM, mention_name: 'Web', archived: false },
      { id: OTHER, mention_name: 'web-old', archived: true },
    ],
    [`GET /groups/${TEAM}`]: { id: TEAM, mention_name: 'Web' },
    'GET /stories/318': {
      id: 318,
      group_id: TEAM,
      created_at: '2026-01-05T08:00:00Z',
      completed: false,
      workflow_id: 7,
    },
    'GET /stories/318/comments': [],
    'GET /workflows/7': {
      states: [
        { id: 11, name: 'To do', type: 'unstarted', position: 1 },
        { id: 13, name: 'Released', type: 'done', position: 9 },
        { id: 12, name: 'Finished', type: 'done', position: 5 },
      ],
    },
  };
});

const http: HttpClient = documentedOnly({
  async request({ method, url, body }) {
    const request = `${method} ${new URL(url).pathname.replace('/api/v3', '')}`;
    asked.push({ request, body: body === undefined ? {} : (JSON.parse(String(body)) as Record<string, unknown>) });
    const answer = answers[request] ?? (method === 'GET' ? undefined : []);
    return { status: answer === undefined ? 404 : 200, headers: {}, body: Buffer.from(JSON.stringify(answer ?? {})) };
  },
  close: async () => undefined,
});

/** At noon on 5 January 2026. */
function connect(more: object = {}) {
  const clock = createTravellingClock({ start: Date.UTC(2026, 0, 5, 12) });
  const options = shortcut.options.parse({ token: 'a-token', teams: ['web'], ...more });
  return { options, connection: shortcut.connect(options, { http, clock, logger: silentLogger }) };
}

const written = () => asked.filter(({ request }) => !request.startsWith('GET'));

describe('comments', () => {
  it('are posted where none of ours stands, with the words that they are found by', async () => {
    answers['GET /stories/318/comments'] = [
      { id: 1, text: STORED, author_id: 'somebody else' },
      { id: 2, text: STORED, author_id: 'me', deleted: true },
      { id: 3, text: null, author_id: null },
    ];
    await connect().connection.comment?.(REFERENCE, COMMENT, signal);
    expect(written()).toEqual([{ request: 'POST /stories/318/comments', body: { text: STORED } }]);
  });

  it('are edited in place, and left alone when they say it already', async () => {
    answers['GET /stories/318/comments'] = [{ id: 4, text: 'Before\n\nworksync:w:tasks', author_id: 'me' }];
    await connect().connection.comment?.(REFERENCE, COMMENT, signal);
    expect(written()).toEqual([{ request: 'PUT /stories/318/comments/4', body: { text: STORED } }]);
    answers['GET /stories/318/comments'] = [{ id: 4, text: `${STORED}\r\n`, author_id: 'me' }];
    asked = [];
    await connect().connection.comment?.(REFERENCE, COMMENT, signal);
    expect(written()).toEqual([]);
  });
});

describe('closing', () => {
  it('takes the first state of type done, or the one that is named', async () => {
    await connect().connection.close?.(REFERENCE, signal);
    await connect({ doneState: 'released' }).connection.close?.(REFERENCE, signal);
    expect(written().map(({ body }) => body['workflow_state_id'])).toEqual([12, 13]);
  });

  it('leaves a completed story, and says so where no state fits', async () => {
    await expect(connect({ doneState: 'To do' }).connection.close?.(REFERENCE, signal)).rejects.toMatchObject({
      code: 'conflict',
      hint: expect.stringContaining('doneState'),
    });
    answers['GET /stories/318'] = { id: 318, completed: true, workflow_id: 7 };
    await connect().connection.close?.(REFERENCE, signal);
    expect(written()).toEqual([]);
  });
});

describe('walks', () => {
  async function windows(walk: (page: string | undefined) => Promise<{ next?: string | undefined }>) {
    for (let page: string | undefined; ; ) {
      const { next } = await walk(page);
      if (next === undefined) break;
      page = next;
    }
    expect(new Set(written().map(({ body }) => body['group_id']))).toEqual(new Set([TEAM]));
    return written().map(({ body }) =>
      Object.fromEntries(
        Object.entries(body).filter(([name]) => name !== 'group_id' && name !== 'includes_description'),
      ),
    );
  }

  it('of changes leave no moment out, and have no end', async () => {
    const position = { unit: 'web', watermark: '2026-01-03T12:10:00.000Z', startedAt: '2026-01-05T12:00:00.000Z' };
    const found = await windows(async (page) => {
      const got = await connect().connection.poll({ ...position, page }, signal);
      if (got.outcome !== 'page') throw new Error('no page');
      return got;
    });
    expect(found).toEqual([
      { updated_at_start: '2026-01-03T12:00:00.000Z', updated_at_end: '2026-01-04T12:00:00.000Z' },
      { updated_at_start: '2026-01-04T12:00:00.000Z' },
    ]);
  });

  it.each(['first', 'sweep', 'history'] as const)('of kind %s go by years of creation, all of them', async (kind) => {
    const found = await windows(async (page) => {
      const { connection } = connect();
      if (kind === 'sweep') return (await connection.sweep?.(TEAM, page, signal)) ?? {};
      if (kind === 'history') return (await connection.history?.({ unit: TEAM, page }, signal)) ?? {};
      const got = await connection.poll({ unit: TEAM, startedAt: '2026-01-05T12:00:00.000Z', page }, signal);
      return got.outcome === 'page' ? got : {};
    });
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

describe('a story', () => {
  it('without a team is not read, unless it had one', async () => {
    answers['GET /stories/318'] = { id: 318, group_id: null, created_at: '2026-01-05T08:00:00Z' };
    const { options, connection } = connect();
    const translated = async (reference: ItemReference) =>
      shortcut.translate({ source: 'fetch', ...(await connection.fetch(reference, signal)) }, options);
    expect(await translated(UNJUDGED)).toEqual({ outcome: 'ignored', reason: 'not_found' });
    expect(await translated(REFERENCE)).toMatchObject({ outcome: 'items', items: [{ containerId: TEAM }] });
  });

  it('that never changed has the time of its creation', async () => {
    const { options, connection } = connect();
    const fetched = await connection.fetch(REFERENCE, signal);
    expect(shortcut.translate({ source: 'fetch', ...fetched }, options)).toMatchObject({
      items: [{ updatedAt: Date.UTC(2026, 0, 5, 8), identifier: 'sc-318' }],
    });
  });

  it('is named once, however often a webhook tells of it', () => {
    const actions = [318, 319, 318].map((id) => ({ id, entity_type: 'story', action: 'update' }));
    const body = Buffer.from(JSON.stringify({ changed_at: '2026-01-05T09:00:00Z', actions }));
    const told = shortcut.translate({ source: 'webhook', event: 'webhook', body }, connect().options);
    expect(told).toMatchObject({ references: [{ locator: { storyId: '318' } }, { locator: { storyId: '319' } }] });
    const broken = { changed_at: '2026-01-05T09:00:00Z', actions: [{ ...actions[0], id: null }, actions[1]] };
    const others = Buffer.from(JSON.stringify(broken));
    expect(shortcut.translate({ source: 'webhook', event: 'webhook', body: others }, connect().options)).toMatchObject({
      references: [{ locator: { storyId: '319' } }],
    });
  });
});

it('patterns take in teams that are in use', async () => {
  expect(await connect({ teams: ['web*'] }).connection.units(signal)).toEqual(['web']);
});
