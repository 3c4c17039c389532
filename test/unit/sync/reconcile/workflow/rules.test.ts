import { describe, expect, it } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import type { PullRequest, WorkItem } from '../../../../../src/model/item.ts';
import type { TaskUpdate } from '../../../../../src/model/task.ts';
import type { WrittenStatus } from '../../../../../src/model/written-task.ts';
import { blankEntity, type EntityRow, findEntity, saveEntity } from '../../../../../src/store/changes/entities.ts';
import {
  addDifference,
  findChange,
  type OutboxRow,
  updateChange,
} from '../../../../../src/store/changes/outbox-rows.ts';
import { saveTask } from '../../../../../src/store/tasks/stored-tasks.ts';
import { json } from '../../../../../src/store/workspace-scope.ts';
import { createRules, PLAIN_RULES } from '../../../../../src/sync/reconcile/context.ts';
import { evaluateTaskUpdate, releaseTaskStatus } from '../../../../../src/sync/reconcile/workflow/evaluate-task.ts';
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
import { openTestStore } from '../../../../support/harness/intake.ts';
import { SOURCES, START, saidOf, TRACKER, takeBatch } from '../../../../support/rows/batches.ts';
import { workItem } from '../../../../support/rows/items.ts';

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
const ADDRESS = described('see https://app.example.com/workspace/tasks/BUG-1');
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
/** A label is the first report of a pull request that was opened long before. */
const UNHEARD = opened(1, 'BUG-1', { createdAt: time(0), labels: ['seen'] });
const DONE = [FIX, merged(), later];
const REVERTED = [revert(2, 1), merged(2)];
const REVERTED_BY_MEMBER = [revert(2, 1, MEMBER), merged(2)];
const OTHER_REVERTED = [revert(2, 3), merged(2)];
const ENDED = person('completed');
const BUGS = (count: number) => Array.from({ length: count }, (_, index) => `BUG-${index + 1}`);
const trusting = (name: string) => ({ trust: { people: [name] } });
const connected = (name: string) => ({ rules: { connections: new Set([name]) } });
const ELEVEN = BUGS(11).join();
const open = (count: number) => ({ tasks: Object.fromEntries(BUGS(count).map((key) => [key, 'open'])) });

const CHANGES = reviewed(1, 'changes');
const ASKED = changed(1, { reviewers: ['ben'] });
const CHO_ASKED = changed(1, { reviewers: ['cho'] });
const DRAFTED = changed(1, { draft: true });
const OPEN_AGAIN = changed(1, { state: 'open', closedAt: null });
const BORS = closed(1, { title: '[Merged by Bors] - Fixes BUG-1' });
const BOTH = opened(1, 'BUG-1 and BUG-2');
const BUG_ON_DEVELOP = opened(1, 'BUG-1', ON_DEVELOP);
const MERGED_40 = merged(1, { mergedAt: time(40), ...ON_DEVELOP });
const SECOND = opened(2, 'BUG-1');
const DRAFT_2 = opened(2, 'BUG-1', { draft: true });
const MENTION_2 = opened(2, 'Other', { description: 'see BUG-1' });
const FIX_3 = opened(3, 'Fixes BUG-1');
const RELEASE = { baseBranch: 'release/1' };
const TRUNK = { defaultBranch: 'trunk' };
const FINISHED = fixed({ state: 'done' });
const MOVED = fixed({ state: 'done', movedTo: 'jira:cloud-1:2' });
const UNSTARTED = fixed({ state: 'open' });
const REOPENED_ISSUE = issue({ state: 'open' });
const DONE_AGAIN = issue({ state: 'done' });
const STARTED_NOW = issue({ state: 'in_progress' });
const STARTED_30 = issue({ state: 'in_progress', phaseChangedAt: time(30) });
const REVERT_BY_GIT = opened(2, 'Revert "Fixes BUG-1"', REVERTS_COMMIT);
const ASKED_FIRST = opened(1, 'BUG-1', { reviewers: ['ben'] });
const BOTH_ON_DEVELOP = opened(1, 'BUG-1 and BUG-2', ON_DEVELOP);
const FIX_ON_DEVELOP = opened(1, 'Fixes BUG-1', { baseBranch: 'develop' });
const MERGED_2_40 = merged(2, { mergedAt: time(40) });
const MERGED_UNDATED = changed(2, { state: 'merged', mergedAt: null });
const ROLL_BACK = opened(2, 'Roll it back', REVERTS_COMMIT);
const FIX_NEW = opened(2, 'Fixes BUG-1');
const RELEASED_1 = opened(1, 'BUG-1', RELEASE);
const RELEASED_3 = opened(3, 'Fixes BUG-1', RELEASE);

