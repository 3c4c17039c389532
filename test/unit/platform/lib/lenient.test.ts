import { expect, it, test } from 'vitest';
import { identifiedOnly, idText, namesIn, timeText } from '../../../../src/platform/lib/lenient.ts';

it.each([
  ['tsk_1', 'tsk_1'],
  [12, '12'],
  ['', undefined],
  [1.5, undefined],
  [null, undefined],
  [{ id: 'x' }, undefined],
])('reads %j as the id %j', (value, id) => {
  expect(idText(value)).toBe(id);
});

it.each([
  ['2026-01-05T09:00:00Z', '2026-01-05T09:00:00Z'],
  [1_767_603_600, '2026-01-05T09:00:00.000Z'],
  [1_767_603_600_000, '2026-01-05T09:00:00.000Z'],
  [Number.MAX_VALUE, null],
  [true, null],
  [undefined, null],
])('reads %j as the time %j', (value, time) => {
  expect(timeText(value)).toBe(time);
});

it('reads names of labels that are objects, and drops elements without one', () => {
  const labels = ['a', { name: 'b' }, { title: 'c' }, { label: 'd', name: 5 }, { id: 7 }, 8, null];
  expect(namesIn(labels)).toEqual(['a', 'b', 'c', 'd']);
  expect(namesIn('a')).toEqual([]);
});

test('a list loses elements without an id, and counts them over several readings', () => {
  const list = { tasks: [{ taskId: 'a' }, { taskId: null }, 7, { taskId: 3 }], more: 1 };
  const once = identifiedOnly(list, 'tasks', ['taskId']);
  expect(once).toEqual({ tasks: [{ taskId: 'a' }, { taskId: 3 }], more: 1, unreadable: 2 });
  expect(identifiedOnly(once, 'tasks', ['taskId'])).toBe(once);
  expect(identifiedOnly({ ...(once as object), tasks: [{}] }, 'tasks', ['taskId'])).toMatchObject({ unreadable: 3 });
  expect(identifiedOnly({ tasks: 'none' }, 'tasks', ['taskId'])).toEqual({ tasks: 'none' });
});
