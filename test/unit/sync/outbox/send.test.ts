import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { readLedger } from '../../../../src/store/ledger.ts';
import { PULL_REQUESTS_READ, TASKS_READ } from '../../../../src/store/meta.ts';
import { updateChange } from '../../../../src/store/outbox-rows.ts';
import { enqueueInitialReads } from '../../../../src/store/workspace-reads.ts';
import type { SendContext, Slot } from '../../../../src/sync/outbox/outbox-context.ts';
import type { PreparedRequest } from '../../../../src/sync/outbox/request.ts';
import { sendRequest } from '../../../../src/sync/outbox/send.ts';
import { createWorkspaceClient } from '../../../../src/workspace-api/typed-client.ts';
import { type Answer, added, linkOf, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const refusal = (status: number, errorCode: string): Answer => ({
  status,
  json: { code: status, message: 'not this way', errorCode },
});
const REFUSED_KEY = refusal(401, 'unauthorized');
const REFUSED = refusal(422, 'validation_failed');
const LIMITED = refusal(429, 'rate_limited');
/** An answer of a proxy in front of the workspace. */
const FAILED: Answer = { status: 500 };

test.each<[what: string, answer: Answer | undefined]>([
  ['answered', added(1)],
  ['refused', REFUSED],
  ['limited', LIMITED],
  ['refused for its key', REFUSED_KEY],
  ['failed', FAILED],
  ['not answered', undefined],
])(
  'stores the end of a request that was %s in the ledger together with the outcome of its change',
  async (_what, answer) => {
    expect(
      await remainsOf(async (store) => {
        const { slot, take, attempt } = await outboxBench(store, 1, () => answer);
        const own = await slot();
        const prepared = await take(own, linkOf(1));
        if (!prepared) throw new Error('nothing is to be sent');
        return () => attempt(prepared, own);
      }),
    ).toEqual([]);
  },
);

test.each<[what: string, answer: Answer | undefined]>([
  ['answered', added(1)],
  ['refused', REFUSED],
  ['limited', LIMITED],
  ['not answered', undefined],
])('stores nothing about a request that was %s when any statement of its end fails', async (_what, answer) => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => {
      const { slot, take, attempt } = await outboxBench(store, 1, () => answer);
      const own = await slot();
      const prepared = await take(own, linkOf(1));
      if (!prepared) throw new Error('nothing is to be sent');
      return () => attempt(prepared, own);
    },
    { isQuiet: true },
  );
  expect(wrong).toEqual([]);
});

test('completes the request in the ledger before it resolves', async () => {
  const store = await openTestStore();
  const { send } = await outboxBench(store, 2, (taskId) => (taskId === 't1' ? added(1) : FAILED));
  await send(linkOf(1));
  await send(linkOf(2));
  const rows = await readLedger(store.query);
  expect(rows.map(({ completed, status }) => [completed !== null, status])).toEqual([
    [true, 201],
    [true, 500],
  ]);
});

test('opens the breaker and reports trouble when three requests fail', async () => {
  const { send, breaker, told } = await outboxBench(await openTestStore(), 3, () => FAILED);
  await send(linkOf(1));
  await send(linkOf(2));
  expect([breaker.open, told]).toEqual([false, []]);
  await send(linkOf(3));
  expect([breaker.open, told]).toEqual([true, ['server_failed']]);
});

test('reports a refused key at once, and leaves the breaker closed', async () => {
  const { send, breaker, told, clock, throttle } = await outboxBench(await openTestStore(), 4, () => REFUSED_KEY);
  for (const number of [1, 2, 3, 4]) {
    const sent = send(linkOf(number));
    await clock.until(() => told.length === number);
    await sent;
  }
  expect(told).toEqual(Array.from({ length: 4 }, () => 'unauthorized'));
  expect([breaker.open, breaker.failing]).toEqual([false, false]);
  // The reason repeats neither code nor remedy, because they are shown beside it.
  expect(throttle.snapshot().halt).toEqual({ code: 'unauthorized', reason: 'the workspace refused the key' });
});

test('reports a refused first read of the tasks until the tasks were read', async () => {
  const store = await openTestStore();
  const answers: Answer[] = [
    refusal(404, 'not_found'),
    refusal(404, 'not_found'),
    { status: 200, json: { tasks: [], nextCursor: null } },
  ];
  const { send, told, clock } = await outboxBench(store, 0, () => answers.shift());
  await store.database.deleteFrom('meta').where('name', 'in', [TASKS_READ, PULL_REQUESTS_READ]).execute();
  await store.commit((query) => enqueueInitialReads(query, clock.now(), true));
  await send(entity.readTasks);
  await send(entity.readPullRequests);
  expect(told).toEqual(['not_found']);
  await store.commit((query) => updateChange(query, entity.readTasks, { not_before: 0 }));
  await send(entity.readTasks);
  expect(told).toEqual(['not_found', undefined]);
});

