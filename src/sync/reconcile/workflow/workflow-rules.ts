// Design: src/decisions/workflow.md

import { createHash } from 'node:crypto';
import { type Item, movedToOf, type PullRequest, type Review } from '../../../model/item.ts';
import { isFinalStatus, rankOf, statusNames, type TaskStatuses } from '../../../model/task-status.ts';
import { type PhaseName, PREVIOUS, STRENGTHS, type Strength } from '../../../model/workflow.ts';
import type { WorkflowConfig } from '../../../platform/config/rules-schema.ts';
import { createGlob, createPattern, type Pattern } from '../../../platform/lib/pattern.ts';
import type { Phase } from './phase.ts';

type Names = readonly string[];
type ConfiguredRule = WorkflowConfig['rules'][number];

/** One rule of the configuration. An absent condition matches every item. */
export type WorkflowRule = Pick<ConfiguredRule, 'when' | 'set'> & Partial<ConfiguredRule>;

export interface WorkflowInput extends Omit<WorkflowConfig, 'rules'> {
  readonly rules: readonly WorkflowRule[];
  /** Absent: those of the specification. */
  readonly statuses?: TaskStatuses | undefined;
  /** Returns whether an author is one of the configured users of the workspace. */
  readonly isUser?: ((item: Item, connection: string) => boolean) | undefined;
}

/** The preset `standard`. Its rules come after the configured ones. */
const STANDARD: readonly WorkflowRule[] = [
  { when: { pullRequest: ['reverted'] }, set: { status: 'in_progress' } },
  { when: { pullRequest: ['merged'], base: ['default'] }, set: { status: 'completed' } },
  { when: { pullRequest: ['changes'] }, set: { status: 'in_progress' }, back: true },
  { when: { pullRequest: ['open', 'review', 'approved', 'queued'] }, set: { status: 'review' } },
  { when: { pullRequest: ['draft'] }, set: { status: 'in_progress' } },
  { when: { pullRequest: ['closed'] }, set: { status: PREVIOUS } },
  { when: { workItem: ['reopened'] }, set: { status: 'in_progress' } },
];

/** Version of the rules' semantics. A new version counts as a change of all rules, so that it moves nothing old. */
const SEMANTICS_VERSION = 3;

/** Returns whether a rule depends on the decision of reviewers. */
export function needsReviews({ preset, rules }: Pick<WorkflowInput, 'preset' | 'rules'>): boolean {
  const phases: Names = [...(preset ? STANDARD : []), ...rules].flatMap(({ when }) => when.pullRequest ?? []);
  return ['approved', 'changes', 'review'].some((phase) => phases.includes(phase));
}

/** The status and labels that a rule wants because of one item. */
export interface Contribution {
  /** Name of the rule for people: `rule 2`, or `standard: merged`. */
  readonly rule: string;
  readonly status: string | undefined;
  /** Undefined without a status, for `previous`, and for a status that is never compared. */
  readonly rank: number | undefined;
  readonly isFinal: boolean;
  readonly from: ReadonlySet<string>;
  /** May set a lower status than the one that a person set. */
  readonly mayGoBack: boolean;
  readonly several: 'all' | 'any';
  readonly force: boolean;
  readonly reopen: boolean;
  readonly addLabels: Names;
  readonly removeLabels: Names;
}

/** Why an item does not count for its task. */
export type NotCounted =
  | 'mention-only'
  | 'not-closing'
  | 'base'
  | 'untrusted'
  | 'bot-text'
  | 'too-many-tasks'
  | 'late-name'
  | 'moved'
  | 'older-than-rule'
  | 'no-connection'
  | 'no-rule';

export interface Uncounted {
  readonly why: NotCounted;
  /** The missing condition, for people. */
  readonly detail?: string;
}

