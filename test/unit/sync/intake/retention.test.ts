import { expect, onTestFinished, test } from 'vitest';
import type { DeliveryState } from '../../../../src/model/delivery.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { blankEntity, type EntityRow, saveEntity } from '../../../../src/store/changes/entities.ts';
import { addRequest, requestsOfItems } from '../../../../src/store/changes/requests.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { deleteTombstones, withOldBodies, withOldDeliveries } from '../../../../src/store/installation/deletions.ts';
import { addQuotaUse, quotaUseSince } from '../../../../src/store/quota/ledger.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { type RetainedWorkspace, retentionJob } from '../../../../src/sync/intake/retention.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { openTestInstallation } from '../../../support/harness/store.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const RETENTION = { bodies: 14 * DAY, deliveries: 90 * DAY };
const NOW = createTravellingClock().now();

type Query = Pick<Store, 'query'>;

async function addDelivery(store: Query, key: string, receivedAt: number, state: DeliveryState = 'applied') {
  const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body: Buffer.from('body') };
  await appendDeliveries(store.query, [delivery], receivedAt);
  const settled_at = state === 'pending' ? null : receivedAt + 1;
  await store.query.updateTable('inbox').set({ state, settled_at }).where('delivery_key', '=', key).execute();
}

const addRequestAt = ({ query }: Query, at: number) =>
  addRequest(query, {
    ...{ entity: 'link:a>t', kind: 'link', item_key: 'a', action: 'add-link', lane: 'link' },
    ...{ sent_at: at, since: at, due: at, asked_at: at, slot_at: at, completed_at: at },
    ...{ outcome: 'answered', attempt: 1, deliveries: '[]' },
  });

const addLink = ({ query }: Query, name: string, known_at: number, hand: EntityRow['hand']) =>
  saveEntity(query, blankEntity(`link:${name}`, 'link', { known_at, hand, revision: 1 }));

const ACT = { workspace: null, actor: 'command ann', subject: null, count: 1, outcome: 'done' } as const;

const addAudit = ({ query }: Query, ...rows: { readonly at: number; readonly action: string }[]) =>
  query.whole
    .insertInto('audit')
    .values(rows.map((row) => ({ ...ACT, ...row })))
    .execute();

/** Returns a run of the job over one workspace. */
function retentionOf(
  store: Store,
  workspaces: readonly RetainedWorkspace[] = [{ name: 'test', store, config: { retention: RETENTION } }],
) {
  const job = retentionJob(store.query.whole, createTravellingClock(), silentLogger, () => workspaces);
  return async () => job.run(new AbortController().signal);
}

test('deletes bodies and deliveries after their times, but no pending delivery and no quarantined body', async () => {
  const store = await openTestStore();
  const states = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;
  for (const state of states)
    for (const age of [1, 20, 100]) await addDelivery(store, `${state} ${age}`, NOW - age * DAY, state);
  await retentionOf(store)();
  const left = (await inboxOf(store)).map((row) => `${row.delivery_key}: ${row.body}`);
  expect(left.toSorted()).toEqual(
    [
      ...states.map((state) => `${state} 1: body`),
      ...['applied 20: null', 'superseded 20: null', 'ignored 20: null'],
      ...['quarantined 20: body', 'pending 20: body', 'pending 100: body'],
    ].toSorted(),
  );
  const { whole, workspace } = store.query;
  expect(await withOldBodies(whole, [workspace], NOW - RETENTION.bodies)).toEqual([]);
  expect(await withOldDeliveries(whole, [workspace], NOW - RETENTION.deliveries)).toEqual([]);
});

test('deletes rows an hour older than their limit, and keeps rows an hour younger', async () => {
  const store = await openTestStore();
  for (const [side, hours] of [['older', -HOUR] as const, ['younger', HOUR] as const]) {
    const at = (days: number) => NOW - days * DAY + hours;
    await addDelivery(store, `body ${side}`, at(14));
    await addDelivery(store, `delivery ${side}`, at(90));
    await addRequestAt(store, at(14));
    await addQuotaUse(store.query, at(8), 'mirror', 0);
    await addAudit(store, { at: at(400), action: side });
  }
  await retentionOf(store)();
  const left = (await inboxOf(store)).map(({ delivery_key, body }) => `${delivery_key}: ${body !== null}`);
  expect(left.toSorted()).toEqual(['body older: false', 'body younger: true', 'delivery younger: false']);
  const requests = await requestsOfItems(store.query, ['a'], 9);
  expect(requests.map((row) => row.completed_at)).toEqual([NOW - 14 * DAY + HOUR]);
  expect((await quotaUseSince(store.query, 0)).map(({ since }) => since >= NOW - 8 * DAY)).toEqual([true]);
  expect(await store.query.whole.selectFrom('audit').select('action').execute()).toEqual([{ action: 'younger' }]);
});

test('deletes tombstones after a day, and no other links', async () => {
  const store = await openTestStore();
  const old = NOW - DAY - 1;
  for (const hand of ['removed', 'manual', null] as const) await addLink(store, `of hand ${hand}`, old, hand);
  for (const name of ['gone', 'gone too']) await addLink(store, name, old, 'gone');
  await addLink(store, 'gone lately', old + 1, 'gone');
  expect(await deleteTombstones(store.query, old + 1, 1)).toBe(1);
  await retentionOf(store)();
  const left = await store.query.selectFrom('entities').select('entity').orderBy('entity').execute();
  expect(left.map(({ entity }) => entity)).toEqual(
    ['gone lately', 'of hand manual', 'of hand null', 'of hand removed'].map((name) => `link:${name}`),
  );
});

test('purges the others after a failure of one, and nothing after a stop', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const stores = [await installation.store('first'), await installation.store('second')];
  for (const store of stores) await addDelivery(store, 'key', NOW - 15 * DAY);
  const commitRelaxed = () => Promise.reject(new Error('a fault'));
  const workspaces = stores.map((store, index): RetainedWorkspace => {
    const own = index === 0 ? { ...store, commitRelaxed } : store;
    return { name: String(index), store: own, config: { retention: RETENTION } };
  });
  const purged: unknown[] = [];
  const info = (fields: LogFields) => void purged.push([fields['workspace'], fields['bodies']]);
  const clock = createTravellingClock();
  const job = retentionJob(installation.query, clock, { ...silentLogger, info }, () => workspaces);
  await job.run(AbortSignal.abort());
  expect(purged).toEqual([]);
  await job.run(new AbortController().signal);
  expect(purged).toEqual([['1', 1]]);
});
