import { describe, expect, onTestFinished, test } from 'vitest';
import type { Redelivery } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import { createServer } from '../../../../src/platform/http/server.ts';
import { createWakeSignal } from '../../../../src/platform/lib/clock.ts';
import { sha256Of } from '../../../../src/platform/lib/digest.ts';
import { type LogFields, silentLogger, silentMeter } from '../../../../src/platform/lib/telemetry.ts';
import type { Appended, NewDelivery } from '../../../../src/store/deliveries/append-deliveries.ts';
import { createCollector, createGroupCommit } from '../../../../src/sync/intake/append.ts';
import { createHookWatch } from '../../../../src/sync/intake/hook-watch.ts';
import { type Receiver, webhookRoutes } from '../../../../src/sync/intake/webhook-routes.ts';
import { notesConnector, SECRET, signed } from '../../../support/fakes/notes.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';

const LARGEST = 100;
const BODY = '{"note":1}';

interface Parts {
  readonly connector?: Partial<Receiver['connector']>;
  readonly source?: Receiver['source'];
  readonly sharedKey?: Receiver['sharedKey'];
  readonly answerWithin?: number;
  /** Resolves when the delivery is to be stored. */
  readonly storing?: Promise<void>;
  /** The outcome of each append. */
  readonly appended?: Appended | SyncError;
  /** The number of look-ups after which the connection is removed. */
  readonly lookups?: number;
}

