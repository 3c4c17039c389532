import { expect, it } from 'vitest';
import { formatStatus, parseStatus, statusOf } from '../../../src/model/notice.ts';

const SHA = 'a1b2c3d4'.repeat(5);

it.each([
  [['BUG-12'], false, 'success', 'linked to BUG-12'],
  [['BUG-12', 'IDEA-3'], true, 'success', 'linked to BUG-12, IDEA-3'],
  [[], false, 'success', 'linked to no task'],
  [[], true, 'failure', 'linked to no task: put the key of one into title, description or branch'],
] as const)('is stored and restored for %j, required: %s', (tasks, isRequired, state, text) => {
  const status = statusOf(SHA, tasks, isRequired);
  expect(status).toEqual({ sha: SHA, state, text });
  expect(parseStatus(formatStatus(status!))).toEqual(status);
});

it('has at most 140 characters, however many tasks there are', () => {
  const tasks = Array.from({ length: 50 }, (_, number) => `BUG-${number}`);
  expect(statusOf(SHA, tasks, true)?.text).toBe('linked to 50 tasks, BUG-0 among them');
});

it.each([undefined, '', 'main', '../../x', `${SHA}\n`, 'abc'])('there is no status for the head %j', (head) => {
  expect(statusOf(head, ['BUG-12'], true)).toBeUndefined();
});

it.each([null, '', 'closed', 'Linked to BUG-1.'])('%j is not a stored status', (line) => {
  expect(parseStatus(line)).toBeUndefined();
});
