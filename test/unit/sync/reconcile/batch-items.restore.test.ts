import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { DeliverySource } from '../../../../src/model/delivery.ts';
import type { PullRequest } from '../../../../src/model/item.ts';
import { isUnverified } from '../../../../src/store/items.ts';
import { writeMeta } from '../../../../src/store/meta.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import type { Translated } from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull } from '../../../support/items.ts';

const OPEN = pull();
const RECORD = entity.pullRequest('github', '5001', '1');

function came(
  item: PullRequest,
  { id, source = 'webhook' }: { readonly id: number; readonly source?: DeliverySource },
) {
  const said = saidOf(item, source);
  return { ...said, delivery: { ...said.delivery, id } } satisfies Translated;
}

/** An open pull request, stored before a restore whose last delivery had the number 5. */
async function restored() {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [came(OPEN, { id: 3 })], 1));
  await store.query.updateTable('items').set({ unverified: 1 }).execute();
  await store.query.deleteFrom('outbox').execute();
  await writeMeta(store.query, 'restored_after', '5');
  const state = async (query: Scope = store.query) => ({
    isUnverified: await isUnverified(query, OPEN.key),
    isWritten: (await findChange(query, RECORD)) !== undefined,
  });
  return { ...store, state };
}

const CONFIRMED = { isUnverified: false, isWritten: true };
const NOT_CONFIRMED = { isUnverified: true, isWritten: false };

test.each<[what: string, expected: object, item: PullRequest, how: { id: number; source?: DeliverySource }]>([
  ['a fetch of the same state', CONFIRMED, OPEN, { id: 6, source: 'fetch' }],
  ['a fetch of an older state', CONFIRMED, { ...OPEN, updatedAt: 500 }, { id: 6, source: 'fetch' }],
  ['a poll of the same state', CONFIRMED, OPEN, { id: 6, source: 'poll' }],
  ['a webhook of the same state', CONFIRMED, OPEN, { id: 6 }],
  ['a webhook of a newer state', CONFIRMED, { ...OPEN, updatedAt: 2_000, state: 'merged' }, { id: 6 }],
  ['a late webhook of an older state', NOT_CONFIRMED, { ...OPEN, updatedAt: 500 }, { id: 6 }],
  ['a webhook that contradicts it', NOT_CONFIRMED, { ...OPEN, title: 'Other' }, { id: 6 }],
  ['a delivery from before the restore', NOT_CONFIRMED, { ...OPEN, updatedAt: 2_000 }, { id: 5 }],
  ['a poll from before the restore', NOT_CONFIRMED, OPEN, { id: 4, source: 'poll' }],
])('after a restore an item is judged by %s', async (_what, expected, item, how) => {
  const { commit, state } = await restored();
  await commit((query) => takeBatch(query, [came(item, how)], 2));
  expect(await state()).toEqual(expected);
});

test('nothing is written about an unverified item, whatever else asks to look at it', async () => {
  const { commit, state } = await restored();
  await commit((query) => takeBatch(query, [], 2, [OPEN.key]));
  expect(await state()).toEqual(NOT_CONFIRMED);
});

test('an item that only a delivery from before the restore brings is unverified until another one comes', async () => {
  const { commit, query, state } = await restored();
  await query.deleteFrom('items').execute();
  await commit((scope) => takeBatch(scope, [came(OPEN, { id: 4 })], 2));
  expect(await state()).toEqual(NOT_CONFIRMED);
  await commit((scope) => takeBatch(scope, [came(OPEN, { id: 6 })], 3));
  expect(await state()).toEqual(CONFIRMED);
});

test('a part that a delivery tells in passing confirms nothing', async () => {
  const { commit, state } = await restored();
  const whole = came({ ...OPEN, updatedAt: 2_000 }, { id: 6 });
  const item = (whole.translation as { readonly items: readonly PullRequest[] }).items[0] as PullRequest;
  const references = [{ kind: 'pull_request', key: OPEN.key, locator: {} }] as const;
  const told = { ...whole, translation: { outcome: 'references', references, told: [item] } } as const;
  await commit((query) => takeBatch(query, [told], 2));
  expect(await state()).toEqual(NOT_CONFIRMED);
});
