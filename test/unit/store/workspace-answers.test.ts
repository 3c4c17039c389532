import { describe, expect, it } from 'vitest';
import { pendingDeliveries } from '../../../src/store/inbox.ts';
import { nextRevision } from '../../../src/store/revision.ts';
import { appendAnswer, readAnswer, WORKSPACE } from '../../../src/store/workspace-answers.ts';
import { openTestStore } from '../../support/harness/intake.ts';

describe('answers', () => {
  it('pass through the inbox unchanged', async () => {
    const store = await openTestStore();
    const answer = {
      action: 'read-tasks',
      entity: 'read:tasks',
      sentAt: 5,
      body: { tasks: [{ title: 'ä🐛' }] },
    } as const;
    await appendAnswer(store.query, answer, 'id-1', 8);
    await appendAnswer(store.query, answer, 'id-2', 9);
    const rows = await pendingDeliveries(store.query, 9, 9_999);
    expect(rows.map(({ connection, source, event, receivedAt }) => [connection, source, event, receivedAt])).toEqual([
      [WORKSPACE, 'answer', 'read-tasks', 8],
      [WORKSPACE, 'answer', 'read-tasks', 9],
    ]);
    expect(rows.map(({ body }) => readAnswer(body))).toEqual([answer, answer]);
  });

  it('carry the revision at their receipt, even if they are processed later', async () => {
    const store = await openTestStore();
    await nextRevision(store.query);
    const answer = { action: 'read-links', entity: 'read:links:t1', sentAt: 5, asOf: 0, body: null } as const;
    await appendAnswer(store.query, answer, 'id-1', 8);
    await nextRevision(store.query);
    const [row] = await pendingDeliveries(store.query, 9, 9_999);
    expect(readAnswer(row!.body)).toMatchObject({ asOf: 0, receivedRevision: 1 });
  });
});
