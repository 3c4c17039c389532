import type { Finding } from '../../connectors/connector.ts';
import { isFinalStatus, serverStatus, statusNames, type TaskStatuses } from '../../model/task-status.ts';
import { STRENGTHS } from '../../model/workflow.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { nearest } from '../../platform/lib/text.ts';
import { type OpenPullRequest, openPullRequests } from '../../store/items/items.ts';
import { createBaseMatcher, createNameMatcher } from '../../sync/reconcile/workflow/workflow-rules.ts';
import type { ActiveConnection } from '../../sync/workspace-context.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { mayCover } from '../tasks/pull-request-tasks.ts';

type Workflow = NonNullable<WorkspaceConfig['rules']['workflow']>;
type Rule = Workflow['rules'][number];

interface NamedRule {
  readonly rule: Rule;
  /** `rule 2 of rules.workflow` */
  readonly name: string;
}

/** The statuses and labels of the listed tasks, as the server spells them. */
export interface TaskValues {
  readonly statuses: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;
}

/** The kinds of items and the repositories that a connection can provide. */
interface ItemSource {
  readonly name: string;
  readonly pullRequests: boolean;
  readonly workItems: boolean;
  mayCover(repository: string): boolean;
}

interface WorkspaceFacts extends TaskValues {
  readonly pullRequests: readonly OpenPullRequest[];
  readonly sources: readonly ItemSource[];
}

const MOST_PULL_REQUESTS = 500;

export async function checkRules(
  { config, store, connections }: Pick<OpenWorkspace, 'config' | 'store' | 'connections'>,
  values: TaskValues,
  subject: string,
): Promise<Finding[]> {
  const sources = connections.map(itemSource);
  const triage = triageFindings(config, sources, subject);
  if (config.rules.workflow === undefined) return triage;
  const pullRequests = await openPullRequests(store.query, MOST_PULL_REQUESTS);
  return [...triage, ...workflowFindings(config, { ...values, pullRequests, sources }, subject)];
}

/** Warns of rules for new tasks that no work item can fit. */
function triageFindings(config: WorkspaceConfig, sources: readonly ItemSource[], subject: string): Finding[] {
  const warnings = config.rules.triage.flatMap(({ when }, index) => {
    const name = `rule ${index + 1} of rules.triage`;
    const items = { workItem: true, connection: when.connection, repository: when.project };
    const missing = withoutItems(items, name, sources);
    return missing.length > 0 ? missing : uncovered(items, name, sources);
  });
  return warnings.map(([message = '', hint = '']): Finding => ({ level: 'warning', subject, message, hint }));
}

function itemSource(connection: ActiveConnection): ItemSource {
  const { name, connector, options } = connection;
  return {
    name,
    pullRequests: connector.capabilities.pullRequests === true,
    workItems: connector.capabilities.workItems === true && connector.withIssues?.(options) !== false,
    mayCover: (repository) => mayCover(connection, repository),
  };
}

export function workflowFindings(config: WorkspaceConfig, facts: WorkspaceFacts, subject: string): Finding[] {
  const { workflow } = config.rules;
  if (workflow === undefined) return [];
  const isOnServer = config.workspace.url !== undefined;
  const rules = workflow.rules.map((rule, index) => ({ rule, name: `rule ${index + 1} of rules.workflow` }));
  const warnings = [
    ...rules.flatMap(({ rule, name }, index) => {
      const earlier = rules.slice(0, index).find((other) => covers(other.rule, rule, config.workspace.statuses));
      return earlier
        ? [[`${name} never applies: ${earlier.name} takes all its items`, 'Put it before that rule.']]
        : [];
    }),
    ...rules
      .filter(({ rule }) => rule.force)
      .map(({ rule: { from }, name }) => [
        `${name} has "force": it undoes what people do${from ? ', and its "from" has no effect' : ''}`,
        'Leave "force" out unless you want that.',
      ]),
    ...rules.flatMap((each) => unknownBase(each, facts)),
    ...rules.flatMap(({ rule, name }) => withoutItems(rule.when, name, facts.sources)),
    ...rules.flatMap((each) => unknownRepository(each, facts)),
    ...rules.flatMap((each) => unknownFrom(each, facts, statusNames(config.workspace.statuses))),
    ...rules.flatMap((each) => (isOnServer ? unknownLabels(each, facts) : [])),
    ...missingEvents(config, workflow),
    ...finalMerged(config, rules),
  ].map(([message, hint]): Finding => ({ level: 'warning', subject, message: message ?? '', hint: hint ?? '' }));
  const remarks = isOnServer ? [...unknownStatuses(config, workflow, facts), ...addedLabels(workflow, facts)] : [];
  return [...warnings, ...remarks.map((message): Finding => ({ level: 'ok', subject, message }))];
}

