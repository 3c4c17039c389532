import { expect, it } from 'vitest';
import type { WorkflowInput } from '../../../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { type BoardOptions, openBoard, time } from '../../../../support/harness/board.ts';
import {
  changed,
  closed,
  issue,
  merged,
  opened,
  person,
  polled,
  review,
  type Step,
  sent,
} from '../../../../support/harness/board-steps.ts';

// Complaints of users of similar products, and the status that a task gets here. The title of an item names the task.

const ISSUE_RULES: Partial<WorkflowInput> = {
  preset: 'standard',
  rules: [{ when: { workItem: ['completed'] }, set: { status: 'completed' } }],
};

type Case = [
  complaint: string,
  steps: readonly Step[],
  expected: Readonly<Record<string, string>>,
  options?: BoardOptions,
];

const CASES: readonly Case[] = [
  [
    '1: a reference in prose takes a finished task out of its end',
    [opened(1, 10, 'Other work', { description: 'Background: BUG-1' }), sent(100)],
    { 'BUG-1': 'completed' },
    { tasks: { 'BUG-1': 'completed' } },
  ],
  [
    '2: a title with the keys of siblings drags a finished one back',
    [opened(1, 10, 'BUG-1 and BUG-2'), sent(100)],
    { 'BUG-1': 'completed', 'BUG-2': 'review' },
    { tasks: { 'BUG-1': 'completed', 'BUG-2': 'open' } },
  ],
  [
    '3: a link to an older finished task moves it to review',
    [opened(1, 10, 'Follow-up', { description: 'see https://app.example.com/workspace/tasks/BUG-1' }), sent(100)],
    { 'BUG-1': 'completed' },
    { tasks: { 'BUG-1': 'completed' } },
  ],
  [
    '4: any mention in the description counts as done when the pull request is merged',
    [opened(1, 10, 'BUG-1 Pay', { description: 'Follow-up in BUG-2' }), merged(1, 20), sent(100)],
    { 'BUG-1': 'completed', 'BUG-2': 'open' },
    { tasks: { 'BUG-1': 'open', 'BUG-2': 'open' } },
  ],
  [
    '5: the closing word is forgotten when the last of several is merged',
    [opened(1, 10, 'Fixes BUG-1'), opened(2, 11, 'BUG-1 part'), merged(1, 20), sent(100), merged(2, 120), sent(200)],
    { 'BUG-1': 'completed' },
  ],
  [
    '6: the first of several merges finishes the task',
    [opened(1, 10, 'Fixes BUG-1'), opened(2, 11, 'Fixes BUG-1 too'), merged(1, 20), sent(100)],
    { 'BUG-1': 'review' },
  ],
  [
    '7: a plan of several pull requests toggles the task at each merge',
    [
      opened(1, 10, 'BUG-1 a'),
      merged(1, 20),
      sent(100),
      opened(2, 120, 'BUG-1 b'),
      sent(200),
      merged(2, 220),
      sent(300),
    ],
    { 'BUG-1': 'completed' },
  ],
  [
    '8: the tool lowers a status that a person set',
    [person(5, 'review'), opened(1, 10, 'BUG-1', { draft: true }), sent(100)],
    { 'BUG-1': 'review' },
  ],
  [
    '9: a draft is taken for a review',
    [opened(1, 10, 'BUG-1', { draft: true }), sent(100)],
    { 'BUG-1': 'in_progress' },
  ],
  [
    '10: requested changes do not show',
    [opened(1, 10, 'BUG-1'), sent(20), changed(1, 30, { reviews: review('r1', 30, 'changes') }), sent(100)],
    { 'BUG-1': 'in_progress' },
  ],
  [
    '11: helper pull requests of a merge queue count',
    [
      opened(1, 10, 'Fixes BUG-1'),
      opened(2, 11, 'Batch', { isBot: true, author: 'queue[bot]', description: 'Fixes BUG-1' }),
      closed(2, 20),
      merged(1, 30),
      sent(100),
    ],
    { 'BUG-1': 'completed' },
  ],
  [
    '12: a queue that pushes the commits itself finishes nothing',
    [
      opened(1, 10, 'Fixes BUG-1'),
      changed(1, 20, { state: 'closed', title: '[Merged by Bors] - Fixes BUG-1' }),
      sent(100),
    ],
    { 'BUG-1': 'completed' },
    { workflow: { landed: { title: String.raw`^\[Merged by Bors\]` as never } } },
  ],
  [
    '13: a merged pull request shows as declined',
    [opened(1, 10, 'Fixes BUG-1'), changed(1, 20, { state: 'closed', mergedAt: time(20) }), sent(100)],
    { 'BUG-1': 'completed' },
  ],
  [
    '14: a lost event leaves the task open: a later poll reports the merge',
    [opened(1, 10, 'Fixes BUG-1'), polled(1, 20, { state: 'merged', mergedAt: time(20) }), sent(100)],
    { 'BUG-1': 'completed' },
  ],
  [
    '15: release notes that a bot quotes move tasks',
    [
      opened(1, 10, 'Bump left-pad', { isBot: true, description: 'Fixes BUG-1', isPublic: true }),
      merged(1, 20),
      sent(100),
    ],
    { 'BUG-1': 'open' },
  ],
  [
    '16: of several tasks of a pull request only the first moves',
    [opened(1, 10, 'Fixes BUG-1, fixes BUG-2'), merged(1, 20), sent(100)],
    { 'BUG-1': 'completed', 'BUG-2': 'completed' },
    { tasks: { 'BUG-1': 'open', 'BUG-2': 'open' } },
  ],
  [
    '17: closing is the only end',
    [opened(1, 10, 'Fixes BUG-1'), merged(1, 20), sent(100)],
    { 'BUG-1': 'review' },
    {
      workflow: {
        preset: undefined,
        rules: [{ when: { pullRequest: ['merged'], task: ['bug'] }, set: { status: 'review' } }],
      },
    },
  ],
  [
    '18: a merge into another branch finishes the task',
    [opened(1, 10, 'Fixes BUG-1', { baseBranch: 'develop' }), sent(15), merged(1, 20), sent(100)],
    { 'BUG-1': 'review' },
  ],
  [
    '20: a negated closing word closes',
    [opened(1, 10, 'Work', { description: 'Does not close BUG-1. skip BUG-2' }), merged(1, 20), sent(100)],
    { 'BUG-1': 'open', 'BUG-2': 'open' },
    { tasks: { 'BUG-1': 'open', 'BUG-2': 'open' } },
  ],
  [
    '21: two automations fight for ever',
    [0, 1, 2, 3, 4].flatMap((round) => [
      changed(1, round * 100 + 10, { title: 'BUG-1', draft: round % 2 === 0, phaseChangedAt: time(round * 100 + 10) }),
      sent(round * 100 + 15),
      person(round * 100 + 20, 'planned'),
    ]),
    { 'BUG-1': 'planned' },
  ],
  [
    '22: one side closes, the other reopens: what is equal by category stays',
    [issue(10, { title: 'BUG-1 broken' }), issue(20, { state: 'done' }), sent(100)],
    { 'BUG-1': 'merged' },
    { tasks: { 'BUG-1': 'merged' }, workflow: { ...ISSUE_RULES } },
  ],
  [
    '24: dropped work counts as completed',
    [issue(10, { title: 'BUG-1 broken' }), issue(20, { state: 'done', isDropped: true }), sent(100)],
    { 'BUG-1': 'open' },
    { workflow: { ...ISSUE_RULES } },
  ],
  [
    '25: a regression does not reopen the task',
    [
      (board) => board.issue(1, 10, { title: 'Fixes BUG-1' }),
      issue(20, { state: 'done' }),
      sent(100),
      issue(200, { state: 'open', closedAt: null }),
      sent(300),
    ],
    { 'BUG-1': 'in_progress' },
    { workflow: { ...ISSUE_RULES } },
  ],
  [
    '26: a reverted pull request leaves its task finished',
    [
      opened(1, 10, 'Fixes BUG-1'),
      merged(1, 20),
      sent(100),
      opened(2, 120, 'Revert "Fixes BUG-1"', { reverts: '1' }),
      merged(2, 130),
      sent(200),
    ],
    { 'BUG-1': 'in_progress' },
  ],
  [
    '26b: the revert of a revert finishes it again',
    [
      opened(1, 10, 'Fixes BUG-1'),
      merged(1, 20),
      sent(100),
      opened(2, 120, 'Revert "Fixes BUG-1"', { reverts: '1' }),
      merged(2, 130),
      sent(200),
      opened(3, 220, 'Revert "Revert"', { reverts: '2' }),
      merged(3, 230),
      sent(300),
    ],
    { 'BUG-1': 'completed' },
  ],
  [
    '27: a pull request that is closed without a merge leaves the task in review',
    [person(5, 'planned'), opened(1, 10, 'BUG-1'), sent(20), closed(1, 30), sent(100)],
    { 'BUG-1': 'planned' },
  ],
  [
    '28: tasks that must only be linked are moved',
    [opened(1, 10, 'BUG-1'), sent(100)],
    { 'BUG-1': 'open' },
    {
      workflow: {
        preset: undefined,
        rules: [{ when: { pullRequest: ['open'], repository: ['acme/other'] }, set: { status: 'review' } }],
      },
    },
  ],
  [
    '30: members whose membership is hidden are shut out',
    [opened(1, 10, 'BUG-1', { isPublic: true, isFork: false }), sent(100)],
    { 'BUG-1': 'review' },
  ],
  [
    '31: an approval is dropped without an event',
    [
      opened(1, 10, 'BUG-1', { reviewDecision: { state: 'changes', at: time(12) } }),
      sent(20),
      changed(1, 30, { reviewDecision: { state: 'none' }, phaseChangedAt: time(30) }),
      sent(100),
    ],
    { 'BUG-1': 'review' },
  ],
  [
    '32: the title does not count',
    [opened(1, 10, 'Closes BUG-1', { description: '' }), merged(1, 20), sent(100)],
    { 'BUG-1': 'completed' },
  ],
];

