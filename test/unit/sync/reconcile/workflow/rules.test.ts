import { expect, it } from 'vitest';
import type { PullRequest } from '../../../../../src/model/item.ts';
import type { WorkflowInput, WorkflowRule } from '../../../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { type BoardOptions, openBoard, time } from '../../../../support/harness/board.ts';
import {
  changed,
  closed,
  configured,
  decided,
  drafted,
  issue,
  labelled,
  later,
  merged,
  opened,
  person,
  play,
  polled,
  released,
  restored,
  revert,
  reviewed,
  type Step,
  sent,
} from '../../../../support/harness/board-steps.ts';

// The rules of `config/workflow.md`: facts, and the status that the task BUG-1 then has, or its labels in a list.
// Two statuses are those of BUG-1 and BUG-2. A number in front of a claim is that of a complaint about similar products.

type Case = [
  claim: string,
  expected: string | readonly string[],
  steps: readonly Step[],
  workflow?: Partial<WorkflowInput>,
  options?: BoardOptions,
];

const PUBLIC = { isPublic: true };
const STRANGER = { isPublic: true, isFork: true, author: 'eve' };
const MEMBER = { isPublic: true, isFork: false, author: 'ann' };
const LANDED = { landed: { title: String.raw`^\[Merged by Bors\]` as never, label: ['land*'] } };
const ON_DEVELOP = { state: 'merged', baseBranch: 'develop' } as const;
const AGAIN = { id: 's' };
const CHO = { id: 's', reviewer: 'cho' };
const BOT = { isBot: true, author: 'queue[bot]' };

/** These rules, and no preset. */
const only = (...rules: readonly WorkflowRule[]): Partial<WorkflowInput> => ({ preset: undefined, rules });
/** These rules before the preset. */
const first = (...rules: readonly WorkflowRule[]): Partial<WorkflowInput> => ({ rules });

const LABELS = only(
  { when: { pullRequest: ['open'] }, set: { addLabels: ['wip'] } },
  { when: { pullRequest: ['merged'], link: 'carrying' }, set: { addLabels: ['staging'], removeLabels: ['wip'] } },
);
const APPROVED = only({ when: { pullRequest: ['approved'] }, set: { addLabels: ['approved'] } });
const IN_REVIEW = only({ when: { pullRequest: ['review'] }, set: { addLabels: ['in review'] } });
const ISSUES = first({ when: { workItem: ['completed'] }, set: { status: 'completed' } });
const REOPENS = first(ISSUES.rules?.[0] as WorkflowRule, {
  when: { workItem: ['reopened'] },
  set: { status: 'planned' },
});
const STARTED = only({ when: { workItem: ['started'] }, set: { status: 'in_progress' } });
const IN_TEST = only({ when: { workItem: { status: ['In Test'] } }, set: { status: 'review' } });
const OPEN: WorkflowRule['when'] = { pullRequest: ['open'] };
/** A rule for open pull requests. */
const opens = (status: 'planned' | 'review' | 'in_progress', more: Partial<WorkflowRule> = {}): WorkflowRule => ({
  when: OPEN,
  set: { status },
  ...more,
});
const MENTIONS = opens('review', { when: { ...OPEN, link: 'mentioning' } });
const DEVELOP: WorkflowRule = { when: { pullRequest: ['merged'], base: ['develop'] }, set: { status: 'merged' } };

/** Statuses that the workspace has beyond those of the specification. */
const ADDED = {
  statuses: { qa: { word: 'QA', after: 'review' }, live: { word: 'Live', final: true }, parked: { word: 'Parked' } },
  ...first(
    { when: { pullRequest: ['approved'] }, set: { status: 'qa' } },
    { when: { pullRequest: ['merged'] }, set: { status: 'live' } },
    { when: { pullRequest: ['open'], labels: ['parked'] }, set: { status: 'parked' } },
  ),
};
const APPROVAL = reviewed(1, 'approved');

const HASH = 'c0ffee0123456789c0ffee0123456789c0ffee01';
const COMMITTED = { mergeCommits: ['0123456789ab', HASH.slice(0, 12)] };
const REVERTS_COMMIT = { revertsCommit: HASH };

