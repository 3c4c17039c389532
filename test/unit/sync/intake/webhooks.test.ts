import { expect, onTestFinished, test } from 'vitest';
import type { Redelivery } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { createServer } from '../../../../src/platform/http/server.ts';
import { sha256Of } from '../../../../src/platform/lib/digest.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Appended, NewDelivery } from '../../../../src/store/append-deliveries.ts';
import { forgetOtherRedeliveryCursors, redeliveryCursor } from '../../../../src/store/redeliveries.ts';
import { createHookWatch } from '../../../../src/sync/intake/hook-watch.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import {
  type Receiver,
  webhookPathOf,
  webhookRoutes,
  webhookUrlOf,
} from '../../../../src/sync/intake/webhook-routes.ts';
import { notesConnector, SECRET, signed } from '../../../support/fakes/notes.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { activeWith, openTestStore } from '../../../support/harness/intake.ts';

const LARGEST = 100;
const BODY = '{"note":1}';

interface Parts {
  readonly secrets?: readonly string[];
  readonly connector?: Partial<Receiver['active']['connector']>;
  readonly source?: Receiver['source'];
  readonly sharedKey?: Receiver['sharedKey'];
  readonly answerWithin?: number;
  /** Resolves when the delivery is to be stored. */
  readonly storing?: Promise<void>;
  /** The outcome of each append. */
  readonly appended?: Appended | SyncError;
  readonly isBroken?: boolean;
}

/** Starts a server with the webhooks of `main/notes`, and records its work. */
async function bench(parts: Parts = {}) {
  const { secrets = [SECRET], connector, source, sharedKey, answerWithin, appended = 'new', isBroken = false } = parts;
  const server = createServer();
  const clock = createTravellingClock();
  const stored: NewDelivery[] = [];
  const counted: string[] = [];
  const failures: string[] = [];
  const turns: [address: string, bytes: number][] = [];
  let turn: () => Promise<void> | undefined = () => undefined;
  const receiver: Receiver = {
    active: { name: 'notes', secrets, connector: { ...notesConnector, largestDelivery: LARGEST, ...connector } },
    ...(source && { source }),
    ...(sharedKey && { sharedKey }),
    ...(answerWithin !== undefined && { answerWithin }),
    collector: {
      async append(delivery) {
        await parts.storing;
        if (appended instanceof SyncError) throw appended;
        stored.push(delivery);
        return { appended, id: 1 } as Awaited<ReturnType<Receiver['collector']['append']>>;
      },
      isCrowded: () => false,
    },
    logger: silentLogger,
    meter: { ...silentMeter, count: (_name, labels) => void counted.push(String(labels?.['outcome'])) },
  };
  Object.assign(server.traffic, {
    failed: (address: string) => void failures.push(address),
    turn(address: string, bytes: number) {
      turns.push([address, bytes]);
      return turn();
    },
  });
  webhookRoutes(server, {
    find: (workspace, connection) => (`${workspace}/${connection}` === 'main/notes' ? receiver : undefined),
    isBroken: () => isBroken,
    clock,
    largestDelivery: LARGEST,
  });
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const post = async (body = BODY, headers: Record<string, string> = signed(body), path = '/webhooks/main/notes') => {
    const answer = await fetch(url + path, { method: 'POST', body, headers });
    const retryAfter = answer.headers.get('retry-after');
    return { status: answer.status, body: await answer.json(), ...(retryAfter && { retryAfter }) };
  };
  const waitFor = (turnToCome: () => Promise<void>) => void (turn = turnToCome);
  return { url, clock, post, stored, counted, failures, turns, waitFor };
}

test.each<Appended>(['new', 'repeated', 'revived'])(
  'accepts a delivery that is %s, and stores its bytes',
  async (appended) => {
    const { post, stored, counted, failures } = await bench({ appended });
    expect(await post()).toEqual({ status: 202, body: { delivery: appended } });
    expect(stored).toMatchObject([{ connection: 'notes', key: 'delivery-1', source: 'webhook', event: 'note' }]);
    expect(stored.map(({ body }) => Buffer.from(body).toString())).toEqual([BODY]);
    expect([counted, failures]).toEqual([[appended], []]);
  },
);

test('answers 200 for a vendor that needs it, and uses the hash of the bytes if there is no delivery id', async () => {
  const { post, stored } = await bench({
    connector: { accepted: 200, verify: async () => ({ event: 'note' }) },
    source: 'workspace',
  });
  expect((await post()).status).toBe(200);
  expect(stored).toMatchObject([{ key: await sha256Of(Buffer.from(BODY)), source: 'workspace' }]);
});