test.each<[what: string, answer: Answer]>([
  ['success', added(3)],
  ['refusal', REFUSED],
  ['rate limit', LIMITED],
])('a %s of the workspace itself ends the trouble', async (what, answer) => {
  const { send, breaker, told } = await outboxBench(await openTestStore(), 3, (taskId) =>
    taskId === 't3' ? answer : FAILED,
  );
  await send(linkOf(1));
  await send(linkOf(2));
  await send(linkOf(3));
  expect([breaker.open, told]).toEqual([false, [undefined]]);
  // Only a write that was carried out shows that a change which still fails is at fault.
  expect(breaker.sinceFailure(linkOf(1))).toMatchObject({ othersAnswered: true, othersWritten: what === 'success' });
});

test.each([
  ['answered', added(1)],
  ['not answered', undefined],
])(
  'does not delay the stop of the throttle by a request that was %s if its end cannot be stored',
  async (_what, answer) => {
    const store = await openTestStore();
    const { send, throttle } = await outboxBench(store, 1, () => answer);
    await withoutTable(store.database, 'requests', () => send(linkOf(1)));
    await throttle.stop();
    expect(await store.query.selectFrom('outbox').select('state').execute()).toEqual([{ state: 'sending' }]);
  },
);

const SLOT = {} as Slot;

/** Returns the HTTP requests that the client sends. */
async function sentBy(action: PreparedRequest['action'], parts: Partial<PreparedRequest>) {
  const requests: object[] = [];
  const client = createWorkspaceClient<SendContext>({
    workspaceId: 'current',
    async send({ method, path, query, body }, { slot, traceparent }) {
      expect([slot, traceparent]).toEqual([SLOT, 'trace']);
      requests.push({ method, path: query ? `${path}?${query}` : path, ...(body !== undefined && { body }) });
      return { status: 200, headers: {}, body: Buffer.from('null') };
    },
  });
  const prepared = { action, body: {}, taskId: null, ...parts } as Parameters<typeof sendRequest>[1];
  // The answer does not match the contract. Only the request matters here.
  await sendRequest(client, prepared, { slot: SLOT, traceparent: 'trace' }).catch(() => undefined);
  return requests;
}

test.each<
  [action: PreparedRequest['action'], parts: Partial<PreparedRequest>, method: string, path: RegExp, body?: object]
>([
  ['read-tasks', {}, 'GET', /\/tasks\?.*all=true/],
  ['read-tasks', { body: { cursor: 'c', began: 1, seen: [] } }, 'GET', /\/tasks\?all=true&cursor=c$/],
  ['read-tasks', { body: { limit: 5_000, first: 50 } }, 'GET', /\/tasks\?all=true&limit=5000$/],
  ['read-task', { taskId: 't1' }, 'GET', /\/tasks\/t1$/],
  ['read-pull-requests', {}, 'GET', /\/pull-request-records\?limit=100$/],
  ['read-pull-requests', { body: { cursor: 'c' } }, 'GET', /\/pull-request-records\?limit=100&cursor=c$/],
  ['read-pull-requests', { body: { limit: 5_000 } }, 'GET', /\/pull-request-records\?limit=5000$/],
  ['read-records', { body: { headBranch: 'b' } }, 'GET', /\/pull-request-records\?limit=100&headBranch=b$/],
  ['read-links', { taskId: 't1' }, 'GET', /\/tasks\/t1\/work-items$/],
  ['read-document', { body: { documentId: 'd1' } }, 'GET', /\/documents\/d1$/],
  ['attach-document', { taskId: 't1', body: { documentId: 'd1' } }, 'POST', /t1/, { documentId: 'd1' }],
  ['record-pull-request', { body: { title: 'a' } }, 'POST', /\/pull-request-records$/, { title: 'a' }],
  ['add-link', { taskId: 't1', body: { url: 'u' } }, 'POST', /\/tasks\/t1\/work-items$/, { url: 'u' }],
  ['remove-link', { taskId: 't1', body: { workItemId: 'w1' } }, 'DELETE', /\/tasks\/t1\/work-items\/w1$/],
  ['create-task', { body: { kind: 'idea', title: 'a' } }, 'POST', /\/ideas$/, { title: 'a' }],
  ['create-task', { body: { kind: 'bug', title: 'a' } }, 'POST', /\/bugs$/, { title: 'a' }],
  ['create-task', { body: { title: 'a' } }, 'POST', /\/bugs$/, { title: 'a' }],
])('sends %s of %j to its route', async (action, parts, method, path, body) => {
  const [request, ...others] = await sentBy(action, parts);
  expect(others).toEqual([]);
  expect(request).toEqual({ method, path: expect.stringMatching(path), ...(body && { body }) });
});