/** A pull request whose description names tasks. */
const described = (description: string, fields = {}) => opened(1, 'Work', { description, ...fields });
const OPENED = opened(1, 'BUG-1');
const BUMP = described('Fixes BUG-1', BOT);
const FIX = opened(1, 'Fixes BUG-1');
const SEEN = changed(1, { labels: ['seen'] });
const DRAFT = opened(1, 'Fixes BUG-1', { draft: true });
const FORK = opened(1, 'Fixes BUG-1', STRANGER);
const MENTION = described('see BUG-1');
const NAMED = changed(1, { title: 'Fixes BUG-1' });
const NAMELESS_FORK = opened(1, 'A change', STRANGER);
const FIX_2 = opened(2, 'Fixes BUG-1', MEMBER);
const UNLINKED = changed(1, { title: 'Other' });
const REOPENED = issue({ state: 'open', closedAt: null });
const fixed = (fields: Parameters<typeof issue>[0]) => issue({ title: 'Fixes BUG-1', ...fields });
const EDITED = [OPENED, later, person('planned')];
const TWO = [FIX, FIX_2];
const OFF = configured(undefined);
const ON = configured({ since: undefined });
/** Rules are switched on and a pull request is opened within one second, to which providers date. */
const ON_AND_OPENED: Step = async (board, { now }) => {
  await board.configure(now + 0.7, { since: undefined });
  await board.pull(1, now + 0.9, { title: 'BUG-1', createdAt: time(now) });
};
/** A pull request is merged, the rules change, and then the merge is delivered. */
const MERGED_MEANWHILE: Step = async (board, clock) => {
  const mergedAt = time(clock.now);
  await board.configure((clock.now += 100), { since: undefined, bots: 'count' });
  await board.pull(1, (clock.now += 100), { state: 'merged', mergedAt, updatedAt: Date.parse(mergedAt) });
};
const DONE = [FIX, merged(), later];
const REVERTED = [revert(2, 1), merged(2)];
const BUGS = (count: number) => Array.from({ length: count }, (_, index) => `BUG-${index + 1}`);
const trusting = (name: string) => ({ trust: { people: [name] } });
const connected = (name: string) => ({ rules: { connections: new Set([name]) } });
const ELEVEN = BUGS(11).join();
const open = (count: number) => ({ tasks: Object.fromEntries(BUGS(count).map((key) => [key, 'open'])) });