test('verifies and stores nothing before the turn of a sender, and rejects it if no turn comes', async () => {
  let verified = 0;
  const verify: typeof notesConnector.verify = async (...given) => {
    verified++;
    return notesConnector.verify(...given);
  };
  const { post, stored, turns, waitFor } = await bench({ connector: { verify } });
  const turn = Promise.withResolvers<void>();
  waitFor(() => turn.promise);
  const answer = post();
  await expect.poll(() => turns).toEqual([['127.0.0.1', BODY.length]]);
  // Longer than a delivery takes that does not wait.
  await bench().then((other) => other.post());
  expect([verified, stored]).toEqual([0, []]);
  turn.resolve();
  expect((await answer).status).toBe(202);
  expect([verified, stored.length]).toEqual([1, 1]);
  waitFor(() => Promise.reject(Object.assign(new Error('too many'), { statusCode: 429 })));
  expect(await post()).toMatchObject({ status: 429, retryAfter: '30' });
  expect(verified).toBe(1);
});

const refusing = (code: 'refused' | 'internal' | 'signature_mismatch') => ({
  connector: { verify: () => Promise.reject(new SyncError(code, 'no')) },
});

test.each<[what: string, parts: Parts, headers: Record<string, string>, status: number, error: string]>([
  ['without a signature', {}, {}, 401, 'signature_missing'],
  ['with another signature', {}, signed('other'), 401, 'signature_mismatch'],
  ['that names no event', refusing('refused'), {}, 400, 'refused'],
  ['whose verification failed', refusing('internal'), {}, 500, 'internal'],
])('rejects a delivery %s, and counts it against its address', async (_what, parts, headers, status, error) => {
  const { post, stored, counted, failures } = await bench(parts);
  expect(await post(BODY, headers)).toEqual({ status, body: { error } });
  expect([stored, counted, failures]).toEqual([[], ['refused'], ['127.0.0.1']]);
});

test.each<[what: string, parts: Parts, path: string, headers: object, status: number, error: string, retry?: string]>([
  ['an unknown workspace', {}, 'other/notes', {}, 404, 'not_found'],
  ['an unknown connection', {}, 'main/other', {}, 404, 'not_found'],
  ['a workspace that did not start', { isBroken: true }, 'other/notes', {}, 503, 'workspace_unavailable', '30'],
  ['a connection without a secret', { secrets: [] }, 'main/notes', {}, 401, 'signature_missing'],
  ['a compressed body', {}, 'main/notes', { 'content-encoding': 'gzip' }, 415, 'refused'],
])('rejects %s before the body is read', async (_what, parts, path, headers, status, error, retryAfter) => {
  const { post, turns } = await bench(parts);
  const answer = await post(BODY, { ...signed(BODY), ...headers }, `/webhooks/${path}`);
  expect(answer).toEqual({ status, body: { error }, ...(retryAfter && { retryAfter }) });
  expect(turns).toEqual([]);
});

test.each<[bytes: number, isNamed: boolean, status: number]>([
  [LARGEST, true, 202],
  [LARGEST + 1, true, 413],
  [LARGEST, false, 202],
  [LARGEST + 1, false, 413],
])('answers %d bytes with content-length %s with %d', async (bytes, isNamed, status) => {
  const { url, turns } = await bench();
  const body = Buffer.alloc(bytes, 'x');
  // Chunked if no length is named.
  const sent = isNamed ? body : new Blob([body]).stream();
  const init = { method: 'POST', body: sent, headers: signed(body), duplex: 'half' } as RequestInit;
  const answer = await fetch(`${url}/webhooks/main/notes`, init);
  expect([answer.status, turns.length]).toEqual([status, status === 202 ? 1 : 0]);
  if (status === 413) expect(await answer.json()).toEqual({ error: 'payload_too_large' });
});

test.each<[error: SyncError, retryAfter: string]>([
  [new SyncError('disk_full', 'full'), '30'],
  [new SyncError('inbox_full', 'full', { retryAfter: 1_001 }), '2'],
  [new SyncError('inbox_full', 'full', { retryAfter: 1 }), '1'],
  [new SyncError('inbox_full', 'full', { retryAfter: 0 }), '1'],
])('answers 503 with a delay if a delivery cannot be stored: $code', async (error, retryAfter) => {
  const { post, counted, failures } = await bench({ appended: error });
  expect(await post()).toEqual({ status: 503, body: { error: error.code }, retryAfter });
  expect([counted, failures]).toEqual([['failed'], []]);
});

test('answers 503 if a delivery is not stored in time, and still stores it', async () => {
  const storing = Promise.withResolvers<void>();
  const { post, stored } = await bench({ answerWithin: 20, storing: storing.promise });
  expect(await post()).toMatchObject({ status: 503, body: { error: 'database_failed' } });
  storing.resolve();
  await expect.poll(() => stored.length).toBe(1);
});

const keyed = (isOnlyProof: boolean): Parts => ({
  sharedKey: { matches: (headers) => headers['x-key'] === 'right', isOnlyProof },
  connector: {
    async verify({ headers }) {
      if (headers['x-key'] !== 'right') throw new SyncError('signature_mismatch', 'wrong');
      return { event: 'note', deliveryId: 'delivery-1' };
    },
  },
});

