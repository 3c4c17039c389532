import { expect, test } from 'vitest';
import { translateEvent } from '../../../../src/sync/reconcile/workspace-events.ts';

const NOW = Date.parse('2026-01-05T09:00:00.000Z');
const DAY = 24 * 60 * 60_000;

const translated = (event: object) => translateEvent({ body: Buffer.from(JSON.stringify(event)), receivedAt: NOW });

/** Returns the action and the content of an event, or the reason why it is ignored. */
function contentOf(type: string, data: object): unknown {
  const event = translated({ type, data });
  return event.outcome === 'answer' ? [event.answer.action, event.answer.body] : event.reason;
}

const TASK = { taskId: 'tsk_1', key: 'BUG-1', title: 'A', status: 'planned' };
const LINK = { taskId: 'tsk_1', workItemId: 'wi_1', url: 'https://example.com/1' };
const RECORD = { provider: 'github', repoId: '1', identifier: '2' };
const DOCUMENT = { documentId: 'doc_1', taskId: null, updatedAt: null };

test.each<[what: string, type: string, data: object, action: string, content: object]>([
  ['a task', 'task.created', { task: TASK }, 'saw-task', TASK],
  ['a nested task', 'task.updated', { task: { task: TASK } }, 'saw-task', TASK],
  ['a camelCase link', 'workItem.created', { workItem: LINK }, 'saw-link', LINK],
  ['a snake_case link', 'work_item.created', { work_item: LINK }, 'saw-link', LINK],
  ['a nested link', 'work_item.created', { workItem: { workItem: LINK } }, 'saw-link', LINK],
  [
    'a link whose task the resource names',
    'work_item.created',
    { workItem: { workItemId: 'wi_1', url: LINK.url }, resource: { taskId: 'tsk_1' } },
    'saw-link',
    LINK,
  ],
  [
    'a removed link',
    'work_item.deleted',
    { work_item: LINK },
    'saw-link-removed',
    { taskId: 'tsk_1', workItemId: 'wi_1' },
  ],
  [
    'a removed link by its ids only',
    'work_item.deleted',
    { resource: { type: 'workItem', id: 'wi_1', taskId: 'tsk_1' } },
    'saw-link-removed',
    { taskId: 'tsk_1', workItemId: 'wi_1' },
  ],
  ['a camelCase record', 'pull_request.created', { pullRequest: RECORD }, 'saw-record', RECORD],
  ['a document', 'document.updated', { document: DOCUMENT }, 'saw-documents', { documents: [{ documentId: 'doc_1' }] }],
  [
    'a deleted document by its id only',
    'document.deleted',
    { resource: { documentId: 'doc_1' } },
    'saw-documents',
    { documents: [{ documentId: 'doc_1', isMissing: true }] },
  ],
])('understands %s', (_what, type, data, action, content) => {
  expect(contentOf(type, data)).toMatchObject([action, content]);
});

test.each<[what: string, type: string, data: object, content: object]>([
  ['a task id', 'task.updated', { resource: { type: 'task', id: 'tsk_1' } }, { taskIds: ['tsk_1'], isNew: false }],
  ['many tasks', 'task.updated', { resource: { taskIds: ['a', 'b', 'a', 'c/d', 7] } }, { taskIds: ['a', 'b'] }],
  ['many tasks beside one', 'task.created', { task: TASK, resource: { taskIds: ['a'] } }, { taskIds: ['a', 'tsk_1'] }],
  ['a task without its title', 'task.created', { task: { taskId: 'tsk_1' } }, { taskIds: ['tsk_1'], isNew: true }],
  ['a task without its status', 'task.updated', { task: { ...TASK, status: undefined } }, { taskIds: ['tsk_1'] }],
  ['a task that may be gone', 'task.deleted', { task: TASK }, { taskIds: ['tsk_1'], isNew: false }],
  [
    'a link without its address',
    'work_item.created',
    { resource: { type: 'work_item', id: 'wi_1', taskId: 'tsk_1' } },
    { linkTaskIds: ['tsk_1'], workItemId: 'wi_1' },
  ],
  ['a removed link without its id', 'work_item.deleted', { resource: { taskId: 't' } }, { linkTaskIds: ['t'] }],
  ['a document without its task', 'document.updated', { document: { documentId: 'd' } }, { documentIds: ['d'] }],
])('reads %s', (_what, type, data, content) => {
  expect(contentOf(type, data)).toMatchObject(['named', content]);
});

test('reads at most 100 ids of one event', () => {
  const taskIds = Array.from({ length: 50_000 }, (_, index) => `t${index}`);
  expect(contentOf('task.updated', { resource: { taskIds } })).toMatchObject([
    'named',
    { taskIds: taskIds.slice(0, 100) },
  ]);
});

test.each<[type: string, data: unknown, reason: string]>([
  ['task.updated', {}, 'the event names no task'],
  ['task.updated', { resource: { type: 'comment', id: 'c' } }, 'the event names no task'],
  ['task.updated', 'text', 'the event names no task'],
  ['work_item.created', {}, 'the event does not name the task of the link'],
  ['pull_request.created', { pull_request: {} }, 'the event does not carry the pull request'],
  ['document.created', { document: [] }, 'the event names no document'],
  ['comment.created', { resource: { taskId: 'tsk_1' } }, 'unknown event type'],
  ['task', { task: TASK }, 'unknown event type'],
  ['__proto__.created', {}, 'unknown event type'],
])('ignores %s with %j because of %j', (type, data, reason) => {
  expect(contentOf(type, data as object)).toBe(reason);
});

test.each<[what: string, time: unknown, isIgnored: boolean]>([
  ['24 hours old', new Date(NOW - DAY).toISOString(), false],
  ['older', new Date(NOW - DAY - 1).toISOString(), true],
  ['far in the future', '2036-01-05T09:00:00.000Z', false],
  ['unreadable', 'yesterday', false],
  ['not a text', 7, false],
  ['absent', undefined, false],
])('a time that is %s: ignored is %s', (_what, time, isIgnored) => {
  const event = translated({ type: 'task.created', time, data: { task: TASK } });
  expect(event.outcome === 'ignored' && event.reason).toBe(isIgnored && 'the event is older than 24 hours');
});