// Rules of a workspace.
const OTHER_RULES = configured({ since: undefined, bots: 'count' });
const PLANS = configured({ since: undefined, ...first(opens('planned')) });
const CANCELS = first({ when: { pullRequest: ['closed'] }, set: { status: 'cancelled' } });
const REPLANS = first({ when: { pullRequest: ['reverted'] }, set: { status: 'planned' } });
const BACK = first({ when: { pullRequest: ['draft'] }, set: { status: 'in_progress' }, back: true });
const MERGED_REVIEW = only({ when: { pullRequest: ['merged'] }, set: { status: 'review' } });
const CLOSING_ONLY = first({ ...DEVELOP, when: { ...DEVELOP.when, link: 'closing' } });
const ANY = first({ ...DEVELOP, several: 'any' });
const ELSEWHERE = only(opens('review', { when: { ...OPEN, repository: ['acme/other'] } }));
const REOPEN = first(opens('review', { reopen: true }));
const FORCE = first(opens('review', { from: ['open'], force: true }));
const FROM_TRIAGE = first(opens('review', { from: ['Triage'] }));

const CASES: readonly Case[] = [
  // The states of a pull request
  ['an open pull request is a review', 'review', [OPENED]],
  ['9: a draft is work in progress', 'in_progress', [DRAFT]],
  ['a draft that becomes ready is a review', 'review', [DRAFT, later, drafted(1, false)]],
  ['10: requested changes are work in progress', 'in_progress', [OPENED, later, CHANGES]],
  ['dismissed changes count no more', 'review', [OPENED, CHANGES, reviewed(1, 'dismissed')]],
  ['a comment after changes decides nothing', 'in_progress', [OPENED, CHANGES, reviewed(1, 'commented', AGAIN)]],
  ['an approval replaces changes of its reviewer', 'review', [OPENED, CHANGES, reviewed(1, 'approved', AGAIN)]],
  ['an approval replaces no changes of another', 'in_progress', [OPENED, CHANGES, reviewed(1, 'approved', CHO)]],
  ['an approval is a state of its own', ['approved'], [OPENED, APPROVAL], APPROVED],
  ['an approval of one who is asked again does not count', [], [OPENED, APPROVAL, ASKED], APPROVED],
  ['one who is asked again after changes is a review', 'review', [OPENED, later, CHANGES, later, ASKED]],
  ['another reviewer who is asked changes nothing', 'in_progress', [OPENED, later, CHANGES, later, CHO_ASKED]],
  ['one who was asked before is not asked again', 'in_progress', [ASKED_FIRST, later, CHANGES]],
  ['a decision counts as an approval', ['approved'], [OPENED, decided(1, 'approved')], APPROVED],
  ['31: an approval is dropped without an event', 'review', [OPENED, decided(1, 'changes'), decided(1, 'none')]],
  ['a queued pull request is approved', ['approved'], [OPENED, changed(1, { isQueued: true })], APPROVED],
  ['a requested reviewer is a review', ['in review'], [ASKED_FIRST], IN_REVIEW],
  ['a comment is a review', ['in review'], [OPENED, reviewed(1, 'commented')], IN_REVIEW],
  ['a dismissed review is none', [], [OPENED, reviewed(1, 'dismissed')], IN_REVIEW],
  ['27: a closed pull request restores the status', 'planned', [person('planned'), OPENED, later, closed()]],
  ['13: a merged pull request shows as declined', 'completed', [FIX, closed(1, { mergedAt: time(20) })]],
  ['14: a poll reports a merge whose event was lost', 'completed', [FIX, polled(1, { state: 'merged' })]],
  ['12: a title says that a closed pull request was merged', 'completed', [FIX, BORS], LANDED],
  ['a label says that a closed pull request was merged', 'completed', [FIX, closed(1, { labels: ['Landed'] })], LANDED],
  ['another label does not', 'open', [FIX, later, closed(1, { labels: ['other'] })], LANDED],

  // The states of a work item
  ['22: a status that is final already stays', 'merged', [person('merged'), FINISHED], ISSUES],
  ['a completed work item finishes the task', 'completed', [FINISHED], ISSUES],
  ['a task stays finished after its issue leaves', 'completed', [FINISHED, later, issue({ movedAway: 'OUT' })], ISSUES],
  ['a moved work item finishes nothing', 'open', [MOVED], ISSUES],
  ['a moved work item lets the earlier status return', 'open', [MOVED, OPENED, later, closed()], ISSUES],
  ['issues finish their task again', 'completed', [FIX, merged(), FINISHED, later, REOPENED_ISSUE, later, DONE_AGAIN]],
  ['24: dropped work finishes nothing', 'open', [fixed({ state: 'done', isDropped: true })], ISSUES],
  ['25: a regression reopens the task', 'in_progress', [FINISHED, later, REOPENED], ISSUES],
  ['an own rule reopens the task', 'planned', [FINISHED, later, REOPENED_ISSUE], REOPENS],
  ['a started work item is in progress', 'in_progress', [fixed({ state: 'in_progress' })], STARTED],
  ['an open work item is not started', 'open', [UNSTARTED], STARTED],
  ['a rule may name the word of the tracker', 'review', [fixed({ rawState: 'in test' })], IN_TEST],
  ['a rule does not fit another word', 'open', [fixed({ rawState: 'Doing' })], IN_TEST],
  ['a rule for pull requests fits no work item', 'open', [fixed({})], only(opens('review'))],

  // Links
  ['32: the title counts', 'completed', [opened(1, 'Closes BUG-1', { description: '' }), merged()]],
  ['1: prose takes no task out of its end', 'completed', [ENDED, described('Background: BUG-1')]],
  ['3: an address takes no task out of its end', 'completed', [ENDED, ADDRESS]],
  ['2: a title with sibling keys takes none out of its end', 'completed review', [ENDED, BOTH]],
  ['4: a mention finishes nothing', 'completed open', [opened(1, 'BUG-1', { description: 'See BUG-2' }), merged()]],
  ['one of two carried tasks is not finished', 'review', [BOTH, later, merged()]],
  ['16: all closed tasks are finished', 'completed completed', [opened(1, 'Fixes BUG-1, fixes BUG-2'), merged()]],
  ['20: a negated closing word closes nothing', 'open open', [described('Does not close BUG-1. skip BUG-2'), merged()]],
  ['a closing word in the description counts', 'completed', [described('Fixes BUG-1'), merged()]],
  ['ten tasks of one pull request move', 'review', [opened(1, BUGS(10).join())], {}, open(10)],
  ['eleven tasks of one pull request do not', 'open', [opened(1, ELEVEN)], {}, open(11)],
  ['the closed one of 11 moves', 'review open', [described(`Fixes BUG-1. ${ELEVEN}`, { title: ELEVEN })], {}, open(11)],
  ['a rule may count mentions', 'review', [MENTION], only(MENTIONS)],
  ['a rule may want a closing word', 'open', [OPENED], only(opens('review', { when: { ...OPEN, link: 'closing' } }))],
  ['an own rule finishes the only task that a title names', 'merged', [BUG_ON_DEVELOP], first(DEVELOP)],
  ['an own rule finishes none of two named tasks', 'open', [BOTH_ON_DEVELOP], first(DEVELOP), open(2)],
  ['a rule may want a closing word for the end', 'open', [BUG_ON_DEVELOP], CLOSING_ONLY],
  ['a work item finishes the only task of its title', 'completed', [issue({ title: 'BUG-1', state: 'done' })], ISSUES],
  ['a closed pull request cancels a task by an own rule', 'cancelled', [OPENED, later, closed()], CANCELS],
  ['a mention lets the earlier status return', 'open', [OPENED, later, MENTION_2, merged(2), later, closed()]],
  ['an own rule finishes a task by a closing word', 'merged', [opened(1, 'Fixes BUG-1', ON_DEVELOP)], first(DEVELOP)],
  ['17: closing need not be the end', 'review', [FIX, merged()], MERGED_REVIEW],
  ['the default branch of the merge counts', 'completed', [FIX, merged(), later, changed(1, TRUNK)]],
  ['the branches of the merge count beside later work', 'completed', [...DONE, changed(1, TRUNK), FIX_2]],
  ['18: a merge into another branch finishes nothing', 'review', [FIX_ON_DEVELOP, later, merged()]],
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
  ['the first merge finishes by a rule with `several: any`', 'merged', [...TWO, merged(1, ON_DEVELOP)], ANY],
  ['7: a plan of several ends with the last one', 'completed', [OPENED, merged(), later, SECOND, later, merged(2)]],
  ['work that names it later delays the end', 'review', [opened(2, 'Other'), ...DONE, changed(2, { title: 'BUG-1' })]],
  ['a pull request that is opened after the end changes nothing', 'completed', [...DONE, FIX_2]],
  ['work that is opened after the end reopens by `reopen`', 'review', [...DONE, FIX_2], REOPEN],
  ['11: helpers of a queue delay no end', 'completed', [FIX, opened(2, 'Batch BUG-1', BOT), closed(2), merged()]],
  ['a mention does not delay the end', 'completed', [FIX, MENTION_2, merged()], first(MENTIONS)],
  ['work with a merged part is in progress', 'in_progress', [...TWO, merged()], first(opens('planned'))],
  ['the furthest of several pull requests decides', 'review', [OPENED, DRAFT_2]],
  ['the newest of several merges decides', 'merged', [...TWO, merged(), merged(2, ON_DEVELOP)], first(DEVELOP)],
  ['the best of merges at one time decides', 'completed', [...TWO, MERGED_40, MERGED_2_40], first(DEVELOP)],

  // Labels
  ['a rule adds its label', ['wip'], [OPENED], LABELS],
  ['the next rule adds and removes labels', ['staging'], [OPENED, later, merged()], LABELS],
  ['a label that no rule names stays', ['own', 'staging'], [labelled('own'), OPENED, later, merged()], LABELS],
  ['a label that a person takes away stays away', [], [OPENED, later, labelled(), SEEN], LABELS],
  ['a label returns with its condition', ['wip'], [OPENED, later, labelled(), closed(), later, OPEN_AGAIN], LABELS],
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
  ['the revert of a stranger’s work counts', 'in_progress', [FORK, merged(), ...REVERTED_BY_MEMBER]],
  ['a name that a stranger adds after the merge does not count', 'open', [NAMELESS_FORK, merged(), NAMED]],
  ['a stranger’s name after a revert is ignored', 'open', [NAMELESS_FORK, merged(), ...REVERTED_BY_MEMBER, NAMED]],
  [
    'a revert of a late name changes no end',
    'completed',
    [ENDED, NAMELESS_FORK, merged(), NAMED, ...REVERTED_BY_MEMBER],
  ],
  ['a name that a member adds after the merge counts', 'completed', [opened(1, 'A change', MEMBER), merged(), NAMED]],
  ['an approval by a member counts', 'review', [FORK, reviewed(1, 'approved', { isMember: true })]],
  ['an approval by another stranger does not count', 'open', [FORK, APPROVAL]],
  ['a review by anybody counts by `trust: anyone`', 'in_progress', [FORK, CHANGES], { trust: 'anyone' }],
  ['an approval by one whom `trust` names counts', 'review', [FORK, APPROVAL], trusting('Ben')],
  ['a stranger’s open work does not delay the end', 'completed', [FORK, FIX_2, merged(2)]],
  ['a member’s open work delays the end', 'review', [opened(1, 'BUG-1', MEMBER), FIX_2, merged(2)]],
  ['a stranger’s issue in public moves nothing', 'open', [fixed({ state: 'done', ...PUBLIC })], ISSUES],

  // Restores
  ['a restored item moves nothing until confirmed', 'review', [FIX, later, merged(), restored, opened(2, 'BUG-1 b')]],
  ['a restored item that is confirmed moves its task', 'completed', [FIX, later, merged(), restored, SEEN]],

  // Reverts
  ['an open revert reverts nothing', 'completed', [FIX, merged(), revert(2, 1)]],
  ['26: a merged revert takes the task out of its end', 'in_progress', [...DONE, ...REVERTED]],
  ['a closed revert reverts nothing', 'completed', [...DONE, revert(2, 1), closed(2)]],
  ['26: its revert finishes the task again', 'completed', [...DONE, ...REVERTED, later, revert(3, 2), merged(3)]],
  ['the open revert of a revert changes nothing', 'in_progress', [...DONE, ...REVERTED, later, revert(3, 2)]],
  ['a revert that is gone reverts nothing', 'completed', [...DONE, ...REVERTED, later, changed(2, { gone: true })]],
  ['new work finishes a reverted task', 'completed', [FIX, merged(), ...REVERTED, later, FIX_3, merged(3)]],
  ['new open work on a reverted task is a review', 'review', [...DONE, ...REVERTED, later, FIX_3]],
  ['git’s revert is known by its commit', 'in_progress', [FIX, merged(1, COMMITTED), later, REVERT_BY_GIT, merged(2)]],
  ['a revert by git need not name the task', 'in_progress', [FIX, merged(1, COMMITTED), later, ROLL_BACK, merged(2)]],
  ['a revert by git may arrive before the merge', 'in_progress', [FIX, ROLL_BACK, merged(2), merged(1, COMMITTED)]],
  ['a revert by git does no work of its title', 'open', [opened(1, 'Roll back BUG-1', REVERTS_COMMIT), merged()]],
  ['a revert of other work leaves a person’s end', 'completed', [RELEASED_1, merged(), ENDED, later, ...REVERTED]],
  ['a revert of another commit changes no end', 'completed', [FIX, merged(), later, REVERT_BY_GIT, merged(2)]],
  ['a revert of other work changes no end', 'completed', [...DONE, RELEASED_3, merged(3), revert(2, 3), merged(2)]],
  [
    'a revert of other work keeps a waiting end',
    'completed',
    [FIX, merged(), RELEASED_3, merged(3), ...OTHER_REVERTED],
  ],
  ['a revert without a time of its merge counts', 'in_progress', [...DONE, revert(2, 1), MERGED_UNDATED]],
  ['a title with `Revert` does not do the work that it quotes', 'open', [opened(1, 'Revert "Fixes BUG-1"'), merged()]],
  ['a title that reverts a revert does', 'completed', [opened(1, 'Revert "Revert "Fixes BUG-1""'), merged()]],
  ['the revert by a stranger reverts nothing', 'completed', [...DONE, revert(2, 1, STRANGER), merged(2)]],
  ['an own rule sets another status for reverted work', 'planned', [...DONE, ...REVERTED], REPLANS],
  ['a revert lowers a status that a person set', 'in_progress', [...DONE, person('review'), ...REVERTED]],

  // Statuses of the workspace beyond those of the specification
  ['an added status is written by its word', 'QA', [OPENED, APPROVAL], ADDED],
  ['an added status that ranks after review outranks it', 'QA', [OPENED, APPROVAL, SECOND], ADDED],
  ['an added status that a person set is not lowered', 'QA', [person('QA'), OPENED], ADDED],
  ['the rules lower an added status that they set', 'in_progress', [OPENED, APPROVAL, DRAFTED], ADDED],
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
  ['a pull request from before the rules moves nothing when a label first reports it', 'open', [OFF, ON, UNHEARD]],
  ['work older than the rules moves its task by a new state', 'in_progress', [OFF, OPENED, ON, CHANGES]],
  ['older merged work lets the status return', 'open', [OFF, FIX, merged(), ON, SECOND, later, closed(2)]],
  ['work older than the rules does not outrank newer work', 'in_progress', [OFF, OPENED, ON, DRAFT_2]],
  ['work older than the rules delays no end', 'completed', [OFF, OPENED, ON, FIX_NEW, later, merged(2)]],
  ['a task keeps its status when its rules are off and on again', 'review', [OPENED, later, OFF, ON, SEEN]],
  ['work older than a change of rules still delays the end', 'review', [...TWO, later, OTHER_RULES, merged()]],
  ['a merge that waits is kept by rules that want it', 'completed', [FIX, later, merged(), OTHER_RULES]],
  ['`since` reaches back', 'completed', [FIX, later, OFF, merged(), configured({ since: 0 })]],
  ['a merge that arrives after a change of the rules moves its task', 'completed', [FIX, later, MERGED_MEANWHILE]],
  ['a changed rule moves nothing old', 'review', [FIX, later, PLANS]],
  ['28: a task that is only linked stays', 'open', [OPENED], ELSEWHERE],

  // People
  ['a person’s status stands until newer work', 'planned', [...EDITED, SEEN]],
  ['a change that may be older than a person’s edit does not', 'planned', [...EDITED, DRAFTED]],
  ['one that is certainly newer does', 'in_progress', [...EDITED, SEEN, DRAFTED]],
  ['a review after a person’s edit moves the task', 'review', [...EDITED, APPROVAL]],
  ['a dated start after an edit moves the task', 'in_progress', [UNSTARTED, person('planned'), STARTED_30], STARTED],
  ['a start that may be before an edit does not', 'planned', [UNSTARTED, person('planned'), STARTED_NOW], STARTED],
  ['a person’s status does not stand against `force`', 'review', [...EDITED, SEEN], FORCE],
  ['a rule may set a status of the same rank', 'planned', [person('idea'), OPENED], first(opens('planned'))],
  ['closed work restores no status over that of a person', 'planned', [OPENED, later, person('planned'), closed()]],
  ['8: a status that a person set is not lowered', 'review', [person('review'), DRAFT]],
  ['a rule with `back` lowers a person’s status', 'in_progress', [person('review'), DRAFT], BACK],
  ['requested changes lower a person’s status', 'in_progress', [OPENED, later, person('review'), CHANGES]],
  ['a finished task stays finished', 'cancelled', [person('cancelled'), FIX]],
  ['`blocked` is left to finish', 'completed', [DRAFT, later, person('blocked'), merged()]],
  ['`blocked` is not left for progress', 'blocked', [person('blocked'), FIX]],
  ['a status that no rule knows is not left', 'Triage', [person('Triage'), OPENED]],
  ['a status that `from` names is left', 'review', [person('Triage'), OPENED], FROM_TRIAGE],
  ['a status that `from` does not name is not left', 'open', [OPENED], first(opens('review', { from: ['planned'] }))],
  ['work from before a person reopened a task does not finish it', 'open', [...DONE, person('open'), SEEN]],
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

describe('the fields of a task that follow its work item', () => {
  // The fields of a task that follow the work item for which it was created: title and labels.

  const ISSUE = workItem({
    url: 'https://acme.example.com/browse/ENG-1',
    title: 'New',
    labels: ['a'],
    state: 'in_progress',
  });
  const SENT = JSON.stringify({ title: 'Old', labels: ['a'] });
  const CREATED = { item_key: ISSUE.key, remote_id: 't1', desired: SENT, known: SENT };
  const TASK = { taskId: 't1', key: 'BUG-1', title: 'Old', status: 'open', source: ISSUE.key, updatedAt: '' };
  const UPDATE = entity.taskUpdate('t1');

  const rulesWith = (statuses: boolean) =>
    createRules({
      ...{ trailers: ['Task'], links: [], addresses: [], users: {}, grammars: [], documents: false },
      triage: [{ when: {}, create: 'bug', title: '{title}', labels: [], since: 0, sync: ['title', 'labels'] }],
      ...(statuses && {
        workflow: {
          ...{ several: 'all', bots: 'names', since: 0 },
          rules: [{ when: { workItem: ['started'] }, set: { status: 'in_progress', addLabels: ['wip'] } }],
        } as never,
      }),
    });

  interface Before {
    readonly item?: Partial<WorkItem>;
    readonly creation?: Partial<EntityRow>;
    /** The facts that worksync remembers about the task, and the update that it wanted last. */
    readonly known?: object;
    readonly wanted?: TaskUpdate;
    readonly change?: Partial<OutboxRow>;
    /** Rules set the status of the task too. */
    readonly statuses?: boolean;
    /** Columns of the stored item. */
    readonly stored?: { readonly gone: 1 } | { readonly unverified: 1 };
    readonly sources?: typeof SOURCES;
  }

  /** Returns the update of the task, after its item is evaluated. */
  async function updateOf(before: Before): Promise<TaskUpdate | undefined> {
    const { item, creation, known, wanted, change, statuses = false, stored, sources = SOURCES } = before;
    const { query, commit } = await openTestStore();
    await saveTask(query, TASK, START);
    await saveEntity(query, blankEntity(entity.task(ISSUE.key), 'task', CREATED));
    await commit((own) => takeBatch(own, [saidOf({ ...ISSUE, ...item })], 1));
    if (stored) await query.updateTable('items').set(stored).execute();
    if (creation) await saveEntity(query, blankEntity(entity.task(ISSUE.key), 'task', { ...CREATED, ...creation }));
    const texts = { known: known ? JSON.stringify(known) : null, desired: wanted ? JSON.stringify(wanted) : null };
    await saveEntity(query, blankEntity(UPDATE, 'task_update', { task_id: 't1', ...texts }));
    if (change) {
      const times = { since: 1, due: 1, weight: 1, waiting: [] };
      await addDifference(query, { entity: UPDATE, kind: 'task_update', lane: 'status', ...times });
      await updateChange(query, UPDATE, change);
    }
    const context = { now: START + 5_000, usedShare: 0, rules: rulesWith(statuses), sources };
    await commit((own) => evaluateTaskUpdate(context, own, 't1'));
    const isWanted = (await findChange(query, UPDATE)) !== undefined;
    return isWanted ? json<TaskUpdate>((await findEntity(query, UPDATE))?.desired ?? null) : undefined;
  }

  const FAILED = { state: 'held', error: 'refused: no' } as const;
  const HELD = { ...FAILED, guard: 'held' } as const;
  const MOVE: TaskUpdate = { from: 'open', status: 'in_progress', addLabels: ['wip'] };
  const itemLabels = { all: ['a'], add: ['a'], remove: [], added: [] };
  const TITLE = { fields: { title: 'New' } };
  const OF_PERSON = { fields: { title: { isTheirs: true } } };

  it.each<[claim: string, expected: object | undefined, before: Before]>([
    ['follow the item', { ...TITLE, from: 'open' }, {}],
    ['stay if the item is the same', undefined, { item: { title: 'Old' } }],
    ['stay if a person has edited them', undefined, { known: OF_PERSON }],
    ['stay if the item is gone', undefined, { stored: { gone: 1 } }],
    ['stay if the item is not confirmed since a restore', undefined, { stored: { unverified: 1 } }],
    ['stay if the item was moved', undefined, { item: { movedTo: 'jira:cloud-1:10002' } }],
    ['stay if its connection was removed', undefined, { sources: new Map([['other', TRACKER]]) }],
    ['stay if the creation is not known', undefined, { creation: { known: null } }],
    ['stay if another task was created for the item', undefined, { creation: { remote_id: 't2' } }],
    ['stay while an update is in flight', MOVE, { wanted: MOVE, change: { state: 'sending' } }],
    ['are written with the status', { ...MOVE, ...TITLE }, { statuses: true }],
    ['wait if the same status failed alone', MOVE, { statuses: true, wanted: MOVE, change: FAILED }],
    ['do not wait for a status that the guard holds', TITLE, { statuses: true, wanted: MOVE, change: HELD }],
    ['do not wait if they failed together', TITLE, { statuses: true, wanted: { ...MOVE, ...TITLE }, change: FAILED }],
    ['do not wait if labels failed too', TITLE, { statuses: true, wanted: { ...MOVE, itemLabels }, change: FAILED }],
    ['wait for no other status', TITLE, { statuses: true, wanted: { ...MOVE, status: 'review' }, change: FAILED }],
    ['do not wait for a status that waits', TITLE, { statuses: true, wanted: MOVE, change: { state: 'pending' } }],
    ['add an item label', { itemLabels: { add: ['b'], remove: [] } }, { item: { title: 'Old', labels: ['a', 'b'] } }],
    ['remove a label of the item', { itemLabels: { add: [], remove: ['a'] } }, { item: { title: 'Old', labels: [] } }],
    ['add no label that a rule adds', MOVE, { statuses: true, item: { title: 'Old', labels: ['a', 'wip'] } }],
    ['remove no label that a rule added', undefined, { known: { labels: ['+a'] }, item: { title: 'Old', labels: [] } }],
  ])('synced fields %s', async (_claim, expected, before) => {
    const update = await updateOf(before);
    if (expected) expect(update).toMatchObject(expected);
    else expect(update).toBeUndefined();
    if (expected === MOVE) expect(update).not.toMatchObject(TITLE);
    if (expected === MOVE) expect(update).not.toHaveProperty('itemLabels');
  });
});

// Updates that nothing wants any more.

const NAME = entity.taskUpdate('t1');
const CACHED = { taskId: 't1', key: 'BUG-1', title: '', source: 'api', status: 'open', updatedAt: '' };
const CHANGE = { entity: NAME, kind: 'task_update', lane: 'status', since: 1, due: 1, weight: 1, waiting: [] } as const;
const CONTEXT = { now: START, usedShare: 0, rules: PLAIN_RULES, sources: SOURCES };
const WITHOUT_PRESET = createRules({
  ...{ trailers: [], links: [], addresses: [], users: {}, grammars: [], documents: false, triage: [] },
  workflow: {
    rules: [{ when: { pullRequest: ['open'] }, set: { status: 'review' } }],
    several: 'all',
    bots: 'names',
    since: 0,
  },
});
const UNKNOWN = { sent: JSON.stringify({ body: { status: 'review', from: 'open' } }) };

it.each<[claim: string, isKept: boolean, change: Partial<OutboxRow>]>([
  ['withdraws an update that waits', false, { state: 'pending' }],
  ['withdraws a held update', false, { state: 'held' }],
  ['keeps an update in flight', true, { state: 'sending', ...UNKNOWN }],
  ['keeps an update whose outcome is unknown', true, UNKNOWN],
])('%s if nothing wants it any more, or if the task is gone', async (_claim, isKept, change) => {
  for (const isGone of [false, true]) {
    const { query, commit } = await openTestStore();
    if (!isGone) await saveTask(query, CACHED, START);
    await addDifference(query, CHANGE);
    await updateChange(query, NAME, change);
    await commit((own) => evaluateTaskUpdate(CONTEXT, own, 't1'));
    expect((await findChange(query, NAME)) !== undefined).toBe(isKept);
  }
});

const TO_REVIEW: TaskUpdate = { status: 'review', from: 'open' };
const TO_WIP: TaskUpdate = { addLabels: ['wip'], from: 'open' };

it.each<[claim: string, desired: object | undefined, status: string, ...sent: TaskUpdate[]]>([
  ['is confirmed if it may have moved the task', { from: 'open' }, 'open', TO_REVIEW],
  ['is confirmed if an earlier attempt may have moved the task', { from: 'open' }, 'open', TO_REVIEW, TO_WIP],
  ['is not confirmed if the task has its status', undefined, 'review', TO_REVIEW],
  ['is not confirmed if it sets no status', undefined, 'open', TO_WIP],
])('an unwanted update whose outcome is unknown %s', async (_claim, desired, status, ...attempted) => {
  const { query, commit } = await openTestStore();
  await saveTask(query, { ...CACHED, status }, START);
  const row = blankEntity(NAME, 'task_update', { task_id: 't1' });
  await saveEntity(query, { ...row, known: '{}', desired: JSON.stringify(TO_REVIEW) });
  await addDifference(query, CHANGE);
  await updateChange(query, NAME, { sent: JSON.stringify({ body: attempted.pop(), attempted }) });
  await commit((own) => evaluateTaskUpdate({ ...CONTEXT, rules: WITHOUT_PRESET }, own, 't1'));
  const stored = await findEntity(query, NAME);
  expect(json<TaskUpdate>(stored?.desired ?? null)).toEqual(desired);
  // A task with the status of an attempt was moved by it.
  expect(json<WrittenStatus>(stored?.known ?? null)?.status).toBe(status === 'review' ? 'review' : undefined);
});

it('releases no status of a task that is gone', async () => {
  const { commit } = await openTestStore();
  expect(await commit((own) => releaseTaskStatus(own, PLAIN_RULES.workflow, 't1', START))).toBe(false);
});
