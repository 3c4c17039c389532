import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { clampFutureTimestamps } from '../../../src/store/clock-changes.ts';
import { blankEntity, findEntities, saveEntity } from '../../../src/store/entities.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import { areTasksUnverified, markTasksUnverified, markTasksVerified } from '../../../src/store/task-creations.ts';
import { waits } from '../../support/changes.ts';
import { openTestStore } from '../../support/intake.ts';

/** After the wall clock was set back by a day. */
const NOW = 10_000_000;
const LATER = NOW + 86_400_000;

test('what is read from now on says more than what was known before', async () => {
  const { query } = await openTestStore();
  const times = { past: NOW - 1, present: NOW, future: LATER, never: null };
  for (const [name, known_at] of Object.entries(times))
    await saveEntity(query, blankEntity(name, 'pull_request', { known_at }));
  await clampFutureTimestamps(query, NOW);
  const rows = await findEntities(query, Object.keys(times));
  expect(Object.fromEntries(rows.map((row) => [row.entity, row.known_at]))).toEqual({ ...times, future: NOW });
});

test('no change waits until the old time has come again', async () => {
  const { query } = await openTestStore();
  const name = entity.task('jira:cloud:1');
  await waits(query, name, { kind: 'task', lane: 'triage', since: LATER, due: LATER });
  await clampFutureTimestamps(query, NOW);
  expect(await findChange(query, name)).toMatchObject({ since: NOW, due: NOW });
});

test.each([
  ['ahead of the old time, is trusted where it was requested since', LATER, NOW, false],
  ['of before, is trusted where it was requested since', NOW - 5, NOW - 5, false],
  ['of before, is not where it was requested earlier', NOW - 5, NOW - 6, true],
])('a list of tasks, after a doubt %s', async (_what, doubtedAt, sentAt, isUnsure) => {
  const { query } = await openTestStore();
  await markTasksUnverified(query, doubtedAt);
  await clampFutureTimestamps(query, NOW);
  await markTasksVerified(query, sentAt);
  expect(await areTasksUnverified(query)).toBe(isUnsure);
});
