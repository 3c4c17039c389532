import { describe, expect, it, test } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import type { DeliveryOrigin } from '../../../../src/model/delivery.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import { LARGE } from '../../../../src/platform/lib/concurrency.ts';
import type { ReconcileConnection } from '../../../../src/sync/reconcile/context.ts';
import {
  partsOf,
  type Translated,
  translateAll,
  weightOf,
} from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { translateEvent } from '../../../../src/sync/reconcile/workspace-events.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { answered, SOURCES, said, saidOf, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const items = (count: number) => Array.from({ length: count }, (_, at) => workItem({ key: `jira:cloud-1:${at}` }));
const page = (count: number) => said(TRACKER, { outcome: 'items', items: items(count), references: [] });

describe('a delivery with many items', () => {
  it.each<[count: number, parts: readonly number[]]>([
    [0, [0]],
    [3, [3]],
    [4, [3, 1]],
    [7, [3, 3, 1]],
  ])('of %j items is split into parts of at most three: %j', (count, expected) => {
    const parts = partsOf(page(count), 3);
    const contents = parts.flatMap(({ translation }) => (translation?.outcome === 'items' ? [translation.items] : []));
    expect(contents.map(({ length }) => length)).toEqual(expected);
    expect(contents.flat()).toEqual(items(count));
    const last = parts.map(({ part }) => part?.isLast);
    expect(last).toEqual(expected.length === 1 ? [undefined] : expected.map((_, at) => at === expected.length - 1));
    expect(new Set(parts.map(({ part }) => part?.whole)).size).toBe(1);
  });
});

it.each<[what: string, weight: number, translated: Translated]>([
  ['an item', 1, saidOf(pull())],
  ['a page', 3, page(3)],
  ['a list of the workspace', 4, answered('saw-tasks', { tasks: [1, 2, 3] })],
  ['an answer without a body', 1, answered('compare-records', null)],
])('%s has the weight %j', (_what, weight, translated) => {
  expect(weightOf(translated)).toBe(weight);
});

describe('a delivery', () => {
  const NONE: Translation = { outcome: 'ignored', reason: 'here' };
  const fail = (code: 'over_budget' | 'delivery_malformed' | 'internal', message: string) => () => {
    throw new SyncError(code, message);
  };
  const overBudget = fail('over_budget', 'much');
  const part = (content: string) => ({ content, body: Buffer.from(content) });

  interface Translators {
    readonly here?: () => Translation;
    /** Translates a body in the worker thread. */
    readonly worker?: (body: string) => Translation;
    /** The elements of the page. */
    readonly elements?: readonly string[];
    readonly isSuspected?: boolean;
  }

  async function read(fields: Partial<Translated['delivery']>, translators: Translators = {}) {
    const { here = () => NONE, worker, elements = [], isSuspected = false } = translators;
    const { query } = await openTestStore();
    const source: ReconcileConnection = {
      ...TRACKER,
      translate: here,
      worker: {
        translate: async ({ stored }) => worker?.(stored.body.toString()) ?? { outcome: 'ignored', reason: 'worker' },
        elements: async () => elements.map(part),
      },
    };
    const sources = new Map([...SOURCES, [TRACKER.name, source]]);
    const delivery = { ...said(TRACKER, NONE).delivery, ...fields };
    const [translated] = await translateAll([delivery], { query, sources, isSuspected: () => isSuspected });
    const { translation, failure, rejected } = translated as Translated;
    const outcome = translation?.outcome === 'ignored' ? translation.reason : translation?.outcome;
    return { outcome, code: failure?.code, rejected };
  }

  it.each<[what: string, where: string, bytes: number, isSuspected?: boolean]>([
    ['of a mebibyte', 'here', LARGE],
    ['of more', 'worker', LARGE + 1],
    ['that is small and suspected', 'worker', 1, true],
  ])('%s is translated: %s', async (_what, where, bytes, isSuspected) => {
    expect((await read({ bytes }, { isSuspected })).outcome).toBe(where);
  });

  it('of a removed connection fails', async () => {
    expect((await read({ connection: 'gone' })).code).toBe('connection_unknown');
  });

  const NO_ELEMENT = 'nothing of the page could be read';

  it.each<[what: string, source: DeliveryOrigin, elements: readonly string[], outcome?: string]>([
    ['is translated element by element if it is a page', 'poll', ['a', 'b'], NO_ELEMENT],
    ['is translated so if it is a page of a backfill', 'backfill', ['a', 'b'], NO_ELEMENT],
    ['fails if it is a page of one element', 'poll', ['a']],
    ['fails if it is a webhook', 'webhook', ['a', 'b']],
  ])('over its budget %s', async (_what, source, elements, outcome) => {
    const result = await read({ source, bytes: LARGE + 1 }, { worker: overBudget, elements });
    expect([result.outcome, result.code]).toEqual(outcome ? [outcome, undefined] : [undefined, 'over_budget']);
    expect(result.rejected?.map(({ content }) => content)).toEqual(outcome && elements);
  });

  const references = [TRACKER.reference(workItem())];

  it.each<[what: string, expected: object, other: () => Translation, ofB: () => Translation]>([
    ['keeps items', { outcome: 'items' }, () => ({ outcome: 'items', items: items(1) }), () => NONE],
    ['keeps references', { outcome: 'references' }, () => ({ outcome: 'references', references }), () => NONE],
    [
      'rejects a malformed element',
      { code: undefined, rejected: [{ reason: 'delivery_malformed: element 2 of 3: no' }] },
      () => NONE,
      fail('delivery_malformed', 'no'),
    ],
    ['fails by any other error', { code: 'internal' }, () => NONE, fail('internal', 'no')],
  ])('over its budget, translated element by element, %s', async (_what, expected, other, ofB) => {
    const bodies: string[] = [];
    const worker = (body: string) => (bodies.push(body) === 1 ? overBudget() : body === 'b' ? ofB() : other());
    const result = await read({ source: 'poll', bytes: LARGE + 1 }, { worker, elements: ['a', 'b', 'c'] });
    expect(result).toMatchObject(expected);
  });

  it('without a well-formed element fails as a whole', async () => {
    const here = fail('delivery_malformed', 'no');
    const result = await read({ source: 'poll' }, { here, worker: overBudget, elements: ['a', 'b'] });
    expect(result).toEqual({ outcome: undefined, code: 'delivery_malformed', rejected: undefined });
  });
});