const CASES: readonly Case[] = [
  // The states of a pull request
  ['an open pull request is a review', 'review', [OPENED]],
  ['9: a draft is work in progress', 'in_progress', [DRAFT]],
  ['a draft that becomes ready is a review', 'review', [DRAFT, later, drafted(1, false)]],
  ['10: requested changes are work in progress', 'in_progress', [OPENED, later, reviewed(1, 'changes')]],
  ['dismissed changes count no more', 'review', [OPENED, reviewed(1, 'changes'), reviewed(1, 'dismissed')]],
  [
    'a comment after requested changes decides nothing',
    'in_progress',
    [OPENED, reviewed(1, 'changes'), reviewed(1, 'commented', AGAIN)],
  ],
  [
    'an approval replaces the changes of its reviewer',
    'review',
    [OPENED, reviewed(1, 'changes'), reviewed(1, 'approved', AGAIN)],
  ],
  [
    'an approval replaces no changes of another reviewer',
    'in_progress',
    [OPENED, reviewed(1, 'changes'), reviewed(1, 'approved', CHO)],
  ],
  ['an approval is a state of its own', ['approved'], [OPENED, reviewed(1, 'approved')], APPROVED],
  [
    'an approval of a reviewer who is asked again does not count',
    [],
    [OPENED, reviewed(1, 'approved'), changed(1, { reviewers: ['ben'] })],
    APPROVED,
  ],
  [
    'a reviewer who is asked again after changes is a review',
    'review',
    [OPENED, later, reviewed(1, 'changes'), later, changed(1, { reviewers: ['ben'] })],
  ],
  [
    'another reviewer who is asked after changes is none',
    'in_progress',
    [OPENED, later, reviewed(1, 'changes'), later, changed(1, { reviewers: ['cho'] })],
  ],
  [
    'reviewers who were requested before a review are not asked again',
    'in_progress',
    [opened(1, 'BUG-1', { reviewers: ['ben'] }), later, reviewed(1, 'changes')],
  ],
  ['a decision counts as an approval', ['approved'], [OPENED, decided(1, 'approved')], APPROVED],
  ['31: an approval is dropped without an event', 'review', [OPENED, decided(1, 'changes'), decided(1, 'none')]],
  ['a queued pull request is approved', ['approved'], [OPENED, changed(1, { isQueued: true })], APPROVED],
  ['a requested reviewer is a review', ['in review'], [opened(1, 'BUG-1', { reviewers: ['ben'] })], IN_REVIEW],
  ['a comment is a review', ['in review'], [OPENED, reviewed(1, 'commented')], IN_REVIEW],
  ['a dismissed review is none', [], [OPENED, reviewed(1, 'dismissed')], IN_REVIEW],
  ['27: a closed pull request restores the status', 'planned', [person('planned'), OPENED, later, closed()]],
  ['13: a merged pull request shows as declined', 'completed', [FIX, closed(1, { mergedAt: time(20) })]],
  ['14: a poll reports a merge whose event was lost', 'completed', [FIX, polled(1, { state: 'merged' })]],
  [
    '12: a title says that a closed pull request was merged',
    'completed',
    [FIX, closed(1, { title: '[Merged by Bors] - Fixes BUG-1' })],
    LANDED,
  ],
  ['a label says that a closed pull request was merged', 'completed', [FIX, closed(1, { labels: ['Landed'] })], LANDED],
  ['another label does not', 'open', [FIX, later, closed(1, { labels: ['other'] })], LANDED],

  // The states of a work item
  ['22: a status that is final already stays', 'merged', [person('merged'), fixed({ state: 'done' })], ISSUES],
  ['a completed work item finishes the task', 'completed', [fixed({ state: 'done' })], ISSUES],
  [
    'a task stays finished when its issue leaves the scope',
    'completed',
    [fixed({ state: 'done' }), later, issue({ movedAway: 'OUT' })],
    ISSUES,
  ],
  ['a moved work item finishes nothing', 'open', [fixed({ state: 'done', movedTo: 'jira:cloud-1:2' })], ISSUES],
  [
    'a task whose reopened issue is done again is finished again',
    'completed',
    [FIX, merged(), fixed({ state: 'done' }), later, issue({ state: 'open' }), later, issue({ state: 'done' })],
  ],
  ['24: dropped work finishes nothing', 'open', [fixed({ state: 'done', isDropped: true })], ISSUES],
  ['25: a regression reopens the task', 'in_progress', [fixed({ state: 'done' }), later, REOPENED], ISSUES],
  ['an own rule reopens the task', 'planned', [fixed({ state: 'done' }), later, issue({ state: 'open' })], REOPENS],
  ['a started work item is in progress', 'in_progress', [fixed({ state: 'in_progress' })], STARTED],
  ['an open work item is not started', 'open', [fixed({ state: 'open' })], STARTED],
  ['a rule may name the word of the tracker', 'review', [fixed({ rawState: 'in test' })], IN_TEST],
  ['a rule does not fit another word', 'open', [fixed({ rawState: 'Doing' })], IN_TEST],
  ['a rule for pull requests fits no work item', 'open', [fixed({})], only(opens('review'))],

  // Links
  ['32: the title counts', 'completed', [opened(1, 'Closes BUG-1', { description: '' }), merged()]],
  ['1: prose takes no task out of its end', 'completed', [person('completed'), described('Background: BUG-1')]],
  [
    '3: an address takes no task out of its end',
    'completed',
    [person('completed'), described('see https://app.example.com/workspace/tasks/BUG-1')],
  ],
  [
    '2: a title with the keys of siblings takes none out of its end',
    'completed review',
    [person('completed'), opened(1, 'BUG-1 and BUG-2')],
  ],
  ['4: a mention finishes nothing', 'completed open', [opened(1, 'BUG-1', { description: 'See BUG-2' }), merged()]],
  ['one of two carried tasks is not finished', 'review', [opened(1, 'BUG-1 and BUG-2'), later, merged()]],
  ['16: all closed tasks are finished', 'completed completed', [opened(1, 'Fixes BUG-1, fixes BUG-2'), merged()]],
  ['20: a negated closing word closes nothing', 'open open', [described('Does not close BUG-1. skip BUG-2'), merged()]],
  ['a closing word in the description counts', 'completed', [described('Fixes BUG-1'), merged()]],
  ['ten tasks of one pull request move', 'review', [opened(1, BUGS(10).join())], {}, open(10)],
  ['eleven tasks of one pull request do not', 'open', [opened(1, ELEVEN)], {}, open(11)],
  [
    'the closed one of eleven moves',
    'review open',
    [described(`Fixes BUG-1. ${ELEVEN}`, { title: ELEVEN })],
    {},
    open(11),
  ],
  ['a rule may count mentions', 'review', [MENTION], only(MENTIONS)],
  ['a rule may want a closing word', 'open', [OPENED], only(opens('review', { when: { ...OPEN, link: 'closing' } }))],
  ['an own rule finishes the only task that a title names', 'merged', [opened(1, 'BUG-1', ON_DEVELOP)], first(DEVELOP)],
  [
    'an own rule finishes none of two tasks without a closing word',
    'open',
    [opened(1, 'BUG-1 and BUG-2', ON_DEVELOP)],
    first(DEVELOP),
    open(2),
  ],
  [
    'a rule may want a closing word for the end',
    'open',
    [opened(1, 'BUG-1', ON_DEVELOP)],
    first({ ...DEVELOP, when: { ...DEVELOP.when, link: 'closing' } }),
  ],
  [
    'a work item finishes the only task that its title names',
    'completed',
    [issue({ title: 'BUG-1', state: 'done' })],
    ISSUES,
  ],
  [
    'a closed pull request cancels a task by an own rule',
    'cancelled',
    [OPENED, later, closed()],
    first({ when: { pullRequest: ['closed'] }, set: { status: 'cancelled' } }),
  ],
  [
    'a mention does not keep a task from its earlier status',
    'open',
    [OPENED, later, opened(2, 'Other', { description: 'see BUG-1' }), merged(2), later, closed()],
  ],
  ['an own rule finishes a task by a closing word', 'merged', [opened(1, 'Fixes BUG-1', ON_DEVELOP)], first(DEVELOP)],
  [
    '17: closing need not be the end',
    'review',
    [FIX, merged()],
    only({ when: { pullRequest: ['merged'] }, set: { status: 'review' } }),
  ],
  [
    'the default branch of the merge counts after a rename',
    'completed',
    [FIX, merged(), later, changed(1, { defaultBranch: 'trunk' })],
  ],
  [
    '18: a merge into another branch finishes nothing',
    'review',
    [opened(1, 'Fixes BUG-1', { baseBranch: 'develop' }), later, merged()],
  ],
  ['an item of a removed connection moves nothing', 'open', [FIX, merged()], {}, connected('tracker')],
  ['an item of a configured connection moves its task', 'completed', [FIX, merged()], {}, connected('code')],

  // Bots
  ['the title of a bot counts', 'completed', [opened(1, 'Fixes BUG-1', BOT), merged()]],
  ['15: the description of a bot does not count', 'open', [BUMP, merged()]],
  ['the description of a bot counts by `bots: count`', 'review', [BUMP], { bots: 'count' }],
  ['it finishes nothing', 'review', [BUMP, later, merged()], { bots: 'count' }],
  ['the description of a bot that `trust` names counts', 'review', [BUMP], trusting('Queue[bot]')],
  ['the title of a bot does not count by `bots: ignore`', 'open', [opened(1, 'Fixes BUG-1', BOT)], { bots: 'ignore' }],

  // Several items
  ['6: the first of several merges finishes nothing', 'review', [...TWO, merged()]],
  ['5: the last of several merges is the end', 'completed', [FIX, opened(2, 'BUG-1 part'), merged(), later, merged(2)]],
  ['the first merge finishes the task by `several: any`', 'completed', [...TWO, merged()], { several: 'any' }],
  [
    'the first merge finishes the task by a rule with `several: any`',
    'merged',
    [...TWO, merged(1, ON_DEVELOP)],
    first({ ...DEVELOP, several: 'any' }),
  ],
  [
    '7: a plan of several ends with the last one',
    'completed',
    [OPENED, merged(), later, opened(2, 'BUG-1'), later, merged(2)],
  ],
  ['work of before delays the end', 'review', [opened(2, 'Other'), ...DONE, changed(2, { title: 'BUG-1' })]],
  ['a pull request that is opened after the end changes nothing', 'completed', [...DONE, FIX_2]],
  [
    'a pull request that is opened after the end reopens the task by `reopen`',
    'review',
    [...DONE, FIX_2],
    first(opens('review', { reopen: true })),
  ],
  [
    '11: helpers of a queue do not delay the end',
    'completed',
    [FIX, opened(2, 'Batch BUG-1', BOT), closed(2), merged()],
  ],
  [
    'a mention does not delay the end',
    'completed',
    [FIX, opened(2, 'Other', { description: 'see BUG-1' }), merged()],
    first(MENTIONS),
  ],
  ['work with a merged part is in progress', 'in_progress', [...TWO, merged()], first(opens('planned'))],
  ['the furthest of several pull requests decides', 'review', [OPENED, opened(2, 'BUG-1', { draft: true })]],
  ['the newest of several merges decides', 'merged', [...TWO, merged(), merged(2, ON_DEVELOP)], first(DEVELOP)],
  [
    'the best of several merges at one time decides',
    'completed',
    [...TWO, merged(1, { mergedAt: time(40), ...ON_DEVELOP }), merged(2, { mergedAt: time(40) })],
    first(DEVELOP),
  ],

  // Labels
  ['a rule adds its label', ['wip'], [OPENED], LABELS],
  ['the next rule adds and removes labels', ['staging'], [OPENED, later, merged()], LABELS],
  ['a label that no rule names stays', ['own', 'staging'], [labelled('own'), OPENED, later, merged()], LABELS],
  ['a label that a person takes away stays away', [], [OPENED, later, labelled(), SEEN], LABELS],
  [
    'a label is set again when its condition holds again',
    ['wip'],
    [OPENED, later, labelled(), closed(), later, changed(1, { state: 'open', closedAt: null })],
    LABELS,
  ],
  ['a label that one item adds is not removed by another', ['wip', 'staging'], [...TWO, later, merged()], LABELS],
  ['a new rule labels nothing old', [], [OPENED, configured({ ...LABELS, since: undefined }), SEEN], only()],
  ['a new rule labels what is old by `since`', ['wip'], [OPENED, configured({ ...LABELS, since: 0 })], only()],

  // Strangers
  ['a stranger moves nothing by opening', 'open', [FORK]],
  ['30: a branch of the same repository counts', 'review', [opened(1, 'BUG-1', MEMBER)]],
  ['the fork of a member counts', 'review', [opened(1, 'BUG-1', { ...STRANGER, isAuthorMember: true })]],
  ['the fork of a private repository counts', 'review', [opened(1, 'BUG-1', { ...STRANGER, isPublic: false })]],
  ['the fork of a configured user counts', 'review', [FORK], {}, { rules: { users: { github: { eve: 'u1' } } } }],
  ['a stranger whom `trust` names counts', 'review', [FORK], trusting('Eve')],
  ['a stranger whom `trust` does not name does not count', 'open', [FORK], trusting('ann')],
  ['every stranger counts by `trust: anyone`', 'review', [FORK], { trust: 'anyone' }],
  ['the merge of a stranger’s work counts', 'completed', [FORK, merged()]],
  ['the revert of a stranger’s work counts', 'in_progress', [FORK, merged(), revert(2, 1, MEMBER), merged(2)]],
  ['a name that a stranger adds after the merge does not count', 'open', [NAMELESS_FORK, merged(), NAMED]],
  [
    'a name that a stranger adds after the revert does not count',
    'open',
    [NAMELESS_FORK, merged(), revert(2, 1, MEMBER), merged(2), NAMED],
  ],
  [
    'the revert of work that a stranger named after the merge takes no task out of its end',
    'completed',
    [person('completed'), NAMELESS_FORK, merged(), NAMED, revert(2, 1, MEMBER), merged(2)],
  ],
  ['a name that a member adds after the merge counts', 'completed', [opened(1, 'A change', MEMBER), merged(), NAMED]],
  ['an approval by a member counts', 'review', [FORK, reviewed(1, 'approved', { isMember: true })]],
  ['an approval by another stranger does not count', 'open', [FORK, reviewed(1, 'approved')]],
  ['a review by anybody counts by `trust: anyone`', 'in_progress', [FORK, reviewed(1, 'changes')], { trust: 'anyone' }],
  ['an approval by one whom `trust` names counts', 'review', [FORK, reviewed(1, 'approved')], trusting('Ben')],
  ['a stranger’s open work does not delay the end', 'completed', [FORK, FIX_2, merged(2)]],
  ['a member’s open work delays the end', 'review', [opened(1, 'BUG-1', MEMBER), FIX_2, merged(2)]],
  ['a stranger’s issue in public moves nothing', 'open', [fixed({ state: 'done', ...PUBLIC })], ISSUES],

  // Restores
  [
    'a restored item moves nothing before it is confirmed',
    'review',
    [FIX, later, merged(), restored, opened(2, 'BUG-1 b')],
  ],
  ['a restored item that is confirmed moves its task', 'completed', [FIX, later, merged(), restored, SEEN]],

  // Reverts
  ['an open revert reverts nothing', 'completed', [FIX, merged(), revert(2, 1)]],
  ['26: a merged revert takes the task out of its end', 'in_progress', [...DONE, ...REVERTED]],
  ['a closed revert reverts nothing', 'completed', [...DONE, revert(2, 1), closed(2)]],
  ['26: its revert finishes the task again', 'completed', [...DONE, ...REVERTED, later, revert(3, 2), merged(3)]],
  ['the open revert of a revert changes nothing', 'in_progress', [...DONE, ...REVERTED, later, revert(3, 2)]],
  ['a revert that is gone reverts nothing', 'completed', [...DONE, ...REVERTED, later, changed(2, { gone: true })]],
  [
    'new work finishes a reverted task',
    'completed',
    [FIX, merged(), ...REVERTED, later, opened(3, 'Fixes BUG-1'), merged(3)],
  ],
  ['new open work on a reverted task is a review', 'review', [...DONE, ...REVERTED, later, opened(3, 'Fixes BUG-1')]],
  [
    'a revert by git is recognised by the commit of the merge',
    'in_progress',
    [FIX, merged(1, COMMITTED), later, opened(2, 'Revert "Fixes BUG-1"', REVERTS_COMMIT), merged(2)],
  ],
  [
    'a revert by git that is heard of before the merge is recognised too',
    'in_progress',
    [FIX, opened(2, 'Roll it back', REVERTS_COMMIT), merged(2), merged(1, COMMITTED)],
  ],
  [
    'a revert by git names the work of its title, and does not do it',
    'open',
    [opened(1, 'Roll back BUG-1', REVERTS_COMMIT), merged()],
  ],
  [
    'a revert of work that finished nothing leaves the end that a person set',
    'completed',
    [opened(1, 'BUG-1', { baseBranch: 'release/1' }), merged(), person('completed'), later, ...REVERTED],
  ],
  [
    'a revert of another commit takes no task out of its end',
    'completed',
    [FIX, merged(), later, opened(2, 'Revert "Fixes BUG-1"', REVERTS_COMMIT), merged(2)],
  ],
  [
    'a revert of work that finished nothing takes no task out of its end',
    'completed',
    [...DONE, opened(3, 'Fixes BUG-1', { baseBranch: 'release/1' }), merged(3), revert(2, 3), merged(2)],
  ],
  [
    'a revert whose provider reports no time of the merge counts',
    'in_progress',
    [...DONE, revert(2, 1), changed(2, { state: 'merged', mergedAt: null })],
  ],
  [
    'a title that begins with `Revert` does not do the work that it quotes',
    'open',
    [opened(1, 'Revert "Fixes BUG-1"'), merged()],
  ],
  ['a title that reverts a revert does', 'completed', [opened(1, 'Revert "Revert "Fixes BUG-1""'), merged()]],
  ['the revert by a stranger reverts nothing', 'completed', [...DONE, revert(2, 1, STRANGER), merged(2)]],
  [
    'an own rule sets another status for reverted work',
    'planned',
    [...DONE, ...REVERTED],
    first({ when: { pullRequest: ['reverted'] }, set: { status: 'planned' } }),
  ],
  ['a revert lowers a status that a person set', 'in_progress', [...DONE, person('review'), ...REVERTED]],

  // Statuses of the workspace beyond those of the specification
  ['an added status is written by its word', 'QA', [OPENED, APPROVAL], ADDED],
  ['an added status that ranks after review outranks it', 'QA', [OPENED, APPROVAL, opened(2, 'BUG-1')], ADDED],
  ['an added status that a person set is not lowered', 'QA', [person('QA'), OPENED], ADDED],
  [
    'the rules lower an added status that they set',
    'in_progress',
    [OPENED, APPROVAL, changed(1, { draft: true })],
    ADDED,
  ],
  ['an added final status finishes the task', 'Live', [...DONE, FIX_2], ADDED],
  ['a task in an added final status stays finished', 'Live', [person('Live'), FIX], ADDED],
  ['a revert takes a task out of an added final status', 'in_progress', [...DONE, person('Live'), ...REVERTED], ADDED],
  ['an added status without a rank is set', 'Parked', [OPENED, changed(1, { labels: ['parked'] })], ADDED],
  ['an added status without a rank is left only by `from`', 'Parked', [person('Parked'), FIX, merged()], ADDED],

  // Work that no longer names the task
  ['a task that is no longer named gets its earlier status', 'open', [OPENED, later, UNLINKED]],
  ['a finished task that is no longer named gets its earlier status', 'open', [...DONE, UNLINKED]],
  ['a task whose work is gone gets its earlier status', 'open', [OPENED, later, changed(1, { gone: true })]],
  ['a task that a person moved since stays', 'planned', [...EDITED, UNLINKED]],
  ['without a rule that restores the status it stays', 'review', [OPENED, later, UNLINKED], only(opens('review'))],

  // Rules that are switched off and on again, or changed
  ['a move that waits is dropped with its rules', 'review', [FIX, later, merged(), OFF]],
  ['rules that are on again move nothing old', 'review', [FIX, later, OFF, merged(), later, ON, SEEN]],
  ['rules move what happens in the second in which they are switched on', 'review', [OFF, ON_AND_OPENED]],
  ['rules that are on again move what happens then', 'completed', [FIX, later, OFF, ON, merged()]],
  ['a pull request from before the rules moves nothing when a label is added', 'open', [OFF, OPENED, ON, SEEN]],
  [
    'a pull request from before the rules moves its task when its state changes',
    'in_progress',
    [OFF, OPENED, ON, reviewed(1, 'changes')],
  ],
  [
    'merged work from before the rules does not keep a task from its earlier status',
    'open',
    [OFF, FIX, merged(), ON, opened(2, 'BUG-1'), later, closed(2)],
  ],
  [
    'a pull request from before the rules does not outrank newer work',
    'in_progress',
    [OFF, OPENED, ON, opened(2, 'BUG-1', { draft: true })],
  ],
  [
    'a pull request from before the rules does not delay the end',
    'completed',
    [OFF, OPENED, ON, opened(2, 'Fixes BUG-1'), later, merged(2)],
  ],
  ['a task keeps its status when its rules are off and on again', 'review', [OPENED, later, OFF, ON, SEEN]],
  [
    'work of before a change of the rules still delays the end',
    'review',
    [...TWO, later, configured({ since: undefined, bots: 'count' }), merged()],
  ],
  [
    'a merge that waits is kept by changed rules that want the same',
    'completed',
    [FIX, later, merged(), configured({ since: undefined, bots: 'count' })],
  ],
  ['`since` reaches back', 'completed', [FIX, later, OFF, merged(), configured({ since: 0 })]],
  ['a merge that arrives after a change of the rules moves its task', 'completed', [FIX, later, MERGED_MEANWHILE]],
  [
    'a changed rule moves nothing old',
    'review',
    [FIX, later, configured({ since: undefined, ...first(opens('planned')) })],
  ],
  [
    '28: a task that is only linked stays',
    'open',
    [OPENED],
    only(opens('review', { when: { ...OPEN, repository: ['acme/other'] } })),
  ],

  // People
  ['a person’s status stands until newer work', 'planned', [...EDITED, SEEN]],
  ['a change that may be older than a person’s edit does not', 'planned', [...EDITED, changed(1, { draft: true })]],
  ['one that is certainly newer does', 'in_progress', [...EDITED, SEEN, changed(1, { draft: true })]],
  ['a review after a person’s edit moves the task', 'review', [...EDITED, reviewed(1, 'approved')]],
  [
    'a dated start of the work after a person’s edit moves the task',
    'in_progress',
    [fixed({ state: 'open' }), person('planned'), issue({ state: 'in_progress', phaseChangedAt: time(30) })],
    STARTED,
  ],
  [
    'a start that may have been before a person’s edit does not',
    'planned',
    [fixed({ state: 'open' }), person('planned'), issue({ state: 'in_progress' })],
    STARTED,
  ],
  [
    'a person’s status does not stand against `force`',
    'review',
    [...EDITED, SEEN],
    first(opens('review', { from: ['open'], force: true })),
  ],
  ['a rule may set a status of the same rank', 'planned', [person('idea'), OPENED], first(opens('planned'))],
  ['closed work restores no status over that of a person', 'planned', [OPENED, later, person('planned'), closed()]],
  ['8: a status that a person set is not lowered', 'review', [person('review'), DRAFT]],
  [
    'a rule with `back` lowers a status that a person set',
    'in_progress',
    [person('review'), DRAFT],
    first({ when: { pullRequest: ['draft'] }, set: { status: 'in_progress' }, back: true }),
  ],
  [
    'requested changes lower a person’s status',
    'in_progress',
    [OPENED, later, person('review'), reviewed(1, 'changes')],
  ],
  ['a finished task stays finished', 'cancelled', [person('cancelled'), FIX]],
  ['`blocked` is left to finish', 'completed', [DRAFT, later, person('blocked'), merged()]],
  ['`blocked` is not left for progress', 'blocked', [person('blocked'), FIX]],
  ['a status that no rule knows is not left', 'Triage', [person('Triage'), OPENED]],
  [
    'a status that `from` names is left',
    'review',
    [person('Triage'), OPENED],
    first(opens('review', { from: ['Triage'] })),
  ],
  ['a status that `from` does not name is not left', 'open', [OPENED], first(opens('review', { from: ['planned'] }))],
  ['work of before a person reopened a task does not finish it', 'open', [...DONE, person('open'), SEEN]],
  ['work of afterwards does', 'completed', [...DONE, person('open'), FIX_2, merged(2)]],
  ['a released status follows the rules again', 'review', [OPENED, later, person('in_progress'), released]],
  ['a release keeps the earlier status of a task that worksync moved', 'open', [OPENED, later, released, closed()]],
  [
    '21: two automations do not fight for ever',
    'planned',
    [OPENED, ...[true, false, true, false].flatMap((draft) => [sent, person('planned'), drafted(1, draft)])],
  ],
];