/** Whether a rule applies to each item to which a later one applies. */
function covers({ when: wide, set }: Rule, later: Rule, statuses: TaskStatuses): boolean {
  const narrow = later.when;
  // A rule without states of pull requests applies to no pull request, and the same holds for work items.
  const kinds = (['pullRequest', 'workItem'] as const).filter((kind) => narrow[kind] !== undefined);
  if (!kinds.every((kind) => wide[kind] !== undefined && includesAll(wide[kind], narrow[kind]))) return false;
  const conditions = ['connection', 'repository', 'labels', 'author', 'task'] as const;
  if (!conditions.every((name) => includesAll(wide[name], narrow[name]))) return false;
  const strength = (when: Rule['when'], { status }: Rule['set']) =>
    STRENGTHS.indexOf(when.link ?? (status !== undefined && isFinalStatus(statuses, status) ? 'closing' : 'carrying'));
  const isAnyBase = wide.base?.length === 1 && wide.base[0] === '*';
  return (isAnyBase || includesAll(wide.base, narrow.base)) && strength(wide, set) >= strength(narrow, later.set);
}

type Names = readonly string[] | { readonly status: readonly string[] } | undefined;

/** Whether each value that the narrow condition names is one of the wide condition. */
function includesAll(wide: Names, narrow: Names): boolean {
  if (wide === undefined) return true;
  if (narrow === undefined) return false;
  const [all, some] = [namesIn(wide), namesIn(narrow)];
  if (all.some((name) => name.startsWith('!'))) return JSON.stringify(all) === JSON.stringify(some);
  return all.includes('*') || some.every((name) => all.includes(name));
}

function namesIn(names: NonNullable<Names>): readonly string[] {
  return 'status' in names ? names.status.map((name) => `status ${name}`) : names;
}

/** Warns of a base that no open pull request has, because its name may be misspelt. */
function unknownBase({ rule: { when }, name }: NamedRule, { pullRequests }: WorkspaceFacts): string[][] {
  const bases = pullRequests.flatMap(({ baseBranch, defaultBranch }) =>
    baseBranch === null ? [] : { baseBranch, ...(defaultBranch !== null && { defaultBranch }) },
  );
  if (when.base === undefined || bases.length === 0 || bases.some(createBaseMatcher(when.base))) return [];
  const known = shortList(bases.map(({ baseBranch }) => baseBranch));
  const message = `${name} applies to the base ${when.base.join(', ')}, and no open pull request has it; they have: ${known}`;
  return [[message, 'Correct the name, unless pull requests for it come later.']];
}

interface Conditions {
  readonly pullRequest?: unknown;
  readonly workItem?: unknown;
  readonly connection?: readonly string[] | undefined;
  readonly repository?: readonly string[] | undefined;
}

/** Warns of a rule if no connection provides the items that it is about. */
function withoutItems(when: Conditions, name: string, sources: readonly ItemSource[]): string[][] {
  if (sourcesOf(when, sources).length > 0) return [];
  const items = when.workItem === undefined ? 'pull requests' : 'work items';
  const hint =
    when.workItem === undefined
      ? 'Add a connection that provides them, or remove the rule.'
      : 'Add a connection that provides them, enable its option `issues` if it has one, or remove the rule.';
  return [[`${name} never applies: no connection of the rule provides ${items}`, hint]];
}

function sourcesOf(when: Conditions, sources: readonly ItemSource[]): readonly ItemSource[] {
  const matches = when.connection === undefined ? () => true : createNameMatcher(when.connection);
  return sources.filter(
    ({ name, pullRequests, workItems }) =>
      matches([name]) &&
      ((when.pullRequest !== undefined && pullRequests) || (when.workItem !== undefined && workItems)),
  );
}

/** Warns of a repository or project that no connection of the rule covers. */
function uncovered(when: Conditions, name: string, sources: readonly ItemSource[]): string[][] {
  const own = sourcesOf(when, sources);
  // An id, or a pattern, may stand for any repository.
  const isName = (each: string) => each.includes('/') && !/[*?]/.test(each);
  const missing = (when.repository ?? []).filter(
    (each) => isName(each) && !own.some((source) => source.mayCover(each)),
  );
  if (own.length === 0 || missing.length === 0) return [];
  const message = `${name} applies to ${missing.join(', ')}, which no connection of the rule covers`;
  return [[message, 'Correct the name, or add the repository to a connection.']];
}

