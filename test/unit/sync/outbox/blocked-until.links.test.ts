import { expect, test } from 'vitest';
import { MAX_TIME_IN_FLIGHT } from '../../../../src/model/change.ts';
import { findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { noteLinksRead } from '../../../../src/store/workspace-reads.ts';
import { blockedUntil, MAX_BLOCK } from '../../../../src/sync/outbox/claim.ts';
import { openTestStore } from '../../../support/intake.ts';

const NOW = 1_000_000;
const ADD = { action: 'add-link', taskId: 't1', itemKey: null } as const;
const SENT_AT = NOW - 10_000;

const changeSentAt = (sentAt: number) =>
  ({ entity: 'link:i>t1', lane: 'link', sent: JSON.stringify({ sentAt, revision: 3 }) }) as OutboxRow;

test.each([
  ['before the earlier request', 2, SENT_AT - 1, true],
  ['while the earlier request may still arrive', 4, SENT_AT + 5_000, true],
  ['when the earlier request has arrived or never will', 4, SENT_AT + MAX_TIME_IN_FLIGHT, false],
])('an addition whose answer was lost, after a read of the links %s', async (_when, revision, sentAt, isBlocked) => {
  const { query } = await openTestStore();
  await noteLinksRead(query, 't1', { revision, sentAt });
  const now = NOW + MAX_TIME_IN_FLIGHT;
  const until = await blockedUntil(query, changeSentAt(SENT_AT), ADD, now);
  expect(until).toBe(isBlocked ? now + MAX_BLOCK : undefined);
  const read = await findChange(query, 'read:links:t1');
  expect(read?.not_before).toBe(isBlocked ? SENT_AT + MAX_TIME_IN_FLIGHT : undefined);
});

test('the revision alone decides after the clock was set back', async () => {
  const { query } = await openTestStore();
  await noteLinksRead(query, 't1', { revision: 4, sentAt: NOW });
  expect(await blockedUntil(query, changeSentAt(NOW + 3_600_000), ADD, NOW)).toBeUndefined();
});
