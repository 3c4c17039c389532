import { describe, expect, it } from 'vitest';
import { ROUTES } from '../../../src/workspace-api/contract.ts';
import { unwrap } from '../../../src/workspace-api/envelope.ts';

const TASKS = [{ taskId: 't1' }];

describe('a list', () => {
  it.each<[what: string, content: unknown]>([
    ['as a bare array', TASKS],
    ['under its name', { tasks: TASKS }],
    ['under items', { items: TASKS }],
    ['under data', { data: TASKS }],
    ['under results', { results: TASKS, total: 1 }],
  ])('%s is read, and does not say whether it is the last page', (_what, content) => {
    expect(unwrap(ROUTES.listTasks, content)).toMatchObject({ tasks: TASKS, isLast: null });
  });

  it.each<[content: object, page: object]>([
    [{ nextCursor: null }, { nextCursor: null, isLast: true }],
    [{ next: '' }, { nextCursor: null, isLast: true }],
    [{ hasMore: false }, { nextCursor: null, isLast: true }],
    [{ has_more: true }, { isLast: false }],
    [{ nextCursor: 'abc' }, { nextCursor: 'abc', isLast: false }],
    [{ next_cursor: 7 }, { nextCursor: '7', isLast: false }],
    [
      { nextCursor: null, next: 'https://api.example/tasks?cursor=a%20b' },
      { nextCursor: 'a b', isLast: false },
    ],
    [{ next: '/tasks?limit=5&cursor=c' }, { nextCursor: 'c', isLast: false }],
    [{ next: 'https://api.example/tasks?page=2' }, { isLast: false }],
    [{ next: { page: 2 } }, { isLast: false }],
  ])('with %j goes on as %j', (content, page) => {
    const { tasks, nextCursor, isLast } = unwrap(ROUTES.listTasks, { tasks: TASKS, ...content }) as typeof page & {
      tasks: unknown;
      nextCursor?: unknown;
      isLast?: unknown;
    };
    expect({ tasks, nextCursor, isLast }).toEqual({ tasks: TASKS, nextCursor: undefined, ...page });
  });

  it('that is none is returned as it is', () => {
    for (const content of [null, 'text', 5, { tasks: 'none' }, {}])
      expect(unwrap(ROUTES.listTasks, content)).toBe(content);
  });
});

describe('a single resource', () => {
  it.each<[what: string, content: unknown, expected: unknown]>([
    ['bare', { taskId: 't1' }, { taskId: 't1' }],
    ['under its name', { task: { taskId: 't1' } }, { taskId: 't1' }],
    ['bare, with a field of that name', { taskId: 't1', task: { a: 1 } }, { taskId: 't1', task: { a: 1 } }],
    ['that is none', [1], [1]],
  ])('%s', (_what, content, expected) => {
    expect(unwrap(ROUTES.getTask, content)).toEqual(expected);
  });

  it('under its name is read for each route that returns one', () => {
    expect(unwrap(ROUTES.addWorkItem, { workItem: { workItemId: 'w1' } })).toEqual({ workItemId: 'w1' });
    expect(unwrap(ROUTES.recordPullRequest, { pullRequest: { identifier: '7' } })).toEqual({ identifier: '7' });
  });
});