it.each(CASES)('avoids complaint %s', async (_complaint, steps, expected, options) => {
  const board = await openBoard(options);
  for (const step of steps) await step(board);
  expect(Object.fromEntries(Object.keys(expected).map((key) => [key, board.status(key)]))).toEqual(expected);
});

it('avoids complaint 19: nothing moves, and no line says why', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'Fixes BUG-1', baseBranch: 'develop' });
  await board.pull(1, 20, { state: 'merged' });
  const { wanted } = await board.decide('BUG-1');
  expect(wanted).toMatchObject({
    outcome: 'merged-not-finished',
    item: {
      judgement: {
        why: 'base',
        detail: 'its base is develop, the default branch main; standard: merged wants default',
      },
    },
  });
});

it('avoids complaint 23: two issues of one task reopen each other', async () => {
  const board = await openBoard({ workflow: { ...ISSUE_RULES } });
  for (const number of [1, 2]) await board.issue(number, 10, { title: 'Fixes BUG-1' });
  for (const [at, number] of [20, 200, 400].entries()) {
    await board.issue(1, number, { state: 'done', labels: [`first-${at}`] });
    await board.issue(2, number + 10, { labels: [`second-${at}`] });
    await board.send(number + 100);
  }
  expect([board.status('BUG-1'), board.writes('BUG-1')]).toEqual(['completed', 1]);
});

