import { expect, test } from 'vitest';
import type { Connection, LinkedStatus } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { ItemReference } from '../../../../src/model/item.ts';
import type { HttpClient } from '../../../../src/platform/http/http-client.ts';
import { createPauses, recordRateLimits, withRateLimitGuard } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';

const { signal } = new AbortController();
const STATUS = [{ key: '1' } as ItemReference, {} as LinkedStatus, signal] as const;
/** A limit that worksync applied; with a status, one that the vendor reported. */
const limit = (retryAfter?: number, status?: number) =>
  new SyncError('rate_limited', 'slow', {
    ...(retryAfter !== undefined && { retryAfter }),
    ...(status !== undefined && { status }),
  });
const REPORTED = limit(9_000, 429);
const DOWN = new SyncError('server_failed', 'down', { retryAfter: 5_000, status: 503 });

test.each<[string, SyncError, number]>([
  ['as long as the vendor requests', limit(90_000), 90_000],
  ['for a minute if the vendor names no time', limit(), 60_000],
  ['for an hour at most', limit(1e12), 3_600_000],
  ['for a second at least', limit(-5), 1_000],
  ['not at all for other errors', DOWN, 0],
])('pauses %s after a rate limit', (_name, error, expected) => {
  const pauses = createPauses(createTravellingClock());
  expect(pauses.recordFailure('notes', error, 'poll')).toBe(expected);
  expect([pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')]).toEqual([expected, 0]);
});

test('ends a pause by itself, and keeps a longer pause when a shorter one follows', async () => {
  const clock = createTravellingClock();
  const pauses = createPauses(clock);
  const left = (connection = 'notes') => pauses.left(connection, 'poll');
  pauses.pause('notes', 10_000);
  pauses.pause('notes', 1_000);
  await clock.advance(4_000);
  expect([left(), left('other')]).toEqual([6_000, 0]);
  await clock.advance(6_000);
  expect(left()).toBe(0);
});

test('applies a limit of the vendor to all uses, and a limit of worksync to less urgent ones', () => {
  const pauses = createPauses(createTravellingClock());
  const left = () => (['fetch', 'poll', 'background'] as const).map((use) => pauses.left('notes', use));
  pauses.recordFailure('notes', limit(3_000), 'background');
  expect(left()).toEqual([0, 0, 3_000]);
  pauses.recordFailure('notes', limit(2_000), 'poll');
  expect(left()).toEqual([0, 2_000, 3_000]);
  pauses.recordFailure('notes', REPORTED, 'background');
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
  pauses.recordFailure('notes', limit(60_000), 'fetch');
  await call('while the vendor reported no limit');
  pauses.recordFailure('notes', REPORTED, 'background');
  await clock.advance(2_000);
  await expect(call('too soon')).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 7_000, status: undefined });
  await call('elsewhere', 'other');
  await clock.advance(7_000);
  await call('in time');
  expect(sent).toEqual(['while the vendor reported no limit', 'elsewhere', 'in time']);
});

/** Returns a recorded connection whose requests end like `call`, and its pauses. */
function recorded(call: () => Promise<string>) {
  const operations = {
    units: call,
    identify: call,
    hooks: { states: call },
    status: { right: 'to write', write: call },
  };
  const pauses = createPauses(createTravellingClock());
  const connection = recordRateLimits(operations as unknown as Connection, 'notes', pauses);
  return { connection, left: () => [pauses.left('notes', 'poll'), pauses.vendorLimitLeft('notes')] };
}

test.each<[string, SyncError, number, (connection: Connection) => unknown]>([
  ['reported limit for the id of a name', REPORTED, 9_000, ({ identify }) => identify?.('acme', signal)],
  ['reported limit for webhooks', REPORTED, 9_000, ({ hooks }) => hooks?.states('https://here.example', signal)],
  ['reported limit for the write of a status', REPORTED, 9_000, ({ status }) => status?.write(...STATUS)],
  ['limit before any request was sent', limit(3_000), 0, ({ units }) => units(signal)],
  ['failure of another kind', DOWN, 0, ({ units }) => units(signal)],
])('records, after a %s, its pause', async (_name, error, expected, call) => {
  const { connection, left } = recorded(() => Promise.reject(error));
  await expect(call(connection)).rejects.toBe(error);
  expect(left()).toEqual([expected, expected]);
});

test('passes the answers of a wrapped connection through, and adds no operation', async () => {
  const { connection } = recorded(async () => 'the answer');
  expect(await connection.units(signal)).toBe('the answer');
  expect(connection.status?.right).toBe('to write');
  expect(connection.close).toBeUndefined();
});