/** An item that is linked to the task, with the facts that rules test. */
export interface LinkedItem {
  /** Name of the item for people: `acme/shop#347`. */
  readonly name: string;
  readonly item: Item;
  readonly connection: string;
  readonly phase: Phase;
  readonly strength: Strength;
  /** Where the text names the task: `branch`, `title`, `trailer`, `description`, `commit`, `hand` or `triage`. */
  readonly place: string;
  /** The provider's time of the state whose text named the task first, epoch milliseconds. */
  readonly namedAt?: number | undefined;
  /** Tasks that the item carries, this one included. */
  readonly carried: number;
  /** The item has a closing link to another task. */
  readonly closesOther: boolean;
}

export type Judgement =
  | {
      readonly counts: true;
      readonly contribution: Contribution;
      readonly isTrusted: boolean;
      /** The item had finished the task before it was reverted. */
      readonly hadFinished: boolean;
    }
  | ({ readonly counts: false; readonly isTrusted: boolean } & Uncounted);

export interface Workflow {
  /** Whether any rule is configured. */
  readonly isOn: boolean;
  /** Identifies the rules. */
  readonly id: string;
  readonly since?: number | undefined;
  readonly statuses: TaskStatuses;
  /** Returns what the rules make of an item. Pure. @param kind the kind of the task, if the workspace reports it */
  judge(linked: LinkedItem, kind?: string): Judgement;
  isTrusted(item: Item, connection: string): boolean;
  /** Whether the label or the title of a closed pull request says that it was merged. */
  hasLanded(item: PullRequest): boolean;
  /** The first rule that returns a task to its previous status, if its work was given up. */
  readonly onAbandoned?: Contribution | undefined;
  /** Whether a review of this pull request counts. */
  hasSay(item: PullRequest, review: Review): boolean;
}

/** @param connections the names of the configured connections; absent: the items of all connections count */
export function createWorkflow(input: WorkflowInput | undefined, connections?: ReadonlySet<string>): Workflow {
  if (input === undefined || (input.preset === undefined && input.rules.length === 0)) return OFF;
  const { statuses = {} } = input;
  const own = input.rules.map((rule, index) => compile(rule, `rule ${index + 1}`, input));
  const standard = input.preset ? STANDARD.map((rule) => compile(rule, nameOfStandard(rule), input)) : [];
  const rules = [...own, ...standard];
  const people = peopleOf(input);
  const isTrusted = createIsTrusted(input);
  const hadFinished = (linked: LinkedItem, kind: string | undefined) => {
    if (linked.phase.name !== 'reverted') return false;
    const merged: LinkedItem = { ...linked, phase: { ...linked.phase, name: 'merged' } };
    return rules.find(({ test }) => test(merged, kind) === true)?.contribution.isFinal === true;
  };
  const title = input.landed?.title && createPattern(input.landed.title);
  const labels = input.landed?.label?.map(createGlob) ?? [];

  return {
    isOn: true,
    id: createHash('sha256')
      .update(JSON.stringify([SEMANTICS_VERSION, input]))
      .digest('hex')
      .slice(0, 16),
    since: input.since,
    statuses,
    isTrusted,
    onAbandoned: rules.find(({ contribution }) => contribution.status === PREVIOUS)?.contribution,
    judge(linked, kind) {
      const trusted = isTrusted(linked.item, linked.connection);
      if (connections?.has(linked.connection) === false)
        return { counts: false, isTrusted: trusted, why: 'no-connection', detail: linked.connection };
      const doubt = doubtOf(linked, trusted, input.bots, people.has(lower(linked.item.author ?? '')));
      if (doubt) return { counts: false, isTrusted: trusted, ...doubt };
      const misses: Uncounted[] = [];
      for (const rule of rules) {
        const result = rule.test(linked, kind);
        if (result === true) {
          const isEndReverted = hadFinished(linked, kind);
          const isReverted = linked.phase.name === 'reverted' && !isEndReverted;
          // The revert of work that finished nothing leaves no end.
          const contribution = isReverted ? withoutEnds(rule.contribution, statuses) : rule.contribution;
          return { counts: true, contribution, isTrusted: trusted, hadFinished: isEndReverted };
        }
        if (result) misses.push(result);
      }
      return { counts: false, isTrusted: trusted, ...missOf(linked, misses) };
    },
    hasLanded: (item) =>
      (title?.test(item.title ?? '') ?? false) || labels.some((glob) => item.labels?.some((label) => glob.test(label))),
    hasSay: (item, { reviewer, isMember }) =>
      isMember === true || item.isPublic === false || input.trust === 'anyone' || people.has(lower(reviewer)),
  };
}

