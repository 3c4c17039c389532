import { expect, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import { itemsAtUrl, itemsByDisplayName } from '../../../../src/store/items.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull } from '../../../support/items.ts';
import { reconcileOver } from '../../../support/reconcile-over.ts';

/** Texts that a vendor may answer, and that not every database keeps. */

const NOW = Date.UTC(2026, 0, 2);

const HOSTILE = {
  key: 'github:github.com:r1:pr:\u00007',
  identifier: '7\u0000',
  title: 'a\u0000b\ud800c \udfff \\u0000',
  url: 'https://github.com/acme/app/pull/7\ud83d',
  branch: '\u0000',
  labels: ['\u0000', 'fine', '\udc00'],
};

test('an item whose texts hold the sign 0 and halves of surrogate pairs is taken over, found, and taken over once', async () => {
  const store = await openTestStore();
  const item = pull({ ...HOSTILE, repoName: 'acme/app\u0000' });
  const reconcile = reconcileOver(store, { translate: () => ({ outcome: 'items', items: [item] }), start: NOW });
  for (const key of ['first', 'again']) {
    const delivery = { connection: 'main', key, source: 'poll', event: 'pull', body: Buffer.from('{}') } as const;
    await appendDeliveries(store.query, [delivery], NOW);
    await reconcile.drain();
  }
  const deliveries = await store.query.selectFrom('inbox').select(['state', 'reason']).orderBy('id').execute();
  expect(deliveries).toEqual([
    { state: 'applied', reason: null },
    { state: 'applied', reason: null },
  ]);
  const key = 'github:github.com:r1:pr:\ufffd7';
  expect(await itemsAtUrl(store.query, 'https://github.com/acme/app/pull/7\ufffd')).toEqual([key]);
  expect(await itemsByDisplayName(store.query, 'acme/app\ufffd#7\ufffd')).toEqual([key]);
  const { fields } = await store.query.selectFrom('items').select('fields').executeTakeFirstOrThrow();
  const title = 'a\ufffdb\ufffdc \ufffd \\u0000';
  expect(JSON.parse(fields)).toMatchObject({ item: { title, labels: ['\ufffd', 'fine', '\ufffd'] } });
});
