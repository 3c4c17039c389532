import { expect, test } from 'vitest';
import type { Item } from '../../../src/model/item.ts';
import { doubtTasks } from '../../../src/store/creates.ts';
import { START, saidOf, takeBatch } from '../../support/batches.ts';
import { openTestStore } from '../../support/intake.ts';
import { pull, workItem } from '../../support/items.ts';

const BUG = workItem({ type: 'Bug', updatedAt: START });

/** In which lane the list of tasks is read when this has come. */
async function laneOfList(items: readonly Item[], isUnsure: boolean): Promise<string | undefined> {
  const { query, commit } = await openTestStore();
  if (isUnsure) await doubtTasks(query, START);
  await commit((transaction) =>
    takeBatch(
      transaction,
      items.map((item) => saidOf(item)),
      1,
    ),
  );
  const rows = await query.selectFrom('outbox').select(['entity', 'lane']).where('entity', '=', 'read:tasks').execute();
  return rows[0]?.lane;
}

test.each<[what: string, lane: string | undefined, items: readonly Item[], isUnsure?: boolean]>([
  ['names nothing', undefined, [pull()]],
  ['names what may be a new task', 'read', [pull({ title: 'Fixes BUG-7' })]],
  ['is to become a task', undefined, [BUG]],
  ['is to become a task, and names what may be one', 'triage', [{ ...BUG, title: 'As BUG-7' }]],
  ['is to become a task, while nobody knows which there are', 'triage', [BUG], true],
  ['becomes no task, while nobody knows which there are', undefined, [{ ...BUG, type: 'Story' }], true],
])('for an item that %s the list of tasks is read in the lane %s', async (_what, lane, items, isUnsure = false) => {
  expect(await laneOfList(items, isUnsure)).toBe(lane);
});
