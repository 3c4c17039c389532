import { expect, test } from 'vitest';
import type { Connection, LinkedStatus } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { ItemReference } from '../../../../src/model/item.ts';
import type { HttpClient } from '../../../../src/platform/http/http-client.ts';
import { createPauses, recordRateLimits, withRateLimitGuard } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

test.each<[string, SyncError, number]>([
  ['as long as the provider asks', new SyncError('rate_limited', 'slow', { retryAfter: 90_000 }), 90_000],
  ['a minute where it names no time', new SyncError('rate_limited', 'slow'), 60_000],
  ['an hour at most', new SyncError('rate_limited', 'slow', { retryAfter: 1e12 }), 3_600_000],
  ['a second at least', new SyncError('rate_limited', 'slow', { retryAfter: -5 }), 1_000],
  ['not at all for other errors', new SyncError('server_failed', 'down', { retryAfter: 5_000 }), 0],
])('a limit pauses %s', (_name, error, expected) => {
  const pauses = createPauses(createTravellingClock());
  expect(pauses.recordFailure('notes', error, 'poll')).toBe(expected);
  expect(pauses.left('notes', 'poll')).toBe(expected);
});

test('a pause ends by itself, and a shorter one does not cut a longer one', async () => {
  const clock = createTravellingClock();
  const pauses = createPauses(clock);
  expect(pauses.left('notes', 'poll')).toBe(0);
  pauses.pause('notes', 10_000);
  pauses.pause('notes', 1_000);
  await clock.advance(4_000);
  expect(pauses.left('notes', 'poll')).toBe(6_000);
  expect(pauses.left('other', 'poll')).toBe(0);
  await clock.advance(6_000);
  expect(pauses.left('notes', 'poll')).toBe(0);
});

test("a provider's limit is everybody's; one kept for others leaves them free", () => {
  const pauses = createPauses(createTravellingClock());
  const left = () => (['fetch', 'poll', 'background'] as const).map((use) => pauses.left('notes', use));
  pauses.recordFailure('notes', new SyncError('rate_limited', 'half is kept', { retryAfter: 3_000 }), 'background');
  expect(left()).toEqual([0, 0, 3_000]);
  pauses.recordFailure('notes', new SyncError('rate_limited', 'a little is kept', { retryAfter: 2_000 }), 'poll');
  expect(left()).toEqual([0, 2_000, 3_000]);
  pauses.recordFailure(
    'notes',
    new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 }),
    'background',
  );
  expect(left()).toEqual([9_000, 9_000, 9_000]);
});

test('a client sends nothing while the provider wants to be left alone, which no other pause asks for', async () => {
  const clock = createTravellingClock();
  const pauses = createPauses(clock);
  const sent: string[] = [];
  const http: HttpClient = {
    async request({ url }) {
      sent.push(url);
      return { status: 200, headers: {}, body: Buffer.alloc(0) };
    },
    close: async () => undefined,
  };
  const ask = (url: string, connection = 'notes') =>
    withRateLimitGuard(http, connection, pauses).request({ method: 'GET', url, target: connection });
  pauses.pause('notes', 60_000);
  pauses.recordFailure('notes', new SyncError('rate_limited', 'a little is kept', { retryAfter: 60_000 }), 'fetch');
  await ask('while nobody was told');
  pauses.recordFailure(
    'notes',
    new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 }),
    'background',
  );
  await clock.advance(2_000);
  await expect(ask('too soon')).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 7_000, status: undefined });
  await ask('elsewhere', 'other');
  await clock.advance(7_000);
  await ask('in time');
  expect(sent).toEqual(['while nobody was told', 'elsewhere', 'in time']);
});

const told = new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 });
const { signal } = new AbortController();

test.each<[string, (connection: Connection) => unknown]>([
  ['what a name leads to', ({ identify }) => identify?.('acme', signal)],
  ['the webhooks', ({ hooks }) => hooks?.states('https://here.example', signal)],
  ['to write a status', ({ status }) => status?.write({ key: '1' } as ItemReference, {} as LinkedStatus, signal)],
])('a limit is heard by all, also from who asks for %s', async (_name, ask) => {
  const pauses = createPauses(createTravellingClock());
  const fails = async () => Promise.reject(told);
  const connection = recordRateLimits(connectionOf(fails), 'notes', pauses);
  await expect(ask(connection)).rejects.toBe(told);
  expect([pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')]).toEqual([9_000, 9_000]);
});

test.each<[string, SyncError]>([
  ['that was kept without asking', new SyncError('rate_limited', 'half is kept', { retryAfter: 3_000 })],
  ['of another kind', new SyncError('server_failed', 'down', { status: 503 })],
])('a failure %s is no limit that concerns all', async (_name, error) => {
  const pauses = createPauses(createTravellingClock());
  const connection = recordRateLimits(
    connectionOf(async () => Promise.reject(error)),
    'notes',
    pauses,
  );
  await expect(connection.units(signal)).rejects.toBe(error);
  expect(pauses.left('notes', 'background')).toBe(0);
});

test('a connection that tells of limits answers as before, and does no more than it can', async () => {
  const plain = connectionOf(async () => Promise.resolve('the answer'));
  const connection = recordRateLimits(plain, 'notes', createPauses(createTravellingClock()));
  expect(await connection.units(signal)).toBe('the answer');
  expect(connection.status?.right).toBe('to write');
  expect(connection.close).toBeUndefined();
});

function connectionOf(ask: () => Promise<never> | Promise<string>): Connection {
  return {
    ...{ units: ask, poll: ask, fetch: ask, check: ask, identify: ask },
    hooks: { states: ask, install: ask },
    status: { right: 'to write', write: ask },
  } as unknown as Connection;
}
