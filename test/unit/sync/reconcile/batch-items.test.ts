import { expect, test } from 'vitest';
import { findItem, readDeliveries, readFields } from '../../../../src/store/items.ts';
import { saidOf, takeBatch } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { PULL_IDENTITY, pull } from '../../../support/items.ts';

const KEY = PULL_IDENTITY.key;

async function open() {
  const store = await openTestStore();
  const { query } = store;
  const held = async () => readFields((await findItem(query, KEY))!).item;
  const asked = async () => (await query.selectFrom('fetches').select('reference').execute()).length;
  return { query, held, asked };
}

const replayed = (said: ReturnType<typeof saidOf>): ReturnType<typeof saidOf> => ({
  ...said,
  delivery: { ...said.delivery, isReplayed: true },
});

test('a delivery that changed an item is remembered with it', async () => {
  const { query } = await open();
  await takeBatch(query, [saidOf(pull())], 1);
  expect(readDeliveries(await findItem(query, KEY))).toEqual([1]);
});

test('what was fetched some time ago does not bring back what is gone: a fetch decides', async () => {
  const { query, held, asked } = await open();
  const fetched = saidOf(pull(), 'fetch');
  await takeBatch(query, [fetched], 1);
  await takeBatch(query, [saidOf(pull({ updatedAt: 2_000, gone: true }), 'fetch')], 2);
  expect(await held()).toMatchObject({ gone: true });
  expect(await asked()).toBe(0);
  await takeBatch(query, [replayed(fetched)], 3);
  expect(await held()).toMatchObject({ gone: true });
  expect(await asked()).toBe(1);
  await takeBatch(query, [fetched], 4);
  expect(await held()).toMatchObject({ gone: false });
});

test('a replay takes nothing back, and has its item looked at all the same', async () => {
  const { query, held } = await open();
  const old = saidOf(pull({ title: 'Before' }));
  await takeBatch(query, [old], 1);
  await takeBatch(query, [saidOf(pull({ title: 'After', updatedAt: 5_000 }))], 2);
  await query.deleteFrom('entities').execute();
  await takeBatch(query, [old], 3);
  expect(await query.selectFrom('entities').select('entity').execute()).toEqual([]);
  await takeBatch(query, [replayed(old)], 4);
  expect(await held()).toMatchObject({ title: 'After' });
  const [record] = await query.selectFrom('entities').select(['kind', 'desired']).execute();
  expect(record?.kind).toBe('pull_request');
  expect(JSON.parse(record?.desired ?? '')).toMatchObject({ title: 'After' });
});

test('after the clock was set back, what the provider dates behind what is held is taken and fetched', async () => {
  const { query, held, asked } = await open();
  const HOUR = 3_600_000;
  const received = (said: ReturnType<typeof saidOf>, receivedAt: number): typeof said => ({
    ...said,
    delivery: { ...said.delivery, receivedAt },
  });
  await takeBatch(query, [received(saidOf(pull({ title: 'Before', updatedAt: 3 * HOUR })), 3 * HOUR)], 1);
  const after = pull({ title: 'After', updatedAt: 4 * HOUR });
  await takeBatch(query, [received(saidOf(after), HOUR)], 2);
  expect(await held()).toMatchObject({ title: 'After', updatedAt: 3 * HOUR });
  expect(await asked()).toBe(1);
  await takeBatch(query, [received(saidOf(pull({ title: 'Newest', updatedAt: 5 * HOUR }), 'fetch'), 2 * HOUR)], 3);
  expect(await held()).toMatchObject({ title: 'Newest', updatedAt: 3 * HOUR });
});