/** Starts a server with the webhooks of `main/notes`, and records its work. */
async function bench(parts: Parts = {}) {
  const { connector, source, sharedKey, answerWithin, appended = 'new' } = parts;
  const server = createServer();
  const clock = createTravellingClock();
  const stored: NewDelivery[] = [];
  const counted: string[] = [];
  const failures: string[] = [];
  const turns: [address: string, bytes: number][] = [];
  let turn: () => Promise<void> | undefined = () => undefined;
  const receiver: Receiver = {
    ...{ name: 'notes', secrets: [SECRET], connector: { ...notesConnector, largestDelivery: LARGEST, ...connector } },
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
  let { lookups = Number.POSITIVE_INFINITY } = parts;
  const find = (...names: readonly string[]) =>
    names.join('/') === 'main/notes' && lookups-- > 0 ? receiver : undefined;
  webhookRoutes(server, clock, find, () => false, LARGEST);
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const post = async (body = BODY, headers: Record<string, string> = signed(body)) => {
    const answer = await fetch(`${url}/webhooks/main/notes`, { method: 'POST', body, headers });
    const retryAfter = answer.headers.get('retry-after');
    return { status: answer.status, body: await answer.json(), ...(retryAfter && { retryAfter }) };
  };
  const waitFor = (turnToCome: () => Promise<void>) => void (turn = turnToCome);
  return { url, clock, post, stored, counted, failures, turns, waitFor };
}

test('answers 200 for a vendor that needs it, and uses the hash of the bytes if there is no delivery id', async () => {
  const { post, stored } = await bench({
    connector: { accepted: 200, verify: async () => ({ event: 'note' }) },
    source: 'workspace',
  });
  expect((await post()).status).toBe(200);
  expect(stored).toMatchObject([{ key: await sha256Of(Buffer.from(BODY)), source: 'workspace' }]);
});

test('answers 404 and stores nothing if the connection is removed while the body arrives', async () => {
  const { post, stored } = await bench({ lookups: 1 });
  expect([await post(), stored]).toEqual([{ status: 404, body: { error: 'not_found' } }, []]);
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
  const watch = createHookWatch(workspaceContext({ store, connections: [active], clock, logger }));
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

describe('the group commit of deliveries', () => {
  type StoreOptions = NonNullable<Parameters<typeof openTestStore>[0]>;

  interface Parts extends StoreOptions {
    readonly wakeSignal?: ReturnType<typeof createWakeSignal>;
    readonly mostPending?: number;
  }

  /** Opens a store and the collector of its inbox, and counts the statements that store deliveries. */
  async function bench({ onStatement, steps, wakeSignal = createWakeSignal(), mostPending }: Parts = {}) {
    let inserts = 0;
    const store = await openTestStore({
      ...(steps && { steps }),
      onStatement(statement, ...rest) {
        if (statement.startsWith('insert into "inbox"')) inserts++;
        onStatement?.(statement, ...rest);
      },
    });
    const clock = createTravellingClock();
    const { checkFileReplaced } = store;
    const groupCommit = createGroupCommit({ query: store.query.whole, checkFileReplaced }, clock);
    const collector = createCollector({ store, clock }, groupCommit, wakeSignal, mostPending);
    const append = async (key: string, body = Buffer.from('body')) => {
      const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body };
      return (await collector.append(delivery)).appended;
    };
    return { store, clock, append, isCrowded: collector.isCrowded, inserts: () => inserts };
  }

  const keys = (count: number) => Array.from({ length: count }, (_, index) => `key-${index}`);

  test('commits deliveries that arrive together in one commit, and acknowledges them only after it', async () => {
    const steps: string[] = [];
    const { store, append } = await bench({ steps: { reached: (kind, edge) => steps.push(`${kind} ${edge}`) } });
    steps.length = 0;
    await Promise.all(keys(20).map((key) => append(key).then(() => steps.push('acknowledged'))));
    expect(steps).toEqual(['commit before', 'commit after', ...keys(20).map(() => 'acknowledged')]);
    expect(await inboxOf(store)).toHaveLength(20);
  });

  const LIMIT = 4 * 1024 * 1024;

  test.each<[what: string, sizes: number[], commits: number]>([
    ['64 deliveries', Array(64).fill(1), 1],
    ['130 deliveries', Array(130).fill(1), 3],
    ['two that fill the limit in bytes', [LIMIT / 2, LIMIT / 2], 1],
    ['two that exceed it by a byte', [LIMIT / 2, LIMIT / 2 + 1], 2],
    ['two that are each larger', [LIMIT + 1, LIMIT + 1], 2],
  ])('commits %s together, as far as the limits allow', async (_what, sizes, commits) => {
    const { append, inserts } = await bench();
    const outcomes = await Promise.all(sizes.map((bytes, index) => append(`${index}`, Buffer.alloc(bytes))));
    expect([new Set(outcomes), inserts()]).toEqual([new Set(['new']), commits]);
  });

  test('rejects all appends of a failed commit, and continues with the next', async () => {
    let fails = true;
    const { store, append } = await bench({
      onStatement(statement) {
        if (fails && statement.startsWith('insert into "inbox"')) throw new Error('the disk is full');
      },
    });
    const failed = { status: 'rejected', reason: { name: 'SyncError' } };
    expect(await Promise.allSettled([append('a'), append('b')])).toMatchObject([failed, failed]);
    fails = false;
    expect(await append('a')).toBe('new');
    expect(await inboxOf(store)).toHaveLength(1);
  });

  test('notifies after new and revived deliveries, and not after repeats', async () => {
    let notified = 0;
    const wakeSignal = { notify: () => void notified++, wait: async () => undefined };
    const { store, append } = await bench({ wakeSignal });
    expect([await append('a'), await append('a'), notified]).toEqual(['new', 'repeated', 1]);
    const quarantined = { state: 'quarantined', reason: 'unreadable', attempts: 5, settled_at: 7 } as const;
    await store.query.updateTable('inbox').set(quarantined).where('delivery_key', '=', 'a').execute();
    expect([await append('a'), notified]).toEqual(['revived', 2]);
  });

  test('rejects deliveries while the inbox is full, and accepts them again after rows were settled', async () => {
    const { store, clock, append } = await bench({ mostPending: 3 });
    for (const key of ['a', 'b', 'c']) await append(key);
    await clock.advance(1_000);
    const full = { code: 'inbox_full', retryAfter: 30_000 };
    await expect(append('d')).rejects.toMatchObject(full);
    await store.query.updateTable('inbox').set({ state: 'applied' }).where('id', '<', 3).execute();
    // The rows are counted at most once a second.
    await clock.advance(999);
    await expect(append('d')).rejects.toMatchObject(full);
    await clock.advance(1);
    expect(await append('d')).toBe('new');
  });
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
