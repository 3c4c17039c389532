import { expect, test } from 'vitest';
import { createBell } from '../../../src/lib/bell.ts';
import { silentLogger } from '../../../src/lib/logger.ts';
import { silentMeter } from '../../../src/lib/meter.ts';
import { systemRandom } from '../../../src/lib/random.ts';
import { createOutbox } from '../../../src/outbox/outbox.ts';
import type { Store } from '../../../src/store/database.ts';
import { blankEntity, saveEntity } from '../../../src/store/entities.ts';
import { addDifference } from '../../../src/store/outbox-rows.ts';
import { remainsOf } from '../../support/all-or-nothing.ts';
import { openTestStore } from '../../support/intake.ts';
import { linkOf, outboxBench } from '../../support/outbox-bench.ts';

const item = 'jira:cloud:issue:9';
const name = `task:${item}`;

/** Two links in flight when the process died, and a task that waits to be made. */
async function startAfterDeath(store: Store): Promise<() => Promise<void>> {
  const { throttle, client, clock, slot, take } = await outboxBench(store, 2);
  for (const number of [1, 2]) await take(await slot(), linkOf(number));
  await store.commit(async (query) => {
    await saveEntity(query, blankEntity(name, 'task', { item_key: item, desired: '{}' }));
    const wish = { kind: 'task', lane: 'triage', since: clock.now(), due: clock.now(), weight: 1 } as const;
    await addDifference(query, { entity: name, ...wish, waiting: [] });
  });
  const parts = { logger: silentLogger, meter: silentMeter, random: systemRandom() };
  const outbox = createOutbox({
    ...{ store, throttle, client, clock, ...parts },
    ...{ outbox: createBell(), inbox: createBell() },
  });
  return async () => {
    outbox.start();
    // It ends as soon as what it starts with is stored.
    await outbox.stop();
  };
}

test('at the start all that was in flight waits again, and nothing is made before a list of tasks has come', async () => {
  const store = await openTestStore();
  const start = await startAfterDeath(store);
  await start();
  const rows = await store.query.selectFrom('outbox').selectAll().orderBy('entity').execute();
  expect(rows.map(({ entity, state, not_before }) => [entity, state, not_before > 0])).toEqual([
    [linkOf(1), 'pending', false],
    [linkOf(2), 'pending', false],
    ['read:tasks', 'pending', false],
    [name, 'pending', true],
  ]);
  const history = await store.query.selectFrom('requests').select(['entity', 'outcome']).orderBy('entity').execute();
  expect(history.map(({ outcome }) => outcome)).toEqual(['unknown', 'unknown']);
});

test('a process that dies at its start leaves all as it found it, and tells of no request twice', async () => {
  expect(await remainsOf(startAfterDeath)).toEqual([]);
});
