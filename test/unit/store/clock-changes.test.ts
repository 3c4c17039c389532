import { expect, onTestFinished, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { bumpClockEra, clampFutureTimestamps, readClockEra } from '../../../src/store/clock-changes.ts';
import { blankEntity, findEntities, saveEntity } from '../../../src/store/entities.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import { areTasksUnverified, markTasksUnverified, markTasksVerified } from '../../../src/store/task-creations.ts';
import { withoutTable } from '../../support/faults/without-table.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';
import { waits } from '../../support/rows/changes.ts';

/** After the wall clock was set back by a day. */
const NOW = 10_000_000;
const LATER = NOW + 86_400_000;

test('known states of the future become older than what is read from now on', async () => {
  const { query } = await openTestStore();
  const times = { past: NOW - 1, present: NOW, future: LATER, never: null };
  for (const [name, known_at] of Object.entries(times))
    await saveEntity(query, blankEntity(name, 'pull_request', { known_at }));
  await clampFutureTimestamps(query, NOW);
  const rows = await findEntities(query, Object.keys(times));
  expect(Object.fromEntries(rows.map((row) => [row.entity, row.known_at]))).toEqual({ ...times, future: NOW });
});

test('changes of the future become due now', async () => {
  const { query } = await openTestStore();
  const name = entity.task('jira:cloud:1');
  await waits(query, name, { kind: 'task', lane: 'triage', since: LATER, due: LATER });
  await clampFutureTimestamps(query, NOW);
  expect(await findChange(query, name)).toMatchObject({ since: NOW, due: NOW });
});

test.each([
  ['verifies them if it was requested now, although they became unverified in the future', LATER, NOW, false],
  ['verifies them if it was requested when they became unverified', NOW - 5, NOW - 5, false],
  ['does not verify them if it was requested earlier', NOW - 5, NOW - 6, true],
])('a list of unverified tasks %s', async (_what, unverifiedAt, sentAt, isUnverified) => {
  const { query } = await openTestStore();
  await markTasksUnverified(query, unverifiedAt);
  await clampFutureTimestamps(query, NOW);
  await markTasksVerified(query, sentAt);
  expect(await areTasksUnverified(query)).toBe(isUnverified);
});

test('each change of the clock begins another era, or fails', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const eras = [await readClockEra(installation.query)];
  for (let changes = 0; changes < 2; changes++) {
    await bumpClockEra(installation);
    eras.push(await readClockEra(installation.query));
  }
  expect(eras).toEqual([0, 1, 2]);
  await withoutTable(installation.query, 'installation', () => expect(bumpClockEra(installation)).rejects.toThrow());
});
