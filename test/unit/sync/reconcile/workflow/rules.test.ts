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
  review,
  type Step,
  sent,
} from '../../../../support/harness/board-steps.ts';

// The rules of `config/workflow.md`, as facts and the status or the labels that a task then has. Seconds after the start.

type Case = [claim: string, steps: readonly Step[], expected: string | readonly string[], options?: BoardOptions];

const PUBLIC = { isPublic: true };
const STRANGER = { isPublic: true, isFork: true, author: 'eve' };
const MEMBER = { isPublic: true, isFork: false, author: 'ann' };

const LABELS: Partial<WorkflowInput> = {
  preset: undefined,
  rules: [
    { when: { pullRequest: ['open'] }, set: { addLabels: ['wip'] } },
    { when: { pullRequest: ['merged'], link: 'carrying' }, set: { addLabels: ['staging'], removeLabels: ['wip'] } },
  ],
};
const labelled: BoardOptions = { workflow: LABELS };
const label =
  (at: number, labels: readonly string[]): Step =>
  (board) =>
    board.label('BUG-1', at, labels);
const configure =
  (at: number, workflow: Partial<WorkflowInput> | undefined): Step =>
  (board) =>
    board.configure(at, workflow && { since: undefined, ...workflow });
const restored =
  (at: number): Step =>
  (board) =>
    board.restore(at);
const revert = (number: number, at: number, of: number, fields = {}): Step =>
  opened(number, at, `Revert "Fixes BUG-1"`, { reverts: `${of}`, ...fields });

