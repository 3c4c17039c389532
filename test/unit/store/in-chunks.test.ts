import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import { CHUNK_SIZE, changeInChunks, changeKeysInChunks } from '../../../src/store/in-chunks.ts';
import { openTestStore } from '../../support/intake.ts';
import { turnsBetweenCommits } from '../../support/turns-of-others.ts';

test.each<[what: string, found: readonly number[], changed: number]>([
  ['finds none', [0], 0],
  ['finds some', [3], 3],
  ['finds as many as fit, and no more', [CHUNK_SIZE, 0], CHUNK_SIZE],
  ['finds more', [CHUNK_SIZE, CHUNK_SIZE, 1], 2 * CHUNK_SIZE + 1],
])('a change that %s is repeated until it finds fewer', async (_what, found, changed) => {
  const store = await openTestStore();
  const left = [...found];
  expect(await changeInChunks(store, async () => left.shift() as number)).toBe(changed);
  expect(left).toEqual([]);
});

test('rows that are named are changed once each, some at a time', async () => {
  const store = await openTestStore();
  const pieces: number[] = [];
  const names = Array.from({ length: CHUNK_SIZE + 1 }, (_, at) => at);
  const change = async (_query: unknown, some: readonly number[]) => {
    pieces.push(some.length);
    return some.length;
  };
  expect(await changeKeysInChunks(store, [...names, 0, 1], change)).toBe(CHUNK_SIZE + 1);
  expect(pieces).toEqual([CHUNK_SIZE, 1]);
});

test.each<[what: string, change: (store: Store) => Promise<number>]>([
  [
    'found',
    (store) => {
      const left = [CHUNK_SIZE, CHUNK_SIZE, 0];
      return changeInChunks(store, async () => left.shift() as number);
    },
  ],
  [
    'named',
    (store) =>
      changeKeysInChunks(
        store,
        Array.from({ length: 3 * CHUNK_SIZE }, (_, at) => at),
        async () => 1,
      ),
  ],
])('between two pieces of what is %s everybody else gets many turns', async (_what, change) => {
  const turns = await turnsBetweenCommits(async (store) => () => change(store));
  expect(turns).toHaveLength(2);
  expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
});