describe('an event of the workspace', () => {
  const NOW = Date.parse('2026-01-05T09:00:00.000Z');

  const translated = (event: object) => translateEvent({ body: Buffer.from(JSON.stringify(event)), receivedAt: NOW });

  /** Returns the action and the content of an event, or the reason why it is ignored. */
  function contentOf(type: string, data: object): unknown {
    const event = translated({ type, data });
    return event.outcome === 'answer' ? [event.answer.action, event.answer.body] : event.reason;
  }

  const TASK = { taskId: 'tsk_1', key: 'BUG-1', title: 'A', status: 'planned' };
  const LINK = { taskId: 'tsk_1', workItemId: 'wi_1', url: 'https://example.com/1' };
  const RECORD = { provider: 'github', repoId: '1', identifier: '2' };
  const LINK_IDS = { taskId: 'tsk_1', workItemId: 'wi_1' };
  const byIds = (type: string) => ({ resource: { type, id: 'wi_1', taskId: 'tsk_1' } });
  const OF_TASK = { workItem: { workItemId: 'wi_1', url: LINK.url }, resource: { taskId: 'tsk_1' } };
  const MISSING = { documents: [{ documentId: 'doc_1', isMissing: true }] };
  const DOCUMENT = { documentId: 'doc_1', taskId: null, updatedAt: null };

  test.each<[what: string, type: string, data: object, action: string, content: object]>([
    ['a task', 'task.created', { task: TASK }, 'saw-task', TASK],
    ['a snake_case link', 'work_item.created', { work_item: LINK }, 'saw-link', LINK],
    ['a link whose task the resource names', 'work_item.created', OF_TASK, 'saw-link', LINK],
    ['a removed link by its ids only', 'work_item.deleted', byIds('workItem'), 'saw-link-removed', LINK_IDS],
    ['a camelCase record', 'pull_request.created', { pullRequest: RECORD }, 'saw-record', RECORD],
    ['a document', 'document.updated', { document: DOCUMENT }, 'saw-documents', { documents: [DOCUMENT] }],
    ['a deleted document', 'document.deleted', { resource: { documentId: 'doc_1' } }, 'saw-documents', MISSING],
  ])('understands %s', (_what, type, data, action, content) => {
    expect(contentOf(type, data)).toMatchObject([action, content]);
  });

  test.each<[what: string, type: string, data: object, content: object]>([
    ['a task id', 'task.updated', { resource: { type: 'task', id: 'tsk_1' } }, { taskIds: ['tsk_1'], isNew: false }],
    ['many tasks', 'task.updated', { resource: { taskIds: ['a', 'b', 'a', 'c/d', 7] } }, { taskIds: ['a', 'b'] }],
    ['tasks beside one', 'task.created', { task: TASK, resource: { taskIds: ['a'] } }, { taskIds: ['a', 'tsk_1'] }],
    ['a task without its status', 'task.updated', { task: { ...TASK, status: undefined } }, { taskIds: ['tsk_1'] }],
    ['a task that may be gone', 'task.deleted', { task: TASK }, { taskIds: ['tsk_1'], isNew: false }],
    ['a link by its ids', 'work_item.created', byIds('work_item'), { linkTaskIds: ['tsk_1'], workItemId: 'wi_1' }],
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
    ['task.updated', 'text', 'the event names no task'],
    ['pull_request.created', { pull_request: {} }, 'the event does not carry the pull request'],
    ['document.created', { document: [] }, 'the event names no document'],
    ['comment.created', { resource: { taskId: 'tsk_1' } }, 'unknown event type'],
    ['task', { task: TASK }, 'unknown event type'],
    ['__proto__.created', {}, 'unknown event type'],
  ])('ignores %s with %j because of %j', (type, data, reason) => {
    expect(contentOf(type, data as object)).toBe(reason);
  });
});
