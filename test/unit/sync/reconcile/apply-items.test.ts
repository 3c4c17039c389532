import { expect, test } from 'vitest';
import { outOfScope } from '../../../../src/connectors/kit/items.ts';
import { entity } from '../../../../src/model/change.ts';
import type { DeliveryOrigin } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest, WorkItem } from '../../../../src/model/item.ts';
import { findChange } from '../../../../src/store/changes/outbox-rows.ts';
import { findItem, itemSummary, readFields } from '../../../../src/store/items/items.ts';
import { writeMeta } from '../../../../src/store/meta.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { needsCommits } from '../../../../src/sync/reconcile/apply-items.ts';
import type { Translated } from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { said, saidOf, TRACKER, takeBatch } from '../../../support/rows/batches.ts';
import { PULL_IDENTITY, pull, workItem } from '../../../support/rows/items.ts';

const KEY = PULL_IDENTITY.key;

async function open() {
  const store = await openTestStore();
  const { query } = store;
  const stored = async () => readFields((await findItem(query, KEY))!).item;
  const fetches = async () => (await query.selectFrom('fetches').select('reference').execute()).length;
  return { query, stored, fetches };
}

const withDelivery = (translated: Translated, fields: Partial<Translated['delivery']>): Translated => ({
  ...translated,
  delivery: { ...translated.delivery, ...fields },
});
const replayed = (translated: Translated) => withDelivery(translated, { isReplayed: true });

test('a replayed fetch does not restore a gone item, but causes a new fetch', async () => {
  const { query, stored, fetches } = await open();
  const fetched = saidOf(pull(), 'fetch');
  await takeBatch(query, [fetched], 1);
  await takeBatch(query, [saidOf(pull({ updatedAt: 2_000, gone: true }), 'fetch')], 2);
  expect(await stored()).toMatchObject({ gone: true });
  expect(await fetches()).toBe(0);
  await takeBatch(query, [replayed(fetched)], 3);
  expect(await stored()).toMatchObject({ gone: true });
  expect(await fetches()).toBe(1);
  await takeBatch(query, [fetched], 4);
  expect(await stored()).toMatchObject({ gone: false });
});

const OPEN = pull();
const RECORD = entity.pullRequest('github', '5001', '1');

const received = (item: PullRequest, id: number, source: DeliveryOrigin = 'webhook') =>
  withDelivery(saidOf(item, source), { id });

/** An open pull request, stored before a restore whose last delivery had the number 5. */
async function restored() {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [received(OPEN, 3)], 1));
  await store.query.updateTable('items').set({ unverified: 1 }).execute();
  await store.query.deleteFrom('outbox').execute();
  await writeMeta(store.query, 'restored_after', '5');
  const state = async (query: Scope = store.query) => ({
    isUnverified: (await itemSummary(query, OPEN.key)).isUnverified,
    isWritten: (await findChange(query, RECORD)) !== undefined,
  });
  return { ...store, state };
}

const VERIFIED = { isUnverified: false, isWritten: true };
const UNVERIFIED = { isUnverified: true, isWritten: false };

test.each<[what: string, expected: object, item: PullRequest, id: number, source?: DeliveryOrigin]>([
  ['a fetch of the same state', VERIFIED, OPEN, 6, 'fetch'],
  ['a fetch of an older state', VERIFIED, { ...OPEN, updatedAt: 500 }, 6, 'fetch'],
  ['a poll of the same state', VERIFIED, OPEN, 6, 'poll'],
  ['a webhook of the same state', VERIFIED, OPEN, 6],
  ['a webhook of a newer state', VERIFIED, { ...OPEN, updatedAt: 2_000, state: 'merged' }, 6],
  ['a late webhook of an older state', UNVERIFIED, { ...OPEN, updatedAt: 500 }, 6],
  ['a webhook that contradicts it', UNVERIFIED, { ...OPEN, title: 'Other' }, 6],
  ['a delivery older than the restore', UNVERIFIED, { ...OPEN, updatedAt: 2_000 }, 5],
])('after a restore, %s decides whether an item is verified', async (_what, expected, item, ...how) => {
  const { commit, state } = await restored();
  await commit((query) => takeBatch(query, [received(item, ...how)], 2));
  expect(await state()).toEqual(expected);
});

test('an unverified item is not evaluated, not even on request', async () => {
  const { commit, state } = await restored();
  await commit((query) => takeBatch(query, [], 2, [OPEN.key]));
  expect(await state()).toEqual(UNVERIFIED);
});