it.each<Case>(CASES)('%s', async (_claim, expected, steps, workflow, options) => {
  const board = await openBoard({ ...open(2), ...options, workflow: { since: undefined, ...workflow } });
  await play(board, [...steps, later]);
  const statuses = BUGS(2).map(board.status).join(' ');
  if (typeof expected === 'string') expect(`${statuses} `).toMatch(new RegExp(`^${expected} `));
  else expect(board.labels('BUG-1')).toEqual(expected);
});

it.each<[when: WorkflowRule['when'], item: Partial<PullRequest>, fits: boolean]>([
  [{ connection: ['co*'] }, {}, true],
  [{ connection: ['other'] }, {}, false],
  [{ repository: ['acme/*'] }, {}, true],
  [{ repository: ['5001'] }, {}, true],
  [{ repository: ['acme'] }, {}, false],
  [{ labels: ['a', 'b?'] }, { labels: ['x', 'B1'] }, true],
  [{ labels: ['*'] }, {}, false],
  [{ author: ['AN*'] }, {}, true],
  [{ author: ['ben'] }, {}, false],
  [{ author: ['*'] }, { author: null }, false],
  [{ task: ['bug'] }, {}, true],
  [{ task: ['idea'] }, {}, false],
  [{ base: ['default'] }, {}, true],
  [{ base: ['default'] }, { baseBranch: 'develop' }, false],
  [{ base: ['rel*', 'default'] }, { baseBranch: 'release/1' }, true],
  [{ base: ['rel*', '!release/1'] }, { baseBranch: 'release/1' }, false],
  [{ base: ['default'] }, { baseBranch: undefined, defaultBranch: undefined }, false],
  [{ connection: ['code'], author: ['ann'] }, {}, true],
  [{ connection: ['code'], author: ['ben'] }, {}, false],
  [{ pullRequest: undefined }, {}, true],
  [{ pullRequest: ['merged'] }, {}, false],
  [{ pullRequest: undefined, workItem: ['open'] }, {}, false],
])('the conditions %j of a rule fit a pull request with %j: %s', async (when, item, fits) => {
  const board = await openBoard({ workflow: only(opens('review', { when: { ...OPEN, ...when } })) });
  await play(board, [opened(1, 'BUG-1', item), later]);
  expect(board.status('BUG-1')).toBe(fits ? 'review' : 'open');
});

