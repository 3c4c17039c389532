import { describe, expect, it } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { asSyncError, SyncError } from '../../../src/model/errors.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { LARGE } from '../../../src/platform/lib/concurrency.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { blankEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { createWakeSignals } from '../../../src/store/store-context.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import {
  type Asked,
  createResponseCapture,
  createRouteOf,
  type ResponseCapture,
} from '../../../src/workspace-api/capture-responses.ts';
import { readLargeAnswer } from '../../../src/workspace-api/typed-client.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../support/faults/each-statement-fails.ts';
import { inboxOf, openTestStore } from '../../support/harness/intake.ts';

const PUT: Asked = { method: 'PUT', path: '/workspaces/ws_1/tasks/t1', query: '' };
const GET: Asked = { ...PUT, method: 'GET' };
const OTHER: Asked = { ...PUT, path: '/other/t1' };
const attaching = (body: unknown): Asked => ({ method: 'POST', path: '/tasks/t1/documents', query: '', body });
const DOCUMENT = { documentId: 'd1' };

type Call = (capture: ResponseCapture) => Promise<void>;
const answered =
  (asked: Asked, status: number, body: Buffer | object = {}): Call =>
  (capture) => {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    return capture.answered(asked, { status, body: bytes, sentAt: 1, asOf: 0 });
  };
const unproved =
  (asked: Asked, status: number): Call =>
  (capture) =>
    capture.unproved(asked, status);
const failed =
  (asked: Asked, code: 'outcome_unknown' | 'unreachable' | 'aborted'): Call =>
  (capture) =>
    capture.failed(asked, new SyncError(code, 'no'));

/** Captures over a store in which the document `d1` was attached. */
async function captureOver(store: Store) {
  await saveEntity(store.query, blankEntity(entity.document('d1'), 'document'));
  const [errors, copied]: [string[], Buffer[]] = [[], []];
  const logger = {
    ...silentLogger,
    error: ({ error }: { readonly error?: unknown }) => void errors.push(asSyncError(error).code),
  };
  const signals = createWakeSignals();
  const notified: string[] = [];
  for (const name of ['inbox', 'outbox'] as const) void signals[name].wait().then(() => notified.push(name));
  const parts = { store, logger, meter: silentMeter, clock: createTravellingClock(), random: systemRandom() };
  const capture = createResponseCapture({ ...parts, ...signals }, createRouteOf(), async (route, bytes) => {
    const content = readLargeAnswer(route, bytes);
    // A worker takes the memory.
    copied.push(bytes.fill(0));
    return content;
  });
  return { capture, errors, copied, notified };
}

describe('the capture of a response', () => {
  it.each<[isRead: boolean, what: string, call: Call]>([
    [false, 'a refused write', answered(PUT, 422)],
    [true, 'a write that the server failed', answered(PUT, 500)],
    [false, 'a read that the server failed', answered(GET, 500)],
    [true, 'an unproved success', unproved(PUT, 200)],
    [true, 'an unproved failure of the server', unproved(PUT, 500)],
    [false, 'an unproved refusal', unproved(PUT, 404)],
    [true, 'a write without an answer', failed(PUT, 'outcome_unknown')],
    [false, 'a write that was not sent', failed(PUT, 'unreachable')],
    [true, 'an attachment', answered(attaching(DOCUMENT), 500)],
    [false, 'an attachment of a document that is not followed', answered(attaching({ documentId: 'd2' }), 500)],
    [false, 'an attachment that is no JSON', answered(attaching(Buffer.from('{')), 500)],
  ])('requests a read: %j, after %s', async (isRead, _what, call) => {
    const store = await openTestStore();
    const { capture, errors, notified } = await captureOver(store);
    await call(capture);
    const reads = await store.query.selectFrom('outbox').select('entity').execute();
    expect([reads.length, notified]).toEqual(isRead ? [1, ['outbox']] : [0, []]);
    expect([await inboxOf(store), errors]).toEqual([[], []]);
  });

  const TASK = { taskId: 't1', key: 'BUG-1', title: 'T', status: 'open' };
  const LIST: Asked = { method: 'GET', path: '/tasks/t1/documents', query: '' };

  it.each<[what: string, call: Call, expected: object | undefined]>([
    ['a task', answered(GET, 200, TASK), TASK],
    ['a large task', answered(GET, 200, { ...TASK, extra: 'x'.repeat(LARGE) }), TASK],
    ['an empty answer', answered(PUT, 204, Buffer.alloc(0)), undefined],
    ['an answer of an unknown route', answered(OTHER, 200, TASK), undefined],
    [
      'the documents that are followed',
      answered(LIST, 200, {
        documents: [
          { ...DOCUMENT, title: '' },
          { documentId: 'd2', title: '' },
        ],
      }),
      { documents: [expect.objectContaining(DOCUMENT)] },
    ],
  ])('appends to the inbox %s', async (_what, call, expected) => {
    const store = await openTestStore();
    const { capture, errors, notified } = await captureOver(store);
    await call(capture);
    const bodies = (await inboxOf(store)).map(({ body }) => (JSON.parse(body ?? '') as { body: unknown }).body);
    expect(bodies).toEqual(expected ? [expect.objectContaining(expected)] : []);
    expect([notified, errors]).toEqual([expected ? ['inbox'] : [], []]);
  });

  it.each([
    [LARGE, 0],
    [LARGE + 1, 1],
  ])('leaves a body of %i bytes to the caller, with %i copies for the worker', async (size, copies) => {
    const { capture, errors, copied } = await captureOver(await openTestStore());
    const body = Buffer.from(JSON.stringify(TASK).padEnd(size));
    await answered(GET, 200, body)(capture);
    expect([copied.length, errors]).toEqual([copies, []]);
    expect(JSON.parse(body.toString())).toEqual(TASK);
  });

  it.each<[what: string, call: Call]>([
    ['an answer', answered(GET, 200, TASK)],
    ['a failure of the server', answered(PUT, 500)],
    ['an unknown outcome', failed(PUT, 'outcome_unknown')],
  ])('rejects for no failing statement: %s', async (_what, call) => {
    const wrong = await wrongWhereStatementsFail(
      async (store) => {
        const { capture } = await captureOver(store);
        return () => call(capture);
      },
      { isQuiet: true },
    );
    expect(wrong).toEqual([]);
  });

  it.each<[what: string, call: Call]>([
    ['a failure of the server', answered(PUT, 500)],
    ['an unknown outcome', failed(PUT, 'outcome_unknown')],
  ])('requests reads for the owner of the workspace alone: %s', async (_what, call) => {
    const getReady = async (store: Store) => {
      const { capture } = await captureOver(store);
      return () => call(capture);
    };
    expect(await remainsOf(getReady)).toEqual([]);
  });
});
