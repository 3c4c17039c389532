import { describe, expect, it, test } from 'vitest';
import { entity as entityName } from '../../../../src/model/change.ts';
import { blankEntity, type EntityRow } from '../../../../src/store/entities.ts';
import type { OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { writeFor } from '../../../../src/sync/outbox/request.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { waits } from '../../../support/rows/changes.ts';

const ELIGIBLE = { now: 1_000, onlyReads: false };
const LINK = 'link:jira:cloud:issue:1>t1';

describe('the request of a write', () => {
  const SENT = JSON.stringify({ action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' });
  const none = { desired: null };
  const documentAt = (taskId: string | null) => JSON.stringify({ taskId, isMissing: false });

  it.each<[what: string, kind: OutboxRow['kind'], row: Partial<EntityRow>, request: object | undefined]>([
    [
      'records the desired pull request',
      'pull_request',
      { desired: '{"a":1}' },
      { action: 'record-pull-request', body: { a: 1 }, known: '{"a":1}', taskId: null },
    ],
    ['is absent for a record that is not desired', 'pull_request', none, undefined],
    [
      'creates a task that the workspace does not have',
      'task',
      { desired: '{"a":1}' },
      { action: 'create-task', body: { a: 1 }, known: '{"a":1}', taskId: null },
    ],
    ['is absent for a task that the workspace has', 'task', { desired: '{"a":1}', known: '{}' }, undefined],
    ['is absent for a task that is not desired', 'task', none, undefined],
    [
      'attaches a document of no task',
      'document',
      { desired: '{"a":1}', known: documentAt(null) },
      { action: 'attach-document', body: { a: 1 }, known: documentAt('t1'), taskId: 't1' },
    ],
    ['is absent for a document of another task', 'document', { desired: '{}', known: documentAt('t2') }, undefined],
    ['is absent for an unknown document', 'document', { desired: '{}' }, undefined],
    ['is absent for a document that is not desired', 'document', { ...none, known: documentAt(null) }, undefined],
    [
      'is absent for a document that a person detached',
      'document',
      { desired: '{}', known: documentAt(null), hand: 'removed' },
      undefined,
    ],
    [
      'adds a link without its reason',
      'link',
      { desired: '{"url":"u","reason":"named"}' },
      { action: 'add-link', body: { url: 'u' }, known: '{"url":"u"}', taskId: 't1' },
    ],
    ['is absent for a known link', 'link', { desired: '{"url":"u"}', known: '{"url":"u"}' }, undefined],
    ['is absent for a link that a person removed', 'link', { desired: '{"url":"u"}', hand: 'removed' }, undefined],
    [
      'removes a link that worksync added',
      'link',
      { ...none, known: '{"url":"u"}', remote_id: 'w1' },
      { action: 'remove-link', body: { workItemId: 'w1' }, known: null, taskId: 't1' },
    ],
    ['is absent for the removal of an unknown link', 'link', { ...none, remote_id: 'w1' }, undefined],
    ['is absent for the removal of a link without a known id', 'link', { ...none, known: '{"url":"u"}' }, undefined],
    [
      'is absent for the removal of a link that a person made',
      'link',
      { ...none, known: '{"url":"u"}', remote_id: 'w1', hand: 'manual' },
      undefined,
    ],
  ])('%s', (_what, kind, row, request) => {
    expect(writeFor({ kind, sent: null }, blankEntity('e', kind, { task_id: 't1', ...row }))).toEqual(request);
  });

  it('repeats a link with unknown outcome unchanged, but a record with its desired state', () => {
    const again = { action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' };
    expect(writeFor({ kind: 'link', sent: SENT }, blankEntity(LINK, 'link', { task_id: 't1' }))).toEqual(again);
    const record = blankEntity('e', 'pull_request', { desired: '{"a":2}' });
    expect(writeFor({ kind: 'pull_request', sent: SENT }, record)).toMatchObject({ body: { a: 2 } });
  });
});

test.each<[entity: string, sent: object | null, request: object]>([
  [entityName.readTasks, null, { action: 'read-tasks', body: {}, taskId: null }],
  [entityName.readTask('t1'), null, { action: 'read-task', body: {}, taskId: 't1' }],
  [entityName.readPullRequests, null, { action: 'read-pull-requests', body: {}, taskId: null }],
  [entityName.readPullRequests, { cursor: 'c' }, { action: 'read-pull-requests', body: { cursor: 'c' }, taskId: null }],
  [
    entityName.readRecords('github', '7', 'main'),
    null,
    { action: 'read-records', body: { provider: 'github', repoId: '7', headBranch: 'main' }, taskId: null },
  ],
  [entityName.readDocument('d1'), null, { action: 'read-document', body: { documentId: 'd1' }, taskId: null }],
  [entityName.readLinks('t1'), null, { action: 'read-links', body: {}, taskId: 't1' }],
])('the read %s, stored with %j, has its request', async (entity, sent, request) => {
  const { query } = await openTestStore();
  await waits(query, entity, { kind: 'read', sent: sent && JSON.stringify(sent) });
  expect(await prepareNext(query, ELIGIBLE)).toMatchObject({ ...request, known: null, open: false });
});
