import { describe, expect, it, test } from 'vitest';
import { entity as entityName } from '../../../../src/model/change.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import { blankEntity, type EntityRow, findEntity } from '../../../../src/store/entities.ts';
import { findChange, type OutboxRow } from '../../../../src/store/outbox-rows.ts';
import { configureLinks } from '../../../../src/store/server-capabilities.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { writeFor } from '../../../../src/sync/outbox/request.ts';
import { CAME, DUE, differs, waits } from '../../../support/changes.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';

const NOW = 1_000;
const ELIGIBLE = { now: NOW, onlyReads: false };
const ITEM = 'jira:cloud:issue:1';
const LINK = `link:${ITEM}>t1`;
const TASK = `task:${ITEM}`;

const MADE = { taskId: 't1', key: 'T-1', title: 'a', status: 'open', source: ITEM, updatedAt: '' };

const linkRow = (row: Partial<EntityRow> = {}) =>
  blankEntity(LINK, 'link', { item_key: ITEM, task_id: 't1', desired: '{"url":"u"}', ...row });

describe('what a write would send', () => {
  const SENT = JSON.stringify({ action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' });
  const none = { desired: null };
  const documentAt = (taskId: string | null) => JSON.stringify({ taskId, isMissing: false });

  it.each<[what: string, kind: OutboxRow['kind'], held: Partial<EntityRow>, request: object | undefined]>([
    [
      'a record as it should be',
      'pull_request',
      { desired: '{"a":1}' },
      { action: 'record-pull-request', body: { a: 1 }, known: '{"a":1}', taskId: null },
    ],
    ['no record of which there is no opinion', 'pull_request', none, undefined],
    [
      'a task that the workspace does not have',
      'task',
      { desired: '{"a":1}' },
      { action: 'create-task', body: { a: 1 }, known: '{"a":1}', taskId: null },
    ],
    ['no task that it has', 'task', { desired: '{"a":1}', known: '{}' }, undefined],
    ['no task that is not wanted', 'task', none, undefined],
    [
      'a document of no task',
      'document',
      { desired: '{"a":1}', known: documentAt(null) },
      { action: 'attach-document', body: { a: 1 }, known: documentAt('t1'), taskId: 't1' },
    ],
    ['no document of another task', 'document', { desired: '{}', known: documentAt('t2') }, undefined],
    ['no document of which nothing is known', 'document', { desired: '{}' }, undefined],
    ['no document that is not wanted', 'document', { ...none, known: documentAt(null) }, undefined],
    [
      'no document that a person took away',
      'document',
      { desired: '{}', known: documentAt(null), hand: 'removed' },
      undefined,
    ],
    [
      'a new link, without our reason for it',
      'link',
      { desired: '{"url":"u","reason":"named"}' },
      { action: 'add-link', body: { url: 'u' }, known: '{"url":"u"}', taskId: 't1' },
    ],
    ['no link that is there', 'link', { desired: '{"url":"u"}', known: '{"url":"u"}' }, undefined],
    ['no link that a person took away', 'link', { desired: '{"url":"u"}', hand: 'removed' }, undefined],
    [
      'the removal of a link of ours',
      'link',
      { ...none, known: '{"url":"u"}', remote_id: 'w1' },
      { action: 'remove-link', body: { workItemId: 'w1' }, known: null, taskId: 't1' },
    ],
    ['no removal of one that is not there', 'link', { ...none, remote_id: 'w1' }, undefined],
    ['no removal of one whose id nobody knows', 'link', { ...none, known: '{"url":"u"}' }, undefined],
    [
      'no removal of one that a person made',
      'link',
      { ...none, known: '{"url":"u"}', remote_id: 'w1', hand: 'manual' },
      undefined,
    ],
  ])('%s', (_what, kind, held, request) => {
    expect(writeFor({ kind, sent: null }, blankEntity('e', kind, { task_id: 't1', ...held }))).toEqual(request);
  });

  it('of a link whose fate is unknown is the same again, whatever is wanted by now; of a record what is wanted by now', () => {
    const again = { action: 'add-link', body: { url: 'as sent' }, known: '{"url":"k"}', taskId: 't9' };
    expect(writeFor({ kind: 'link', sent: SENT }, linkRow({ desired: null }))).toEqual(again);
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
])('the read %s, kept with %j, asks for that', async (entity, sent, request) => {
  const { query } = await openTestStore();
  await waits(query, entity, { kind: 'read', sent: sent && JSON.stringify(sent) });
  // A read that is sent again may have been carried out: that harms nothing.
  expect(await prepareNext(query, ELIGIBLE)).toMatchObject({ ...request, known: null, open: false });
});

/** Of a workspace whose server never doubles a link. */
async function openedStore() {
  const store = await openTestStore();
  await configureLinks(store.query, true);
  return store;
}

describe('taking the next change', () => {
  it('stores the request with its change as it is in flight, with what led to it', async () => {
    const { query } = await openedStore();
    const waiting = JSON.stringify([7, 8].map((id) => ({ id, at: 50 })));
    await differs(query, linkRow(), { waiting, attempts: 2 });
    const prepared = await prepareNext(query, ELIGIBLE, undefined, { askedAt: 300, slotAt: 400 });
    expect(prepared).toEqual({
      ...{ action: 'add-link', entity: LINK, kind: 'link', lane: 'link', body: { url: 'u' }, known: '{"url":"u"}' },
      ...{ taskId: 't1', waiting: 2, attempts: 2, open: false, sentAt: NOW, revision: 1 },
      trace: { itemKey: ITEM, since: CAME, due: DUE, deliveries: [7, 8], askedAt: 300, slotAt: 400 },
    });
    const row = await findChange(query, LINK);
    expect([row?.state, row?.sent_at, JSON.parse(row?.sent ?? '')]).toEqual(['sending', NOW, prepared]);
    expect(await prepareNext(query, ELIGIBLE)).toBeUndefined();
  });

  it('remembers that an earlier request of it may have been carried out', async () => {
    const { query } = await openedStore();
    await differs(query, linkRow());
    const first = await prepareNext(query, ELIGIBLE);
    await query.updateTable('outbox').set({ state: 'pending' }).execute();
    expect(await prepareNext(query, ELIGIBLE)).toEqual({ ...first, open: true, revision: 2 });
  });

  it('takes the one that was chosen, though another is more urgent, and not where it does not wait any more', async () => {
    const { query } = await openedStore();
    await differs(query, linkRow(), { due: DUE + 1 });
    await waits(query, entityName.readTasks, { kind: 'read' });
    expect(await prepareNext(query, ELIGIBLE, LINK)).toMatchObject({ entity: LINK });
    expect(await prepareNext(query, ELIGIBLE, LINK)).toMatchObject({ entity: entityName.readTasks });
    await waits(query, entityName.readLinks('t1'), { kind: 'read' });
    expect(await prepareNext(query, ELIGIBLE, 'link:gone')).toMatchObject({ taskId: 't1' });
  });

  it.each<[what: string, row: EntityRow | undefined, stays: boolean]>([
    ['link that is neither wanted nor there', linkRow({ desired: null }), false],
    ['task that is neither', blankEntity('task:2', 'task'), false],
    ['record that is neither', blankEntity('pull_request:2', 'pull_request'), true],
    ['link that is there', linkRow({ known: '{}' }), true],
    ['link that is there, and a person wants', linkRow({ known: '{}', desired: null, hand: 'manual' }), true],
    ['link that a person took away', linkRow({ hand: 'removed' }), true],
    ['change of nothing', undefined, false],
  ])('a %s: its change goes in passing, its row only where it says nothing', async (_what, row, stays) => {
    const { query } = await openedStore();
    const entity = row?.entity ?? LINK;
    if (row) await differs(query, row);
    else await waits(query, LINK, { kind: 'link' });
    await waits(query, entityName.readTasks, { kind: 'read', due: DUE + 1 });
    // Also where it was chosen a moment ago.
    expect(await prepareNext(query, ELIGIBLE, entity)).toMatchObject({ action: 'read-tasks' });
    expect(await findChange(query, entity)).toBeUndefined();
    expect((await findEntity(query, entity)) !== undefined).toBe(stays);
  });

  it('makes no task that the workspace has already, whoever created it, and knows it from then on', async () => {
    const { query } = await openedStore();
    await saveTask(query, MADE, 1);
    await differs(query, blankEntity(TASK, 'task', { item_key: ITEM, desired: '{"title":"a"}' }));
    expect(await prepareNext(query, ELIGIBLE)).toBeUndefined();
    expect(await findChange(query, TASK)).toBeUndefined();
    expect(await findEntity(query, TASK)).toMatchObject({ known: '{"title":"a"}', remote_id: 't1' });
  });
});

test('whichever statement fails, nothing is taken, and whoever takes it is told', async () => {
  expect(
    await wrongWhereStatementsFail(async (store) => {
      await saveTask(store.query, MADE, 1);
      await differs(store.query, blankEntity(TASK, 'task', { item_key: ITEM, desired: '{}' }));
      await differs(store.query, blankEntity('link:2', 'link'), { due: DUE + 1 });
      await differs(store.query, linkRow(), { due: DUE + 2 });
      return () => store.commit((query) => prepareNext(query, ELIGIBLE));
    }),
  ).toEqual([]);
});