function withoutEnds(contribution: Contribution, statuses: TaskStatuses): Contribution {
  const from = [...contribution.from].filter((status) => !isFinalStatus(statuses, status));
  return { ...contribution, from: new Set(from) };
}

/** Creates the function that decides whether the author of an item is trusted. It needs no rules for task states. */
export function createIsTrusted(input: Pick<WorkflowInput, 'trust' | 'isUser'>): Workflow['isTrusted'] {
  const people = peopleOf(input);
  return (item, connection) => {
    const isKnown = people.has(lower(item.author ?? '')) || (input.isUser?.(item, connection) ?? false);
    if (input.trust === 'anyone' || item.isAuthorMember || isKnown) return true;
    // Most trackers are private and do not say so.
    if (item.kind === 'work_item') return item.isPublic !== true;
    return item.isPublic === false || item.isFork === false;
  };
}

/** Returns the logins that are listed under `trust`, in lower case. */
function peopleOf({ trust }: Pick<WorkflowInput, 'trust'>): ReadonlySet<string> {
  return new Set((typeof trust === 'object' ? trust.people : []).map(lower));
}

const OFF: Workflow = {
  isOn: false,
  id: '',
  statuses: {},
  isTrusted: () => false,
  judge: () => ({ counts: false, isTrusted: false, why: 'no-rule' }),
  hasLanded: () => false,
  hasSay: () => false,
};

function lower(text: string): string {
  return text.toLowerCase();
}

/** An item that carries more tasks is a list of them: only its closing links count. */
const MAX_CARRIED = 10;

/** Phases that only people who may write to the repository can cause. */
const BY_MEMBERS: ReadonlySet<PhaseName> = new Set<PhaseName>(['merged', 'reverted', 'approved', 'changes', 'queued']);

/**
 * Returns why an item does not count under any rule; undefined if rules decide.
 *
 * @param isListed the author is listed under `trust`, so that bots of that name count as people
 */
function doubtOf(
  linked: LinkedItem,
  isTrusted: boolean,
  bots: WorkflowInput['bots'],
  isListed: boolean,
): Uncounted | undefined {
  const { item, strength, place, phase, carried, namedAt } = linked;
  const movedTo = movedToOf(item);
  if (movedTo !== undefined) return { why: 'moved', detail: movedTo };
  if (item.isBot && !isListed && bots !== 'count') {
    if (bots === 'ignore') return { why: 'bot-text', detail: 'bots are ignored' };
    if (['description', 'commit'].includes(place)) return { why: 'bot-text', detail: `${place} of a bot` };
  }
  if (strength !== 'closing' && carried > MAX_CARRIED) return { why: 'too-many-tasks', detail: `${carried} tasks` };
  if (isTrusted) return undefined;
  if (item.kind === 'work_item') return place === 'triage' || place === 'hand' ? undefined : { why: 'untrusted' };
  if (!BY_MEMBERS.has(phase.name)) return { why: 'untrusted', detail: 'not merged, no decision of a reviewer' };
  const isMerged = phase.name === 'merged' || phase.name === 'reverted';
  const mergedAt = item.mergedAt == null ? phase.at : Date.parse(item.mergedAt);
  const isLate = isMerged && place !== 'hand' && namedAt !== undefined && namedAt > mergedAt;
  return isLate ? { why: 'late-name' } : undefined;
}

interface CompiledRule {
  readonly contribution: Contribution;
  /** Returns true if the rule applies, a reason if only link or base are missing, and undefined otherwise. */
  test(linked: LinkedItem, kind: string | undefined): true | Uncounted | undefined;
}

