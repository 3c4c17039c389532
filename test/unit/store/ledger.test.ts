import { expect, test } from 'vitest';
import { addLedgerRow, endLedgerRow, forgetLedgerRows, readLedger } from '../../../src/store/ledger.ts';
import { openTestStore } from '../../support/harness/intake.ts';

/** Three requests in flight. */
async function withRequests() {
  const { query } = await openTestStore();
  for (const id of [1, 2, 3]) await addLedgerRow(query, { id, boot: 'boot', lane: 'link', caller: '', started: id });
  const ends = async () => (await readLedger(query)).map(({ id, completed, status }) => [id, completed, status]);
  return { query, ends };
}

test('stores the first end of a request, and changes no other row', async () => {
  const { query, ends } = await withRequests();
  expect(await endLedgerRow(query, 2, 50, 200)).toBe(true);
  expect(await endLedgerRow(query, 2, 90, 500)).toBe(false);
  expect(await endLedgerRow(query, 3, 60, undefined)).toBe(true);
  expect(await endLedgerRow(query, 9, 60, 200)).toBe(false);
  expect(await ends()).toEqual([
    [1, null, null],
    [2, 50, 200],
    [3, 60, null],
  ]);
});

test('deletes the rows that were completed before a time, and those of unsent requests', async () => {
  const { query, ends } = await withRequests();
  await endLedgerRow(query, 2, 50, 200);
  await endLedgerRow(query, 3, 60, 200);
  await forgetLedgerRows(query, 60, []);
  expect((await ends()).map(([id]) => id)).toEqual([1, 3]);
  await forgetLedgerRows(query, 0, [1]);
  expect((await ends()).map(([id]) => id)).toEqual([3]);
});