/** Warns of a label that no task has and that is spelt almost like one that a task has. */
function unknownLabels({ rule: { set }, name }: NamedRule, { labels }: WorkspaceFacts): string[][] {
  const unknown = [...(set.addLabels ?? []), ...(set.removeLabels ?? [])].filter((label) => !labels.has(label));
  return unknown.flatMap((label) => {
    const known = nearest(label, [...labels]);
    if (known === undefined) return [];
    const message = `${name} names the label ${label}, which no task has; did you mean ${known}?`;
    return [[message, 'Correct the name, unless both labels exist in the workspace.']];
  });
}

/** Lists labels that rules add and no task has at present: a label must exist in the workspace. */
function addedLabels({ rules }: Workflow, { labels }: WorkspaceFacts): string[] {
  const missing = [...new Set(rules.flatMap(({ set }) => set.addLabels ?? []))].filter((label) => !labels.has(label));
  if (missing.length === 0) return [];
  return [
    `no task has these labels at present, which rules add: ${missing.join(', ')}; they must exist in the workspace`,
  ];
}

/** Warns of a repository that no connection covers. In a rule for pull requests alone, also of one without an open pull request. */
function unknownRepository({ rule: { when }, name }: NamedRule, facts: WorkspaceFacts): string[][] {
  const { pullRequests, sources } = facts;
  const missing = uncovered(when, name, sources);
  if (missing.length > 0) return missing;
  if (when.repository === undefined || when.workItem !== undefined || pullRequests.length === 0) return [];
  // More pull requests than were read may be in any repository.
  if (pullRequests.length === MOST_PULL_REQUESTS) return [];
  const matches = createNameMatcher(when.repository);
  if (pullRequests.some(({ repoId, repoName }) => matches([repoId, repoName]))) return [];
  const known = shortList(pullRequests.map(({ repoId, repoName }) => repoName ?? repoId ?? 'unknown'));
  const message = `${name} applies to the repository ${when.repository.join(', ')}, but no open pull request is in it; there are some in: ${known}`;
  return [[message, 'Correct the name, unless you expect pull requests there later.']];
}

function shortList(names: readonly string[]): string {
  return [...new Set(names)].slice(0, 5).join(', ');
}

/** Warns of a status in `from` that neither worksync nor a task has, because it may be misspelt. */
function unknownFrom({ rule, name }: NamedRule, { statuses }: WorkspaceFacts, named: readonly string[]): string[][] {
  const unknown = (rule.from ?? []).filter((status) => !named.includes(status) && !statuses.has(status));
  if (unknown.length === 0) return [];
  const message = `"from" of ${name} names statuses that no task has: ${unknown.join(', ')}`;
  return [[message, `worksync knows ${named.join(', ')}; name others as the workspace spells them.`]];
}

/** Only webhooks report merge queues, and only they report reviews in time. */
function missingEvents({ connections }: WorkspaceConfig, { rules }: Workflow): string[][] {
  const isQueued = rules.some(({ when }) => when.pullRequest?.includes('queued'));
  const silent = connections.filter(({ webhookSecrets }) => webhookSecrets.length === 0).map(({ name }) => name);
  if (!isQueued || silent.length === 0) return [];
  const message = `a rule of rules.workflow is about "queued", which polls do not show: ${silent.join(', ')}`;
  return [[message, 'Set webhookSecrets of the connection, and subscribe a webhook at the provider.']];
}

/** `merged` is a final status, and write-back closes the items of finished tasks. */
function finalMerged({ connections }: WorkspaceConfig, rules: readonly NamedRule[]): string[][] {
  const closing = connections.filter(({ writeBack }) => writeBack.close).map(({ name }) => name);
  const setting = rules.find(({ rule }) => rule.set.status === 'merged');
  if (closing.length === 0 || setting === undefined) return [];
  const message = `${setting.name} sets "merged", which counts as finished: write-back closes items of ${closing.join(', ')}`;
  return [[message, 'If it stands for work in a staging branch, set a label instead.']];
}

/** A status that no task has may be unknown to the server. */
function unknownStatuses({ workspace }: WorkspaceConfig, workflow: Workflow, { statuses }: WorkspaceFacts): string[] {
  if (statuses.size === 0) return [];
  const { preset, rules } = workflow;
  const standard = preset === undefined ? [] : ['in_progress', 'review', 'completed'];
  const wanted = new Set<string>([...standard, ...rules.flatMap(({ set }) => set.status ?? [])]);
  const missing = statusNames(workspace.statuses)
    .filter((status) => wanted.has(status))
    .map((status) => serverStatus(workspace.statuses, status))
    .filter((word) => !statuses.has(word));
  if (missing.length === 0) return [];
  return [
    `no task has these statuses yet, which rules set: ${missing.join(', ')}; if the workspace refuses one, worksync leaves it out`,
  ];
}
