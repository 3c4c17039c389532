import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { TEXTS } from '../../../../../src/sync/reconcile/workflow/explain-task.ts';
import { type Board, openBoard, time } from '../../../../support/harness/board.ts';
import { START } from '../../../../support/rows/batches.ts';

/** The part of each item in the status, and why the task stays as it is. */
async function explained(board: Board, key = 'BUG-1') {
  const { status, setBy, previous, wanted, reason, isHeld, items } = await board.explain(key);
  const parts = Object.fromEntries(
    items.map(({ name, reason: { code, detail } }) => [name, detail ? `${code}: ${detail}` : code]),
  );
  const by = [setBy.who, setBy.rule].filter(Boolean).join(', ');
  return { status, by, previous, wanted: wanted?.status ?? null, why: reason?.code ?? null, isHeld, parts };
}

it('names who set a status, the rule, and the item that delays the end', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'Fixes BUG-1' });
  await board.pull(2, 11, { title: 'BUG-1 more' });
  await board.pull(3, 12, { title: 'Other', description: 'see BUG-1' });
  await board.send(100);
  await board.pull(1, 120, { state: 'merged' });
  await board.pull(4, 130, { title: 'BUG-1 again' });
  expect(await explained(board)).toEqual({
    ...{ status: 'review', by: 'worksync, standard: open', previous: 'open' },
    ...{ wanted: 'review', why: 'same', isHeld: false },
    parts: {
      'acme/app#1': 'waits-for: acme/app#2',
      'acme/app#2': 'delays',
      'acme/app#3': 'mention-only',
      'acme/app#4': 'follow-up: acme/app#1',
    },
  });
});

it('counts tasks with merged work by the reason why they are not finished', async () => {
  const board = await openBoard({ tasks: { 'BUG-1': 'open', 'BUG-2': 'open', 'BUG-3': 'open', 'BUG-4': 'open' } });
  await board.pull(1, 10, { title: 'Work', description: 'Part of BUG-1', headBranch: 'BUG-1-and-BUG-2' });
  await board.pull(1, 20, { state: 'merged' });
  await board.pull(2, 30, { title: 'Fixes BUG-3', baseBranch: 'develop', state: 'merged' });
  await board.pull(3, 40, { title: 'Other', description: 'see BUG-4', state: 'merged' });
  expect(await board.unfinished()).toEqual({ 'not-closing': 2, base: 1 });
  expect((await explained(board, 'BUG-3')).parts).toEqual({
    'acme/app#2': 'base: its base is develop, the default branch main; standard: merged wants default',
  });
  await board.person('BUG-1', 50, 'completed');
  expect(await board.unfinished()).toEqual({ 'not-closing': 1, base: 1 });
});

it('follows the rules again after a person releases the status that a person set', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'BUG-1' });
  await board.person('BUG-1', 20, 'in_progress');
  await board.send(100);
  expect(await explained(board)).toMatchObject({
    status: 'in_progress',
    by: 'person',
    why: 'held-by-person',
    isHeld: true,
  });
  await board.release('BUG-1');
  await board.send(200);
  expect(await explained(board)).toMatchObject({ status: 'review', by: 'worksync, standard: open', isHeld: false });
  await board.person('BUG-1', 300, 'planned');
  await board.send(400);
  expect(board.status('BUG-1')).toBe('planned');
});

it('has all codes explained in config/workflow.md', () => {
  const page = readFileSync(new URL('../../../../../config/workflow.md', import.meta.url), 'utf8');
  expect(Object.keys(TEXTS).filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
});

it('shows the earliest time of a final status, and the labels that the rules want', async () => {
  const set = { status: 'completed' as const, addLabels: ['shipped'] };
  const board = await openBoard({ workflow: { rules: [{ when: { pullRequest: ['merged'] }, set }] } });
  await board.pull(1, 10, { title: 'Fixes BUG-1' });
  await board.pull(1, 20, { state: 'merged' });
  const { wanted, labels, change } = await board.explain('BUG-1');
  expect([wanted?.status, labels.add]).toEqual(['completed', ['shipped']]);
  expect(change?.notBefore).toBeGreaterThanOrEqual(START + 80_000);
});

it('keeps the earliest time of a final status whose cause is in the future', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'Fixes BUG-1' });
  await board.pull(1, 20, { state: 'merged', mergedAt: time(3_600) });
  const earliest = async () => (await board.explain('BUG-1')).change?.notBefore;
  expect(await earliest()).toBe(START + 80_000);
  await board.pull(1, 50, { labels: ['later'] });
  expect(await earliest()).toBe(START + 80_000);
});
