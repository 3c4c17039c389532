import { expect, test } from 'vitest';
import type { ItemKey } from '../../../src/model/item.ts';
import { beginNotice, noticesOf, requestNotice, settleNotice, withdrawNotices } from '../../../src/store/notices.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const keyOf = (index: number | string) => `note:${index}` as ItemKey;
const WANTED = { comment: ['kept'], close: ['kept'], status: ['kept'] };

test('withdraws what another configuration wanted, by how far it came', async () => {
  const store = await openTestStore();
  const { query } = store;
  const request = (name: string, wanted: string, connection = 'other') =>
    requestNotice(query, { itemKey: keyOf(name), kind: 'comment', connection, wanted, now: 0 });
  const noticeOf = async (name: string) => (await noticesOf(query, keyOf(name)))[0]!;
  await request('kept', 'first', 'kept');
  await request('new', 'first');
  await request('tried', 'first');
  await beginNotice(query, await noticeOf('tried'));
  await request('written', 'first');
  await settleNotice(query, await noticeOf('written'));
  await request('written', 'second');
  await withdrawNotices(store, WANTED);
  expect(await noticesOf(query, keyOf('new'))).toEqual([]);
  expect(await noticeOf('kept')).toMatchObject({ state: 'waiting', wanted: 'first', done: null });
  expect(await noticeOf('tried')).toMatchObject({ state: 'done', wanted: null, done: '' });
  expect(await noticeOf('written')).toMatchObject({ state: 'done', wanted: 'first', done: 'first' });
});

test('withdraws many notices in several transactions', async () => {
  const store = await openTestStore();
  await store.commit(async (query) => {
    for (let index = 0; index < 1_100; index++)
      await requestNotice(query, {
        itemKey: keyOf(index),
        kind: 'status',
        connection: 'other',
        wanted: 'text',
        now: 0,
      });
  });
  const count = async () => (await store.query.selectFrom('notices').select('item_key').execute()).length;
  const left: number[] = [];
  await withdrawNotices(
    {
      async commit(work) {
        const result = await store.commit(work);
        left.push(await count());
        return result;
      },
    },
    WANTED,
  );
  expect(left).toContain(600);
  expect(await count()).toBe(0);
});
