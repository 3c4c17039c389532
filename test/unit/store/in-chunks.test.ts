import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import { AT_ONCE, changeInChunks, changeNamed } from '../../../src/store/in-chunks.ts';
import { openTestStore } from '../../support/intake.ts';
import { turnsBetweenCommits } from '../../support/turns-of-others.ts';

test.each<[what: string, found: readonly number[], changed: number]>([
  ['finds none', [0], 0],
  ['finds some', [3], 3],
  ['finds as many as fit, and no more', [AT_ONCE, 0], AT_ONCE],
  ['finds more', [AT_ONCE, AT_ONCE, 1], 2 * AT_ONCE + 1],
])('a change that %s is repeated until it finds fewer', async (_what, found, changed) => {
  const store = await openTestStore();
  const left = [...found];
  expect(await changeInChunks(store, async () => left.shift() as number)).toBe(changed);
  expect(left).toEqual([]);
});

test('rows that are named are changed once each, some at a time', async () => {
  const store = await openTestStore();
  const pieces: number[] = [];
  const names = Array.from({ length: AT_ONCE + 1 }, (_, at) => at);
  const change = async (_query: unknown, some: readonly number[]) => {
    pieces.push(some.length);
    return some.length;
  };
  expect(await changeNamed(store, [...names, 0, 1], change)).toBe(AT_ONCE + 1);
  expect(pieces).toEqual([AT_ONCE, 1]);
});

test.each<[what: string, change: (store: Store) => Promise<number>]>([
  [
    'found',
    (store) => {
      const left = [AT_ONCE, AT_ONCE, 0];
      return changeInChunks(store, async () => left.shift() as number);
    },
  ],
  [
    'named',
    (store) =>
      changeNamed(
        store,
        Array.from({ length: 3 * AT_ONCE }, (_, at) => at),
        async () => 1,
      ),
  ],
])('between two pieces of what is %s everybody else gets many turns', async (_what, change) => {
  const turns = await turnsBetweenCommits(async (store) => () => change(store));
  expect(turns).toHaveLength(2);
  expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
});