function compile(rule: WorkflowRule, name: string, { several, statuses = {} }: WorkflowInput): CompiledRule {
  const { when, set, from, back = false, force = false, reopen = false } = rule;
  const isFinal = set.status !== undefined && isFinalStatus(statuses, set.status);
  const phases = [when.pullRequest ?? [], Array.isArray(when.workItem) ? when.workItem : []].flat() as Names;
  const isOfReversal = phases.includes('reverted') || phases.includes('reopened');
  const mayReopen =
    reopen || phases.includes('reverted') || (when.workItem !== undefined && phases.includes('reopened'));
  const conditions = conditionsOf(when);
  const isBase = when.base && createBaseMatcher(when.base);
  return {
    contribution: {
      rule: name,
      status: set.status,
      rank: set.status === undefined ? undefined : rankOf(statuses, set.status),
      isFinal,
      from: new Set(from ?? statusesToLeave(statuses, isFinal, mayReopen)),
      mayGoBack: back || isOfReversal || phases.includes('changes'),
      several: rule.several ?? several,
      force,
      reopen,
      addLabels: set.addLabels ?? [],
      removeLabels: set.removeLabels ?? [],
    },
    test(linked, kind) {
      if (!isPhaseMet(when, linked) || !conditions.every((condition) => condition(linked, kind))) return undefined;
      const { item } = linked;
      if (isBase && item.kind === 'pull_request' && !isBase(branchesOf(item)))
        return { why: 'base', detail: `${name} wants ${when.base?.join(', ')}` };
      return hasLink(linked, when.link, isFinal) || missingLink(linked, isFinal);
    },
  };
}

/** Returns the statuses that a rule without `from` leaves. */
function statusesToLeave(statuses: TaskStatuses, isFinal: boolean, mayReopen: boolean): Names {
  const rank = (status: string) => rankOf(statuses, status) ?? Number.POSITIVE_INFINITY;
  return statusNames(statuses)
    .filter((status) => {
      if (rankOf(statuses, status) === undefined) return isFinal && status === 'blocked';
      return !isFinalStatus(statuses, status) || (mayReopen && status !== 'cancelled');
    })
    .toSorted((left, right) => rank(left) - rank(right));
}

function nameOfStandard({ when }: WorkflowRule): string {
  return `standard: ${[when.pullRequest ?? when.workItem ?? []].flat()[0] as string}`;
}

function isPhaseMet({ pullRequest, workItem }: WorkflowRule['when'], { item, phase }: LinkedItem): boolean {
  const wanted = item.kind === 'pull_request' ? pullRequest : workItem;
  if (wanted === undefined) return pullRequest === undefined && workItem === undefined;
  if ('status' in wanted) return item.rawState !== undefined && wanted.status.map(lower).includes(lower(item.rawState));
  const names: Names = wanted;
  if (names.includes('reopened') && phase.reopenedAt !== undefined) return true;
  // Without a rule for the queue, a queued pull request counts as approved.
  return names.includes(phase.name) || (phase.name === 'queued' && names.includes('approved'));
}

type Condition = (linked: LinkedItem, kind: string | undefined) => boolean;

function conditionsOf(when: WorkflowRule['when']): readonly Condition[] {
  const values: Readonly<Record<string, (linked: LinkedItem) => readonly (string | null | undefined)[]>> = {
    connection: ({ connection }) => [connection],
    repository: ({ item }) =>
      item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName],
    labels: ({ item }) => item.labels ?? [],
    author: ({ item }) => [item.author],
  };
  const conditions = Object.entries(values).flatMap(([name, valuesOf]): Condition[] => {
    const names: Names = when[name as 'connection'] ?? [];
    if (names.length === 0) return [];
    const matches = createNameMatcher(names);
    return [(linked) => matches(valuesOf(linked))];
  });
  const task: Names | undefined = when.task;
  return task === undefined
    ? conditions
    : [...conditions, (_linked, kind) => kind !== undefined && task.includes(kind)];
}

/** Returns a function that tells whether one of these values is one of the names of a rule, which are globs. */
export function createNameMatcher(names: Names): (values: readonly (string | null | undefined)[]) => boolean {
  const globs = names.map(createGlob);
  return (values) => values.some((value) => value != null && matchesAny(globs, value));
}