it('finishes a task that the title names by its issue, although the description mentions it first', async () => {
  const board = await openBoard();
  await play(board, [issue({ title: 'Fixes BUG-1', identifier: 'ENG-1' }), later]);
  await play(board, [opened(1, 'ENG-1 fix the door', { description: 'see BUG-1' }), merged(), later]);
  expect(board.status('BUG-1')).toBe('completed');
});

it('avoids complaint 23: two issues of one task reopen each other', async () => {
  const board = await openBoard({ workflow: ISSUES });
  const rounds = [1, 2, 3].flatMap((round) => [
    issue({ state: 'done', labels: [`first-${round}`] }),
    issue({ labels: [`second-${round}`] }, 2),
    later,
  ]);
  await play(board, [fixed({}), issue({ title: 'Fixes BUG-1' }, 2), ...rounds]);
  expect([board.status('BUG-1'), board.writes('BUG-1')]).toEqual(['completed', 1]);
});

it('counts a status that others change back soon once, however often the task is evaluated', async () => {
  const board = await openBoard();
  const contests: number[] = [];
  const count: Step = async () => void contests.push(await board.contests());
  const soon = [OPENED, sent, person('planned'), SEEN, changed(1, { labels: ['again'] }), count];
  await play(board, [...soon, drafted(1, true), later, person('planned'), count]);
  expect([board.writes('BUG-1'), contests]).toEqual([2, [1, 1]]);
});

