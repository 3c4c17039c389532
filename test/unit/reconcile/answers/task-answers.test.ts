import { expect, test } from 'vitest';
import { systemRandom } from '../../../../src/lib/random.ts';
import { entity, ON_ITS_WAY, SETTLE_AFTER } from '../../../../src/model/change.ts';
import type { Prepared } from '../../../../src/outbox/prepare.ts';
import { recover } from '../../../../src/outbox/settle.ts';
import type { Store } from '../../../../src/store/database.ts';
import { findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { answered, START, saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { workItem } from '../../../support/items.ts';

const BUG = workItem({ type: 'Bug', updatedAt: START });
const NAME = entity.task(BUG.key);
const TASK = { taskId: 't9', key: 'BUG-9', title: 'An issue', status: 'open', source: BUG.key };

/** A work item of which a task is to be made. */
async function wanted(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(BUG)], 1));
  return store;
}

/** As the outbox leaves it when the workspace has answered. */
async function known({ query }: Store): Promise<void> {
  const row = await findEntity(query, NAME);
  if (!row) throw new Error('no task is wanted');
  await saveEntity(query, { ...row, known: row.desired });
}

const outbox = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').orderBy('entity').execute()).map((row) => row.entity);

test('the id of a task that was made is kept with the item that it was made for', async () => {
  const store = await wanted();
  await known(store);
  await store.commit((query) => takeBatch(query, [answered('create-task', TASK, { entity: NAME, seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', item_key: BUG.key });
});

test('a task that somebody else made for the item is the task of it: none is made any more', async () => {
  const store = await wanted();
  expect(await outbox(store)).toContain(NAME);
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
  expect(await outbox(store)).not.toContain(NAME);
});

test('a request for a task that is on its way settles itself, whoever made one meanwhile', async () => {
  const store = await wanted();
  await store.query.updateTable('outbox').set({ state: 'sending', sent: '{}' }).where('entity', '=', NAME).execute();
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: null, known: null });
  expect(await outbox(store)).toContain(NAME);
});

test('a list that was read too early settles no creation any sooner, although the process that sent it is dead', async () => {
  const store = await wanted();
  const { query } = store;
  const sent: Prepared = {
    ...{ action: 'create-task', entity: NAME, kind: 'task', lane: 'triage', body: {}, known: null, taskId: null },
    ...{ waiting: 0, attempts: 0, open: false, sentAt: START },
  };
  const sending = { state: 'sending', sent: JSON.stringify(sent), sent_at: START } as const;
  await query.updateTable('outbox').set(sending).where('entity', '=', NAME).execute();
  const context = { now: START, random: systemRandom(), usedShare: 0, visibility: 0 };
  await store.commit((transaction) => recover(transaction, context, ON_ITS_WAY));
  // Its successor reads what there is at once, for other reasons.
  await store.commit((scope) => takeBatch(scope, [answered('read-tasks', { tasks: [] }, { seconds: 1 })], 1));
  const [row] = await query.selectFrom('outbox').select(['state', 'not_before']).where('entity', '=', NAME).execute();
  expect(row).toEqual({ state: 'unknown', not_before: START + ON_ITS_WAY + SETTLE_AFTER });
});
