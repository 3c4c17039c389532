import { expect, test } from 'vitest';
import type { Connection, LinkedStatus } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { ItemReference } from '../../../../src/model/item.ts';
import type { HttpClient } from '../../../../src/platform/http/http-client.ts';
import { createPauses, recordRateLimits, withRateLimitGuard } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

test.each<[string, SyncError, number]>([
  ['as long as the vendor requests', new SyncError('rate_limited', 'slow', { retryAfter: 90_000 }), 90_000],
  ['for a minute if the vendor names no time', new SyncError('rate_limited', 'slow'), 60_000],
  ['for an hour at most', new SyncError('rate_limited', 'slow', { retryAfter: 1e12 }), 3_600_000],
  ['for a second at least', new SyncError('rate_limited', 'slow', { retryAfter: -5 }), 1_000],
  ['not at all for other errors', new SyncError('server_failed', 'down', { retryAfter: 5_000 }), 0],
])('pauses %s after a rate limit', (_name, error, expected) => {
  const pauses = createPauses(createTravellingClock());
  expect(pauses.recordFailure('notes', error, 'poll')).toBe(expected);
  expect(pauses.left('notes', 'poll')).toBe(expected);
});

test('ends a pause by itself, and keeps a longer pause when a shorter one follows', async () => {
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

test('applies a limit of the vendor to all uses, and a limit of worksync to less urgent ones', () => {
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

test('blocks the client during a limit of the vendor, and not during other pauses', async () => {
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
  const call = (url: string, connection = 'notes') =>
    withRateLimitGuard(http, connection, pauses).request({ method: 'GET', url, target: connection });
  pauses.pause('notes', 60_000);
  pauses.recordFailure('notes', new SyncError('rate_limited', 'a little is kept', { retryAfter: 60_000 }), 'fetch');
  await call('while the vendor reported no limit');
  pauses.recordFailure(
    'notes',
    new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 }),
    'background',
  );
  await clock.advance(2_000);
  await expect(call('too soon')).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 7_000, status: undefined });
  await call('elsewhere', 'other');
  await clock.advance(7_000);
  await call('in time');
  expect(sent).toEqual(['while the vendor reported no limit', 'elsewhere', 'in time']);
});

const reported = new SyncError('rate_limited', 'too many', { retryAfter: 9_000, status: 429 });
const { signal } = new AbortController();

test.each<[string, (connection: Connection) => unknown]>([
  ['the id of a name', ({ identify }) => identify?.('acme', signal)],
  ['the webhooks', ({ hooks }) => hooks?.states('https://here.example', signal)],
  ['to write a status', ({ status }) => status?.write({ key: '1' } as ItemReference, {} as LinkedStatus, signal)],
])('records a limit that a request for %s meets', async (_name, call) => {
  const pauses = createPauses(createTravellingClock());
  const fails = async () => Promise.reject(reported);
  const connection = recordRateLimits(connectionOf(fails), 'notes', pauses);
  await expect(call(connection)).rejects.toBe(reported);
  expect([pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')]).toEqual([9_000, 9_000]);
});

test.each<[string, SyncError]>([
  ['before any request was sent', new SyncError('rate_limited', 'half is kept', { retryAfter: 3_000 })],
  ['of another kind', new SyncError('server_failed', 'down', { status: 503 })],
])('records no limit after a failure %s', async (_name, error) => {
  const pauses = createPauses(createTravellingClock());
  const connection = recordRateLimits(
    connectionOf(async () => Promise.reject(error)),
    'notes',
    pauses,
  );
  await expect(connection.units(signal)).rejects.toBe(error);
  expect(pauses.left('notes', 'background')).toBe(0);
});

test('passes the answers of a wrapped connection through, and adds no operation', async () => {
  const plain = connectionOf(async () => Promise.resolve('the answer'));
  const connection = recordRateLimits(plain, 'notes', createPauses(createTravellingClock()));
  expect(await connection.units(signal)).toBe('the answer');
  expect(connection.status?.right).toBe('to write');
  expect(connection.close).toBeUndefined();
});

function connectionOf(call: () => Promise<never> | Promise<string>): Connection {
  return {
    units: call,
    poll: call,
    fetch: call,
    check: call,
    identify: call,
    hooks: { states: call, install: call },
    status: { right: 'to write', write: call },
  } as unknown as Connection;
}
