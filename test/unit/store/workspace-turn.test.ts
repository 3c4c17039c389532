import { expect, it } from 'vitest';
import { readTurn, START, turnsOf, writeTurn } from '../../../src/store/workspace-turn.ts';
import { openTestStore } from '../../support/intake.ts';

it('the position of the turn through links and documents outlives the process', async () => {
  const { query } = await openTestStore();
  expect(await readTurn(query)).toBeUndefined();
  const turn = { startedAt: 5, endedAt: null, readAt: 7, read: 2, after: { ...START, name: 'tsk_2' } };
  await writeTurn(query, turn);
  expect(await readTurn(query)).toEqual(turn);
  const of = await turnsOf(query.whole, [query.workspace]);
  expect([of(query.workspace), of(query.workspace + 1)]).toEqual([turn, undefined]);
});
