import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import type { PollPage } from '../../src/connectors/connector.ts';
import { createPolls } from '../../src/sync/intake/polls.ts';
import { signed } from '../support/fakes/notes.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../support/harness/intake.ts';
import type { OpenedStore } from '../support/harness/store.ts';
import { workspaceContext } from '../support/harness/workspace-context.ts';

const PATH = '/webhooks/main/notes';
// Random, so that it takes its room on the disk.
const BODY = randomBytes(50_000).toString('hex');

/** The disk takes `more` further pages, then is full. */
async function limitDisk(store: OpenedStore, more: number): Promise<void> {
  const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(store.database);
  const most = (rows[0]?.page_count ?? 0) + more;
  await sql`pragma max_page_count = ${sql.lit(most)}`.execute(store.database);
}

async function freeDisk(store: OpenedStore): Promise<void> {
  await sql`pragma max_page_count = ${sql.lit(1_000_000)}`.execute(store.database);
}

describe('a full disk', () => {
  test('is answered 503 before any acknowledgement, loses nothing, and work resumes by itself', async () => {
    const store = await openTestStore();
    const endpoint = await openEndpoint(store, [activeWith()]);
    await limitDisk(store, 200);
    const ids = Array.from({ length: 40 }, (_, index) => `id-${index}`);
    const post = (id: string) => endpoint.post(PATH, BODY, signed(BODY, id));
    const first = await Promise.all(ids.map(post));
    const second = await Promise.all(ids.map(post));
    const refused = [...first, ...second].filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThan(0);
    for (const { body, headers } of refused) {
      expect(body).toBe('{"error":"disk_full"}');
      expect(headers.get('retry-after')).toBe('30');
    }
    const acknowledged = ids.filter((_, index) => first[index]?.status === 202 || second[index]?.status === 202);
    const stored = new Set((await inboxOf(store)).map((row) => row.delivery_key));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);

    await freeDisk(store);
    const third = await Promise.all(ids.map(post));
    expect(third.map(({ status }) => status)).toEqual(ids.map(() => 202));
    expect(await inboxOf(store)).toHaveLength(40);
    expect((await sql<{ integrity_check: string }>`pragma integrity_check`.execute(store.database)).rows).toEqual([
      { integrity_check: 'ok' },
    ]);
  });

  test('stops a poll without moving its position, and the poll goes on when there is space', async () => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const pages: Record<string, PollPage> = {
      '1': { outcome: 'page', event: 'list', body: Buffer.from('small'), next: '2', newest: '2026-01-05T08:00:00Z' },
      '2': { outcome: 'page', event: 'list', body: Buffer.from(randomBytes(200_000).toString('hex')) },
    };
    const connection = {
      units: async () => ['unit'],
      poll: async ({ page = '1' }: { page?: string }) => pages[page] as PollPage,
    };
    const connections = [activeWith({ connection, schedule: { everyMs: 60_000 } })];
    const polls = createPolls(workspaceContext({ store, clock, connections }));
    await limitDisk(store, 20);
    await polls.pollNow();
    const full = await store.query.selectFrom('polls').selectAll().execute();
    expect(full).toMatchObject([{ watermark: null, error: expect.stringMatching(/^disk_full: /) }]);
    expect(JSON.parse(full[0]?.walk ?? '')).toMatchObject({ page: '2' });
    await freeDisk(store);
    await clock.advance(60_000);
    await polls.stop();
    expect(await store.query.selectFrom('polls').selectAll().execute()).toMatchObject([
      { watermark: '2026-01-05T08:00:00Z', walk: null, error: null },
    ]);
    expect((await inboxOf(store)).map((row) => row.body?.length)).toEqual([5, 400_000]);
  });
});