const CASES: readonly Case[] = [
  // Labels
  ['a rule adds its label', [opened(1, 10, 'BUG-1'), sent(20)], ['wip'], labelled],
  [
    'the next rule adds and removes labels',
    [opened(1, 10, 'BUG-1'), sent(20), merged(1, 30), sent(100)],
    ['staging'],
    labelled,
  ],
  [
    'a label that no rule names stays',
    [label(5, ['own']), opened(1, 10, 'BUG-1'), sent(20), merged(1, 30), sent(100)],
    ['own', 'staging'],
    labelled,
  ],
  [
    'a label that a person takes away stays away',
    [opened(1, 10, 'BUG-1'), sent(20), label(30, []), changed(1, 40, { title: 'BUG-1 again' }), sent(100)],
    [],
    labelled,
  ],
  [
    'a label is set again when its condition becomes true again',
    [
      ...[opened(1, 10, 'BUG-1'), sent(20), label(30, []), closed(1, 40), sent(50)],
      ...[changed(1, 60, { state: 'open', closedAt: null }), sent(100)],
    ],
    ['wip'],
    labelled,
  ],
  [
    'a label that one item adds is not removed because of another',
    [opened(1, 10, 'BUG-1 a'), opened(2, 11, 'BUG-1 b'), sent(20), merged(1, 30), sent(100)],
    ['wip', 'staging'],
    labelled,
  ],

  // Strangers
  ['a stranger moves nothing by opening', [opened(1, 10, 'Fixes BUG-1', STRANGER), sent(100)], 'open'],
  ['a member moves by opening', [opened(1, 10, 'Fixes BUG-1', MEMBER), sent(100)], 'review'],
  [
    'the merge of a stranger’s work counts',
    [opened(1, 10, 'Fixes BUG-1', STRANGER), merged(1, 20), sent(100)],
    'completed',
  ],
  [
    'a name that a stranger adds after the merge does not count',
    [opened(1, 10, 'A change', STRANGER), merged(1, 20), changed(1, 30, { title: 'Fixes BUG-1' }), sent(200)],
    'open',
  ],
  [
    'a name that a member adds after the merge counts',
    [opened(1, 10, 'A change', MEMBER), merged(1, 20), changed(1, 30, { title: 'Fixes BUG-1' }), sent(200)],
    'completed',
  ],
  [
    'an approval by a member counts',
    [
      opened(1, 10, 'Fixes BUG-1', STRANGER),
      changed(1, 20, { reviews: { r: { reviewer: 'ben', state: 'approved', at: time(20), isMember: true } } }),
      sent(100),
    ],
    'review',
  ],
  [
    'an approval by another stranger does not count',
    [
      opened(1, 10, 'Fixes BUG-1', STRANGER),
      changed(1, 20, { reviews: review('r', 20, 'approved', 'mallory') }),
      sent(100),
    ],
    'open',
  ],
  [
    'a stranger whom `trust` names counts',
    [opened(1, 10, 'Fixes BUG-1', STRANGER), sent(100)],
    'review',
    { workflow: { trust: { people: ['eve'] } } },
  ],
  [
    'every stranger counts by `trust: anyone`',
    [opened(1, 10, 'Fixes BUG-1', STRANGER), sent(100)],
    'review',
    { workflow: { trust: 'anyone' } },
  ],
  [
    'a stranger’s open work does not delay the end',
    [opened(1, 10, 'Fixes BUG-1', STRANGER), opened(2, 11, 'Fixes BUG-1', MEMBER), merged(2, 20), sent(100)],
    'completed',
  ],
  [
    'a member’s open work delays the end',
    [opened(1, 10, 'Fixes BUG-1', MEMBER), opened(2, 11, 'Fixes BUG-1', MEMBER), merged(2, 20), sent(100)],
    'review',
  ],
  [
    'a stranger’s issue in public moves only the task that was made of it',
    [issue(10, { title: 'Fixes BUG-1', ...PUBLIC }), issue(20, { state: 'done' }), sent(100)],
    'open',
    { workflow: { rules: [{ when: { workItem: ['completed'] }, set: { status: 'completed' } }] } },
  ],

  // Restores
  [
    'after a restore nothing moves before the item is confirmed',
    [opened(1, 10, 'Fixes BUG-1'), sent(20), merged(1, 30), restored(40), opened(2, 50, 'BUG-1 b'), sent(200)],
    'review',
  ],
  [
    'after a restore the confirmed item moves its task',
    [
      opened(1, 10, 'Fixes BUG-1'),
      sent(20),
      merged(1, 30),
      restored(40),
      changed(1, 50, { labels: ['seen'] }),
      sent(200),
    ],
    'completed',
  ],

  // Reverts
  [
    'an open revert reverts nothing',
    [opened(1, 10, 'Fixes BUG-1'), merged(1, 20), revert(2, 30, 1), sent(200)],
    'completed',
  ],
  [
    'a merged revert takes the task out of its end',
    [opened(1, 10, 'Fixes BUG-1'), merged(1, 20), sent(100), revert(2, 110, 1), merged(2, 120), sent(200)],
    'in_progress',
  ],
  [
    'a revert that is closed without a merge reverts nothing',
    [opened(1, 10, 'Fixes BUG-1'), merged(1, 20), sent(100), revert(2, 110, 1), closed(2, 120), sent(200)],
    'completed',
  ],
  [
    'the revert of a revert restores the first merge',
    [
      ...[opened(1, 10, 'Fixes BUG-1'), merged(1, 20), revert(2, 30, 1), merged(2, 40), sent(100)],
      ...[revert(3, 110, 2), merged(3, 120), sent(200)],
    ],
    'completed',
  ],
  [
    'new work finishes a reverted task',
    [
      ...[opened(1, 10, 'Fixes BUG-1'), merged(1, 20), revert(2, 30, 1), merged(2, 40), sent(110)],
      ...[opened(3, 120, 'Fixes BUG-1'), merged(3, 130), sent(300)],
    ],
    'completed',
  ],
  [
    'the revert by a stranger reverts nothing',
    [
      ...[opened(1, 10, 'Fixes BUG-1', MEMBER), merged(1, 20), sent(100)],
      ...[revert(2, 110, 1, STRANGER), merged(2, 120), sent(200)],
    ],
    'completed',
  ],

  // Rules that are switched off and on again, or changed
  [
    'a move that waits is dropped with its rules',
    [opened(1, 10, 'Fixes BUG-1'), sent(20), merged(1, 30), configure(40, undefined), sent(200)],
    'review',
  ],
  [
    'rules that are switched on again move nothing old',
    [
      ...[opened(1, 10, 'Fixes BUG-1'), sent(20), configure(30, undefined), merged(1, 40), sent(200)],
      ...[configure(210, {}), changed(1, 220, { labels: ['seen'] }), sent(400)],
    ],
    'review',
  ],
  [
    'rules that are switched on again move what happens then',
    [opened(1, 10, 'Fixes BUG-1'), sent(20), configure(30, undefined), configure(40, {}), merged(1, 50), sent(200)],
    'completed',
  ],
  [
    '`since` reaches back',
    [
      opened(1, 10, 'Fixes BUG-1'),
      sent(20),
      configure(30, undefined),
      merged(1, 40),
      configure(50, { since: 0 }),
      sent(200),
    ],
    'completed',
  ],
  [
    'a changed rule moves nothing old',
    [
      opened(1, 10, 'Fixes BUG-1'),
      sent(20),
      configure(30, { since: undefined, rules: [{ when: { pullRequest: ['open'] }, set: { status: 'planned' } }] }),
      sent(200),
    ],
    'review',
  ],

  // People
  [
    'a person’s status stands until newer work',
    [opened(1, 10, 'BUG-1'), sent(20), person(200, 'planned'), sent(300)],
    'planned',
  ],
  [
    'a review after a person’s edit moves the task',
    [
      ...[opened(1, 10, 'BUG-1'), sent(20), person(200, 'planned')],
      ...[changed(1, 300, { reviews: review('r', 300, 'approved') }), sent(400)],
    ],
    'review',
  ],
  [
    '`blocked` is left only to finish',
    [opened(1, 10, 'Fixes BUG-1', { draft: true }), sent(20), person(200, 'blocked'), merged(1, 300), sent(400)],
    'completed',
  ],
  ['`blocked` is not left for progress', [person(5, 'blocked'), opened(1, 200, 'Fixes BUG-1'), sent(300)], 'blocked'],
];

it.each<Case>(CASES)('%s', async (_claim, steps, expected, options) => {
  const board = await openBoard({ ...options, workflow: { since: undefined, ...options?.workflow } });
  for (const step of steps) await step(board);
  expect(typeof expected === 'string' ? board.status('BUG-1') : board.labels('BUG-1')).toEqual(expected);
});