function matchesAny(globs: readonly Pattern[], text: string): boolean {
  return globs.some((glob) => glob.test(text));
}

/**
 * Returns a function that compares a base branch with the names of a rule.
 *
 * @param names globs; `default` is the default branch, and `!name` excludes
 */
export function createBaseMatcher(
  names: Names,
): (branches: Pick<PullRequest, 'baseBranch' | 'defaultBranch'>) => boolean {
  const isDefault = names.includes('default');
  const globs = names.filter((name) => name !== 'default' && !name.startsWith('!')).map(createGlob);
  const excluded = names.filter((name) => name.startsWith('!')).map((name) => createGlob(name.slice(1)));
  return ({ baseBranch, defaultBranch }) => {
    if (baseBranch === undefined) return false;
    const isNamed = (isDefault && baseBranch === defaultBranch) || matchesAny(globs, baseBranch);
    return isNamed && !matchesAny(excluded, baseBranch);
  };
}

/** Returns the branches of a pull request, those of its merge if it is merged. */
function branchesOf(item: PullRequest): Pick<PullRequest, 'baseBranch' | 'defaultBranch'> {
  const { mergedBaseBranch: baseBranch = item.baseBranch, mergedDefaultBranch: defaultBranch = item.defaultBranch } =
    item;
  return { ...(baseBranch !== undefined && { baseBranch }), ...(defaultBranch !== undefined && { defaultBranch }) };
}

/**
 * Returns why no rule applies: what the first rule misses whose base matches. If none does, the detail names the bases of all rules.
 */
function missOf({ item }: LinkedItem, misses: readonly Uncounted[]): Uncounted {
  const [first = { why: 'no-rule' }] = misses.toSorted(
    (left, right) => Number(left.why === 'base') - Number(right.why === 'base'),
  );
  if (first.why !== 'base' || item.kind !== 'pull_request') return first;
  const wants = misses.flatMap(({ why, detail }) => (why === 'base' ? (detail ?? []) : []));
  const { baseBranch = 'not known', defaultBranch = 'not known' } = branchesOf(item);
  return { why: 'base', detail: `its base is ${baseBranch}, the default branch ${defaultBranch}; ${wants.join('; ')}` };
}

/** @param needed the link that the rule names. Absent: a final status needs a finishing link, others a carrying one */
function hasLink(linked: LinkedItem, needed: Strength | undefined, isFinal: boolean): boolean {
  if (needed === undefined && isFinal) return isFinishing(linked);
  return STRENGTHS.indexOf(linked.strength) <= STRENGTHS.indexOf(needed ?? 'carrying');
}

/** Whether the link is a closing one, or the only carrying one of an item that closes no other task. */
function isFinishing({ strength, place, carried, closesOther }: LinkedItem): boolean {
  if (strength === 'closing') return true;
  const isInName = ['branch', 'title', 'trailer', 'hand'].includes(place);
  return strength === 'carrying' && isInName && carried === 1 && !closesOther;
}

function missingLink({ item, strength }: LinkedItem, isFinal: boolean): Uncounted {
  if (strength !== 'mentioning') return { why: isFinal ? 'not-closing' : 'mention-only' };
  return {
    why: 'mention-only',
    ...(isRevert(item) && { detail: 'it is a revert, and does none of the work that it names' }),
  };
}

/** A title that git, GitHub and Bitbucket give to a revert. The title of the revert of a revert begins with two of these. */
const REVERT_TITLE = /^(?:Revert ")+/;

/** Whether a pull request reverts another one: its texts quote the names in the title of that one, and do none of the work. */
export function isRevert(item: Item): boolean {
  if (item.kind !== 'pull_request') return false;
  const [reverts = ''] = REVERT_TITLE.exec(item.title ?? '') ?? [];
  return item.reverts != null || item.revertsCommit != null || (reverts.length / 'Revert "'.length) % 2 === 1;
}
