import { expect, test } from 'vitest';
import type { Item } from '../../../../src/model/item.ts';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import { markTasksUnverified } from '../../../../src/store/task-creations.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { START, said, saidOf, TRACKER, takeBatch } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const BUG = workItem({ type: 'Bug', updatedAt: START });

/** The lane in which the items cause a read of the list of tasks. */
async function laneOfList(items: readonly Item[], isUnsure: boolean): Promise<string | undefined> {
  const { query, commit } = await openTestStore();
  if (isUnsure) await markTasksUnverified(query, START);
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
  ['names no task', undefined, [pull()]],
  ['names a possible new task', 'read', [pull({ title: 'Fixes BUG-7' })]],
  ['becomes a task', undefined, [BUG]],
  ['becomes a task, and names a possible new one', 'triage', [{ ...BUG, title: 'As BUG-7' }]],
  ['becomes a task, while tasks are unverified', 'triage', [BUG], true],
  ['becomes no task, while tasks are unverified', undefined, [{ ...BUG, type: 'Story' }], true],
])('an item that %s causes a read of the list of tasks in lane %s', async (_what, lane, items, isUnsure = false) => {
  expect(await laneOfList(items, isUnsure)).toBe(lane);
});

const STANDING = { author: 'us', text: 'Linked to BUG-1.', id: '7' };

test.each<[what: string, isOurs: boolean, references: readonly Item[], comment: object]>([
  ['of ours is ignored', true, [BUG], STANDING],
  ['of another author causes a fetch of its item', false, [BUG], { ...STANDING, author: 'ann' }],
  ['of ours that was edited causes one too', false, [BUG], { ...STANDING, text: 'Linked to BUG-2.' }],
  ['with a second item causes fetches', false, [BUG, { ...BUG, key: 'jira:cloud-1:10002' }], STANDING],
  ['of no item causes none', false, [], STANDING],
])('a comment %s', async (_what, isOurs, items, comment) => {
  const { query, commit } = await openTestStore();
  const notice = { item_key: BUG.key, kind: 'comment', connection: 'tracker', wanted: null, done: null } as const;
  const standing = JSON.stringify(STANDING);
  await query
    .insertInto('notices')
    .values({ ...notice, state: 'done', not_before: 0, attempts: 0, error: null, standing })
    .execute();
  const body = Buffer.from('{}');
  const delivery = { connection: 'tracker', key: 'k', source: 'webhook', event: 'e', body } as const;
  await appendDeliveries(query, [delivery], START);
  const references = items.map((item) => TRACKER.reference(item));
  const translation = { outcome: 'references', references, comment: comment as typeof STANDING } as const;
  await commit((transaction) => takeBatch(transaction, [said(TRACKER, translation)], 1));
  const [row] = await query.selectFrom('inbox').select(['state', 'reason']).execute();
  expect(row).toEqual(isOurs ? { state: 'ignored', reason: 'own_comment' } : { state: 'applied', reason: null });
  const fetches = await query.selectFrom('fetches').select('reference').execute();
  expect(fetches).toHaveLength(isOurs ? 0 : items.length);
});