it('avoids complaint 29: nobody sees what was synced', async () => {
  const board = await openBoard({ tasks: { 'BUG-1': 'open', 'BUG-2': 'open' } });
  await board.pull(1, 10, { title: 'BUG-1', description: 'See BUG-2' });
  await board.send(20);
  const [moved, named] = [await board.decide('BUG-1'), await board.decide('BUG-2')];
  expect(moved.items).toMatchObject([{ judgement: { counts: true, contribution: { status: 'review' } } }]);
  expect(moved.state).toMatchObject({ status: 'review', isOurs: true, previous: 'open' });
  expect(named.items).toMatchObject([{ judgement: { counts: false, why: 'mention-only' } }]);
});

it('counts a status that others change back soon once, however often the task is evaluated', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'BUG-1' });
  await board.send(20);
  await board.person('BUG-1', 30, 'planned');
  for (const at of [40, 50]) await board.pull(1, at, { labels: [`seen-${at}`] });
  expect(await board.contests()).toBe(1);
  await board.pull(1, 60, { draft: true, phaseChangedAt: time(60) });
  await board.send(70);
  await board.person('BUG-1', 300, 'planned');
  expect([board.writes('BUG-1'), await board.contests()]).toEqual([2, 1]);
});

it('follows reviews that a fetch reads, although the pull request has not changed since the poll', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'BUG-1' }, 'poll');
  await board.send(100);
  expect(board.status('BUG-1')).toBe('review');
  await board.pull(1, 10, { reviews: review('r1', 10, 'changes'), reviewsReadAt: Date.parse(time(10)) }, 'fetch');
  await board.send(200);
  expect(board.status('BUG-1')).toBe('in_progress');
});

it('keeps the status of merged work for which a rule asks for labels only', async () => {
  const rules: WorkflowInput['rules'] = [
    { when: { pullRequest: ['merged'], base: ['develop'], link: 'carrying' }, set: { addLabels: ['in-staging'] } },
  ];
  const board = await openBoard({ workflow: { preset: 'standard', rules } });
  await board.pull(1, 10, { title: 'BUG-1', baseBranch: 'develop' });
  await board.send(20);
  await board.pull(1, 30, { state: 'merged' });
  await board.send(200);
  expect([board.status('BUG-1'), board.labels('BUG-1')]).toEqual(['review', ['in-staging']]);
});

it('restores the earlier status after a release of a status that worksync had set', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'BUG-1' });
  await board.send(20);
  await board.release('BUG-1');
  await board.pull(1, 30, { state: 'closed' });
  await board.send(200);
  expect(board.status('BUG-1')).toBe('open');
});
