import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { REASONS } from '../../../../../src/sync/reconcile/workflow/explain-task.ts';
import type { WorkflowInput } from '../../../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { type Board, type BoardOptions, openBoard, time } from '../../../../support/harness/board.ts';
import {
  changed,
  closed,
  configured,
  drafted,
  later,
  merged,
  opened,
  person,
  play,
  restored,
  revert,
  type Step,
  sent,
} from '../../../../support/harness/board-steps.ts';

type Reported = { readonly code: string; readonly detail: string | null } | null;
const textOf = (reason: Reported) => reason && (reason.detail ? `${reason.code}: ${reason.detail}` : reason.code);

/** The part of each item in the status, by the number of the item. */
async function partsOf(board: Board, key = 'BUG-1') {
  const { items } = await board.explain(key);
  return items.map(({ name, reason }) => `${name.slice('acme/app'.length)} ${textOf(reason)}`).toSorted();
}

const OPENED = opened(1, 'BUG-1');
const FIX = opened(1, 'Fixes BUG-1');
const NAMED = changed(1, { title: 'Fixes BUG-1' });
const STRANGER = { isPublic: true, isFork: true, author: 'eve' };
const BUGS = Array.from({ length: 11 }, (_, index) => `BUG-${index + 1}`);
const ELEVEN = { tasks: Object.fromEntries(BUGS.map((key) => [key, 'open'])) };
const LABELS: Partial<WorkflowInput> = {
  preset: undefined,
  rules: [{ when: { pullRequest: ['open'] }, set: { addLabels: ['wip'] } }],
};
const WANTS = 'its base is develop, the default branch main; standard: merged wants default';
/** The part of the item is the reason. */
const OF_ITEM = undefined;
const FIGHT = [true, false, true].flatMap((draft) => [sent, person('planned'), drafted(1, draft)]);

it.each<
  [
    reason: string | null,
    parts: string[] | undefined,
    steps: Step[],
    workflow?: Partial<WorkflowInput>,
    options?: BoardOptions,
  ]
>([
  ['same', ['#1 progress'], [OPENED, later]],
  ['same', ['#1 finishes'], [FIX, merged(), later]],
  [null, ['#1 progress'], [OPENED]],
  ['nothing-linked', [], [opened(1, 'Other')]],
  ['no-rule: acme/app#1', ['#1 no-rule'], [FIX, merged()], LABELS],
  ['not-closing: acme/app#1', ['#1 not-closing'], [opened(1, 'BUG-1 and BUG-2'), merged()], {}, ELEVEN],
  ['mention-only: acme/app#1', ['#1 mention-only'], [opened(1, 'Other', { description: 'see BUG-1' }), merged()]],
  [`base: ${WANTS}`, OF_ITEM, [opened(1, 'Fixes BUG-1', { baseBranch: 'develop' }), merged()]],
  ['held-by-person', ['#1 progress'], [OPENED, later, person('in_progress')]],
  ['backwards: review', ['#1 progress'], [person('review'), opened(1, 'BUG-1', { draft: true })]],
  ['from: open, planned, idea, in_progress, review', ['#1 progress'], [person('blocked'), OPENED]],
  ['unknown-status: Triage', ['#1 progress'], [OPENED], {}, { tasks: { 'BUG-1': 'Triage' } }],
  [
    `older-than-rule: ${time(10)}; the rules are in force since ${time(30)}`,
    OF_ITEM,
    [OPENED, configured(undefined), configured({ since: undefined })],
  ],
  ['older-than-epoch: acme/app#1', ['#1 older-than-epoch'], [FIX, merged(), later, person('open')]],
  ['no-previous', ['#1 given-up'], [OPENED, closed()]],
  ['breaker', ['#1 progress'], [OPENED, ...FIGHT]],
  ['bot-text: bots are ignored', OF_ITEM, [opened(1, 'BUG-1', { isBot: true })], { bots: 'ignore' }],
  ['bot-text: description of a bot', OF_ITEM, [opened(1, 'Bump', { isBot: true, description: 'Fixes BUG-1' })]],
  ['too-many-tasks: 11 tasks', OF_ITEM, [opened(1, BUGS.join())], {}, ELEVEN],
  ['late-name: acme/app#1', ['#1 late-name'], [opened(1, 'A change', STRANGER), merged(), NAMED]],
  ['no-connection: code', OF_ITEM, [OPENED], {}, { rules: { connections: new Set(['tracker']) } }],
  ['unverified', [], [OPENED, later, restored]],
  ['same', ['#1 finishes', '#2 follow-up: acme/app#1'], [FIX, merged(), later, opened(2, 'BUG-1')]],
  [
    'same',
    ['#1 reversal', '#2 mention-only: it is a revert, and does none of the work that it names'],
    [FIX, merged(), revert(2, 1), merged(2), later],
  ],
])('explains why the status stays: %s, and the parts of the items: %j', async (reason, parts, steps, ...more) => {
  const [workflow, options] = more;
  const board = await openBoard({ ...options, workflow: { since: undefined, ...workflow } });
  await play(board, steps);
  expect([textOf((await board.explain('BUG-1')).reason), await partsOf(board)]).toEqual([
    reason,
    parts ?? [`#1 ${reason}`],
  ]);
});

it('counts tasks with merged work by the reason why they are not finished', async () => {
  const board = await openBoard(ELEVEN);
  await play(board, [
    opened(1, 'Work', { description: 'Part of BUG-1', headBranch: 'BUG-1-and-BUG-2', state: 'merged' }),
    opened(2, 'Fixes BUG-3', { baseBranch: 'develop', state: 'merged' }),
    opened(3, 'Other', { description: 'see BUG-4', state: 'merged' }),
  ]);
  expect(await board.unfinished()).toEqual({ 'not-closing': 2, base: 1 });
  await board.person('BUG-1', 50, 'completed');
  expect(await board.unfinished()).toEqual({ 'not-closing': 1, base: 1 });
});

it('has all codes explained in config/workflow.md, with their remedies', () => {
  const page = readFileSync(new URL('../../../../../config/workflow.md', import.meta.url), 'utf8');
  const plain = (text = '') => text.replaceAll(/["`]/g, '').trim();
  const remedies = new Map(
    Array.from(page.matchAll(/^\| `([a-z-]+)` +\|[^|]*\|([^|]*)\|$/gm), ([, code, remedy]) => [code, plain(remedy)]),
  );
  const shown = Object.entries(REASONS).flatMap(([code, { remedy }]) =>
    remedies.has(code) || remedy ? [[code, plain(remedy)]] : [],
  );
  expect(Object.fromEntries(remedies)).toEqual(Object.fromEntries(shown));
  expect(Object.keys(REASONS).filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
});