test('a new item from an older delivery is unverified until a newer one arrives', async () => {
  const { commit, query, state } = await restored();
  await query.deleteFrom('items').execute();
  await commit((scope) => takeBatch(scope, [received(OPEN, 4)], 2));
  expect(await state()).toEqual(UNVERIFIED);
  await commit((scope) => takeBatch(scope, [received(OPEN, 6)], 3));
  expect(await state()).toEqual(VERIFIED);
});

test('a partial item does not verify the item', async () => {
  const { commit, state } = await restored();
  const item = { ...OPEN, updatedAt: 2_000 };
  const references = [{ kind: 'pull_request', key: OPEN.key, locator: {} }] as const;
  const partial = {
    ...received(item, 6),
    translation: { outcome: 'references', references, partialItems: [item] },
  } as const;
  await commit((query) => takeBatch(query, [partial], 2));
  expect(await state()).toEqual(UNVERIFIED);
});

test.each<[what: string, stored: Partial<WorkItem>, source: DeliveryOrigin]>([
  ['left it before the restore', { containerId: '9', containerName: 'Operations', movedAway: 'Operations' }, 'fetch'],
  ['left it since', {}, 'webhook'],
  ['is in a project that the configuration no longer names', { containerId: '9' }, 'fetch'],
])('after a restore, an issue outside the scope is verified if it %s', async (_what, fields, source) => {
  const { commit, query } = await openTestStore();
  const before = workItem(fields);
  await commit((scope) => takeBatch(scope, [withDelivery(saidOf(before), { id: 3 })], 1));
  await query.updateTable('items').set({ unverified: 1 }).execute();
  await writeMeta(query, 'restored_after', '5');
  const outside = workItem({ containerId: '9', containerName: 'Operations', updatedAt: 2_000 });
  const translation = outOfScope('project', outside);
  await commit((scope) => takeBatch(scope, [withDelivery(said(TRACKER, translation, source), { id: 6 })], 2));
  const row = await findItem(query, before.key);
  expect([row?.unverified, row && readFields(row).item]).toMatchObject([0, { movedAway: 'Operations' }]);
});

const bare: PullRequest = pull({ state: 'open', headSha: 'a' });
const read: PullRequest = { ...bare, commitMessages: [] };
const pushed: PullRequest = { ...read, headSha: 'b' };
const issue: Item = workItem({ state: 'open' });

const ofHead = (commitsSha: string, headSha = 'a'): PullRequest => ({ ...read, commitsSha, headSha });

test.each<[string, DeliveryOrigin, Item | undefined, Item, boolean]>([
  ['a new pull request', 'poll', undefined, bare, true],
  ['a new head', 'poll', read, pushed, true],
  ['a new head by a webhook', 'webhook', read, pushed, true],
  ['an edit of another field', 'webhook', read, { ...read, title: 'Other' }, false],
  ['a backfill without known commits', 'backfill', bare, bare, true],
  ['a merge by a webhook', 'webhook', bare, { ...bare, state: 'merged' }, true],
  ['an old merged pull request in a list', 'backfill', undefined, { ...bare, state: 'merged' }, false],
  ['a fetched object without commits', 'fetch', read, { ...bare, headSha: 'b' }, false],
  ['a gone pull request', 'poll', read, { ...pushed, gone: true }, false],
  ['a head whose commits are known', 'webhook', ofHead('a', 'b'), ofHead('a'), false],
  ['another head than the one with known commits', 'webhook', ofHead('a'), ofHead('a', 'b'), true],
  ['an issue', 'webhook', undefined, issue, false],
])('commits are fetched for %s (%s)', (_, source, before, current, expected) => {
  expect(needsCommits(before, current, source)).toBe(expected);
});

test.each<[what: string, isFetched: boolean, received: PullRequest, current: PullRequest]>([
  ['are of an older head', true, ofHead('a'), ofHead('a', 'b')],
  ['are of its head', false, ofHead('b', 'b'), ofHead('b', 'b')],
  ['cannot be read, or were known', false, { ...bare, headSha: 'b' }, ofHead('a', 'b')],
])('a fetched object whose commits %s causes another fetch: %s', (_what, isFetched, object, current) => {
  expect(needsCommits(undefined, current, 'fetch', object)).toBe(isFetched);
});
