import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference } from '../../../../src/store/outbox-rows.ts';
import { type RequestRow, requestsOfItems } from '../../../../src/store/requests.ts';
import { configureLinks } from '../../../../src/store/server-capabilities.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { openTestStore } from '../../../support/intake.ts';

const ITEM = 'jira:cloud:issue:1';
const LINK = `link:${ITEM}>t1`;
const CONTEXT = { now: 500, random: systemRandom(), usedShare: 0 };
const FAILING = { ...CONTEXT, outage: false, atFault: false };

/** A link that is to be added, as it is about to be sent. */
async function prepared() {
  const store = await openTestStore();
  const { query } = store;
  await configureLinks(query, true);
  const desired = JSON.stringify({ url: 'https://tracker.example/1' });
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: ITEM, task_id: 't1', desired }));
  const waiting = [7, 8].map((id) => ({ id, at: 100 }));
  await addDifference(query, { entity: LINK, kind: 'link', lane: 'link', since: 100, due: 200, weight: 1, waiting });
  const request = await prepareNext(query, { now: 400, onlyReads: false }, undefined, { askedAt: 300, slotAt: 399 });
  if (!request) throw new Error('nothing is to be sent');
  const history = async (): Promise<readonly Partial<RequestRow>[]> => requestsOfItems(query, [ITEM], 9);
  return { query, request, history };
}

test('an answered request leaves its row, with the deliveries that waited and the time of each step', async () => {
  const { query, request, history } = await prepared();
  const answer = { workItemId: 'w', url: 'https://tracker.example/1' };
  await settle(query, request, answer, { ...CONTEXT, status: 201 });
  expect(await history()).toMatchObject([
    {
      ...{ entity: LINK, item_key: ITEM, task_id: 't1', action: 'add-link', lane: 'link', deliveries: '[7,8]' },
      ...{ since: 100, due: 200, asked_at: 300, slot_at: 399, sent_at: 400, completed_at: 500 },
      ...{ status: 201, outcome: 'answered', error: null, attempt: 1 },
    },
  ]);
  const [row] = await history();
  const stored = await query.selectFrom('inbox').select('delivery_key').executeTakeFirstOrThrow();
  expect(stored.delivery_key).toBe(`answer:${row?.answer}`);
});

test.each([
  ['refused', 400, 'invalid_request', 'held'],
  ['outcome_unknown', undefined, undefined, 'again'],
] as const)('a request that failed with %s leaves one too', async (code, status, errorCode, outcome) => {
  const { query, request, history } = await prepared();
  const error = new SyncError(code, 'why it failed', { status, errorCode, own: errorCode !== undefined });
  expect(await settleFailure(query, request, error, FAILING)).toBe(outcome);
  expect(await history()).toMatchObject([{ outcome, status: status ?? null, error: `${code}: why it failed` }]);
});

test('a request in flight at the death of the process is recorded with an unknown outcome', async () => {
  const { query, history } = await prepared();
  await recover(query, CONTEXT);
  expect(await history()).toMatchObject([{ outcome: 'unknown', status: null, deliveries: '[7,8]' }]);
});
