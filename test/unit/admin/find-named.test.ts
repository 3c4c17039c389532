import { expect, test } from 'vitest';
import { itemsAbout, MOST_ABOUT } from '../../../src/admin/find-named.ts';
import { blankEntity, saveEntity } from '../../../src/store/entities.ts';
import { openTestStore } from '../../support/harness/intake.ts';

test('of a task that a template names everywhere some items are found, those with links first', async () => {
  const store = await openTestStore();
  const { query } = store;
  const rows = Array.from({ length: 1_000 }, (_, index) => ({
    item_key: `item ${index}`,
    name: 'BUG-1',
    reason: '{}',
  }));
  await query.insertInto('mentions').values(rows).execute();
  await saveEntity(query, blankEntity('link:z>t', 'link', { item_key: 'z', task_id: 't' }));
  await saveEntity(query, blankEntity('document:y>t', 'document', { item_key: 'y', task_id: 't' }));
  const found = await itemsAbout(query, { taskId: 't', key: 'BUG-1' });
  expect(found).toHaveLength(MOST_ABOUT);
  expect(found[0]).toBe('z');
  expect(found).not.toContain('y');
  expect(await itemsAbout(query, { taskId: 'other', key: 'BUG-2' })).toEqual([]);
});