it.each([
  ['planned', 1],
  ['completed', 0],
  ['blocked', 0],
])('counts a status that a person sets soon after worksync only if it ranks lower: %s', async (status, contests) => {
  const board = await openBoard();
  await play(board, [OPENED, sent, person(status), SEEN]);
  expect(await board.contests()).toBe(contests);
});

it('follows reviews that a fetch reads, although the pull request has not changed since the poll', async () => {
  const board = await openBoard();
  await board.pull(1, 10, { title: 'BUG-1' }, 'poll');
  await board.send(100);
  expect(board.status('BUG-1')).toBe('review');
  const reviews = { r: { reviewer: 'ben', state: 'changes', at: time(10) } } as const;
  await board.pull(1, 10, { reviews, reviewsReadAt: Date.parse(time(10)) }, 'fetch');
  await board.send(200);
  expect(board.status('BUG-1')).toBe('in_progress');
});

it('keeps the status of merged work for which a rule asks for labels only', async () => {
  const staging: WorkflowRule = {
    when: { pullRequest: ['merged'], base: ['develop'], link: 'carrying' },
    set: { addLabels: ['in-staging'] },
  };
  const board = await openBoard({ workflow: first(staging) });
  await play(board, [opened(1, 'BUG-1', { baseBranch: 'develop' }), later, merged(), later]);
  expect([board.status('BUG-1'), board.labels('BUG-1')]).toEqual(['review', ['in-staging']]);
});
