import { expect, test } from 'vitest';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference } from '../../../../src/store/outbox-rows.ts';
import { configureLinks } from '../../../../src/store/server-capabilities.ts';
import { enqueueInitialReads } from '../../../../src/store/workspace-reads.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import { openTestStore } from '../../../support/intake.ts';

const LINK = 'link:jira:cloud:issue:1>t1';
const UNTOUCHED = 40_000;
const NOW = 100_000;

test('what another process was writing is left alone for a while, and what it was reading is read again at once', async () => {
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
  const at = { askedAt: NOW, slotAt: NOW };
  for (const entity of [LINK, 'read:tasks']) await prepareNext(query, { now: NOW, onlyReads: false }, entity, at);
  await recover(query, { now: NOW, random: systemRandom(), usedShare: 0 }, UNTOUCHED);
  const rows = await query.selectFrom('outbox').select(['entity', 'state', 'not_before']).orderBy('entity').execute();
  const waits = rows.map(({ entity, state, not_before }) => [entity, state, not_before >= NOW + UNTOUCHED]);
  expect(waits).toEqual([
    [LINK, 'pending', true],
    ['read:pull_requests', 'pending', false],
    ['read:tasks', 'pending', false],
  ]);
});