test.each<[method: string, key: string, path: string, status: number, headers?: Readonly<Record<string, string>>]>(
  ['GET', 'HEAD'].flatMap((method) => [
    [method, 'right', 'main/notes', 204],
    [method, 'wrong', 'main/notes', 401],
    [method, '', 'main/notes?x-key=right', 401],
    [method, 'right', 'broken/notes', 503, { 'retry-after': '30' }],
  ]),
)(
  '%s with the key "%s" at %s verifies the shared key: %i without a body',
  async (method, key, path, status, headers) => {
    const { url, stored } = await bench({ ...keyed(true), isBroken: true });
    const answer = await fetch(`${url}/webhooks/${path}`, { method, headers: { 'x-key': key } });
    expect([answer.status, await answer.text(), stored]).toEqual([status, '', []]);
    for (const [name, value] of Object.entries(headers ?? {})) expect(answer.headers.get(name)).toBe(value);
  },
);

test.each([
  ['a connection with a shared key', keyed(true), 'GET, HEAD, POST'],
  ['another one', {}, 'POST'],
])('allows other methods for %s', async (_what, parts, allowed) => {
  const { url } = await bench(parts);
  const answer = await fetch(`${url}/webhooks/main/notes`, { method: 'PUT', body: BODY });
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, allowed]);
});

test.each<[isOnlyProof: boolean, post: number]>([
  [true, 429],
  [false, 202],
])(
  'limits wrong keys over GET and HEAD, and over POST if the key is the only proof: %s',
  async (isOnlyProof, status) => {
    const { url, clock } = await bench(keyed(isOnlyProof));
    const send = async (method: string, key: string) => {
      const body = method === 'POST' ? { body: BODY } : {};
      return (await fetch(`${url}/webhooks/main/notes`, { method, ...body, headers: { 'x-key': key } })).status;
    };
    for (const method of ['GET', 'HEAD', 'POST'].flatMap((each) => Array<string>(20).fill(each)))
      expect(await send(method, 'wrong')).toBe(401);
    const right = [await send('GET', 'right'), await send('HEAD', 'right'), await send('POST', 'right')];
    expect(right).toEqual([429, 429, status]);
    await clock.advance(1_000);
    expect(await send('GET', 'right')).toBe(204);
  },
);

test('returns path and address of the webhooks of a connection', () => {
  expect(webhookPathOf('main', 'notes')).toBe('/webhooks/main/notes');
  expect(webhookUrlOf('https://sync.example/base', 'main', 'notes')).toBe(
    'https://sync.example/base/webhooks/main/notes',
  );
});

async function watching(answers: readonly Redelivery[]) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const cursors: (string | undefined)[] = [];
  const warnings: LogFields[] = [];
  const rest = [...answers];
  const active = activeWith({
    webhookUrl: 'https://sync.example/webhooks/main/notes',
    connection: {
      redeliver: async (_url, cursor) => {
        cursors.push(cursor);
        return rest.shift() as Redelivery;
      },
    },
  });
  const logger = { ...silentLogger, warn: (fields: LogFields) => void warnings.push(fields) };
  const pauses = createPauses(clock);
  const watch = createHookWatch({ store, connections: [active], pauses, clock, logger, meter: silentMeter });
  const round = async () =>
    watch.jobs.find(({ name }) => name === 'redeliver.notes')?.run(new AbortController().signal);
  return { store, clock, cursors, warnings, round, report: () => watch.report('notes') };
}

test('continues each round where the last one ended, even after a failure', async () => {
  const failure = new SyncError('server_failed', 'HTTP 502');
  const all = await watching([
    { requested: 1, cursor: 'one' },
    { requested: 1, cursor: 'two', failure },
    { requested: 0, cursor: 'two' },
  ]);
  await all.round();
  await all.round();
  expect(all.report()).toMatchObject({ redeliveryFailure: 'server_failed: HTTP 502' });
  await all.round();
  expect(all.cursors).toEqual([undefined, 'one', 'two']);
  expect(all.report()).toMatchObject({ redeliveryFailure: null });
});

test('requests no redelivery while the vendor limits the connection', async () => {
  const failure = new SyncError('rate_limited', 'HTTP 429', { retryAfter: 60_000 });
  const answer = { requested: 0, cursor: 'one', failure };
  const { round, cursors, clock } = await watching([answer, answer]);
  await round();
  await round();
  expect(cursors).toHaveLength(1);
  await clock.advance(60_000);
  await round();
  expect(cursors).toHaveLength(2);
});

test('logs once why redelivery is not requested for every delivery', async () => {
  const cut = 'this server does not filter';
  const answers = [cut, cut, undefined, cut].map((each) => ({ requested: 0, cursor: '', cut: each }));
  const all = await watching(answers);
  for (const _ of answers) await all.round();
  expect(all.warnings.map(({ reason }) => reason)).toEqual([cut, cut]);
});

test('forgets the cursor of a connection that is no longer configured', async () => {
  const all = await watching([{ requested: 0, cursor: 'one' }]);
  await all.round();
  await forgetOtherRedeliveryCursors(all.store.query, ['notes']);
  expect(await redeliveryCursor(all.store.query, 'notes')).toBe('one');
  await forgetOtherRedeliveryCursors(all.store.query, []);
  expect(await redeliveryCursor(all.store.query, 'notes')).toBeUndefined();
});
