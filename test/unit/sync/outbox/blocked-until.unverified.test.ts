import { expect, test } from 'vitest';
import { blankEntity } from '../../../../src/store/entities.ts';
import { saveItem } from '../../../../src/store/items.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import { prepareNext, UNVERIFIED_PAUSE } from '../../../../src/sync/outbox/claim.ts';
import { differs } from '../../../support/changes.ts';
import { openTestStore } from '../../../support/intake.ts';
import { itemRow } from '../../../support/items.ts';

const NOW = 1_000;
const ITEM = 'github:github.com:1:pull:1';
const RECORD = 'pull_request:github/1/1';
/** The outcome of an earlier attempt was unknown at the time of the backup. */
const SENT = JSON.stringify({ action: 'record-pull-request', body: { a: 1 } });

test('a write with unknown outcome waits while its item is unverified, and goes once it is verified', async () => {
  const { query } = await openTestStore();
  const record = blankEntity(RECORD, 'pull_request', { item_key: ITEM, desired: '{"a":1}' });
  await saveItem(query, itemRow(ITEM, { kind: 'pull_request', unverified: 1 }), 1);
  await differs(query, record, { sent: SENT });
  expect(await prepareNext(query, { now: NOW, onlyReads: false })).toBeUndefined();
  expect((await findChange(query, RECORD))?.not_before).toBe(NOW + UNVERIFIED_PAUSE);
  await saveItem(query, itemRow(ITEM, { kind: 'pull_request' }), 2);
  const later = await prepareNext(query, { now: NOW + UNVERIFIED_PAUSE, onlyReads: false });
  expect(later).toMatchObject({ action: 'record-pull-request', entity: RECORD });
});
