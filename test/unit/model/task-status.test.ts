import { expect, test } from 'vitest';
import { OWN_STATUSES, ownStatus, serverStatus } from '../../../src/model/task-status.ts';

const WORDS = { in_progress: 'InProgress', completed: 'Done', merged: 'Done' };

test('translates each status to the word of the server and back', () => {
  expect(OWN_STATUSES.map((status) => serverStatus(WORDS, status))).toEqual([
    ...['open', 'planned', 'InProgress', 'review', 'blocked', 'Done', 'cancelled', 'Done', 'idea'],
  ]);
  expect(['InProgress', 'Done', 'open'].map((word) => ownStatus(WORDS, word))).toEqual([
    ...['in_progress', 'completed', 'open'],
  ]);
});

test('keeps words that stand for none of our statuses', () => {
  expect([ownStatus(WORDS, 'Waiting'), serverStatus(WORDS, 'Waiting')]).toEqual(['Waiting', 'Waiting']);
});
