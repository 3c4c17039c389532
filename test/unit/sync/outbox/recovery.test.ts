import { expect, test } from 'vitest';
import { entity as entityName, SETTLE_AFTER } from '../../../../src/model/change.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { configureLinks } from '../../../../src/store/server-capabilities.ts';
import { enqueueInitialReads } from '../../../../src/store/workspace-reads.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { differs, waits } from '../../../support/rows/changes.ts';
import { CONTEXT, LINK, link, NOW, newTask, RECORD, record, TASK, take } from '../../../support/rows/in-flight.ts';

/** Whether the outcome of the change's request is unknown. */
const isOpen = async (query: Scope, entity: string) => (await findChange(query, entity))?.sent != null;

test.each([0, 40_000])(
  'recover settles requests in flight as unknown, and repeats writes after %d ms',
  async (untouched) => {
    const { query } = await openTestStore();
    await configureLinks(query, true);
    for (const row of [record, link, newTask]) await differs(query, row);
    await waits(query, entityName.readPullRequests, { kind: 'read', sent: '{"cursor":"c"}' });
    for (let count = 0; count < 4; count++) await take(query);
    const recovered = await recover(query, CONTEXT, untouched);
    expect(recovered.map(({ entity }) => entity).toSorted()).toEqual(
      [LINK, RECORD, TASK, entityName.readPullRequests].toSorted(),
    );
    const left = async (entity: string) => {
      const { state, not_before, error } = (await findChange(query, entity)) as OutboxRow;
      return [state, not_before, error, await isOpen(query, entity)];
    };
    const later = untouched > 0 ? NOW + untouched : 0;
    for (const entity of [LINK, RECORD]) expect(await left(entity)).toEqual(['pending', later, null, true]);
    expect(await left(entityName.readPullRequests)).toEqual(['pending', 0, null, true]);
    const provable = NOW + untouched + SETTLE_AFTER;
    expect(await left(TASK)).toEqual(['unknown', provable, 'outcome_unknown: the process ended', true]);
    expect(await left(entityName.readTasks)).toEqual(['pending', provable, null, false]);
    const rows = await query.selectFrom('requests').select(['outcome', 'completed_at']).execute();
    expect(rows).toEqual(Array(4).fill({ outcome: 'unknown', completed_at: NOW }));
  },
);

const UNTOUCHED = 40_000;
const TAKEN_OVER_AT = 100_000;

test('recover repeats the reads of another process at once, and its writes later', async () => {
  const store = await openTestStore();
  const { query } = store;
  await configureLinks(query, true);
  await enqueueInitialReads(query, 100, true);
  const desired = JSON.stringify({ url: 'https://tracker.example/1' });
  await saveEntity(query, blankEntity(LINK, 'link', { item_key: 'jira:cloud:issue:1', task_id: 't1', desired }));
  await addDifference(query, {
    entity: LINK,
    kind: 'link',
    lane: 'link',
    since: 100,
    due: 200,
    weight: 1,
    waiting: [],
  });
  const at = { askedAt: TAKEN_OVER_AT, slotAt: TAKEN_OVER_AT };
  for (const entity of [LINK, 'read:tasks'])
    await prepareNext(query, { now: TAKEN_OVER_AT, onlyReads: false }, entity, at);
  await recover(query, { now: TAKEN_OVER_AT, random: systemRandom(), usedShare: 0 }, UNTOUCHED);
  const rows = await query.selectFrom('outbox').select(['entity', 'state', 'not_before']).orderBy('entity').execute();
  const waits = rows.map(({ entity, state, not_before }) => [entity, state, not_before >= TAKEN_OVER_AT + UNTOUCHED]);
  expect(waits).toEqual([
    [LINK, 'pending', true],
    ['read:pull_requests', 'pending', false],
    ['read:tasks', 'pending', false],
  ]);
});
