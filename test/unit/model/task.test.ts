import { expect, it } from 'vitest';
import { taskName, withKey } from '../../../src/model/task.ts';

it.each([
  [{ taskId: 'tsk_1', key: 'BUG-1', title: 'Door' }, 'BUG-1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'Door' }, '"Door" (tsk_1)'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: '' }, 'tsk_1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'x'.repeat(99) }, `"${'x'.repeat(59)}…" (tsk_1)`],
])('names %j for people as %s', (task, name) => {
  expect(taskName(task)).toBe(name);
});

it.each([[undefined], [null], [''], [5]])('gives a task with the key %j its id as key', (key) => {
  expect(withKey({ taskId: 'tsk_1', key })).toEqual({ taskId: 'tsk_1', key: 'tsk_1' });
});

it('keeps a key, and what is no task', () => {
  expect(withKey({ taskId: 'tsk_1', key: 'BUG-1' })).toEqual({ taskId: 'tsk_1', key: 'BUG-1' });
  expect(withKey('tsk_1')).toBe('tsk_1');
});
