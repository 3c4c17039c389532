import { z } from 'zod';
import { WORK_ITEM_STATES } from '../../model/item.ts';
import { isFinalStatus, rankOf, SPECIFIED_STATUSES, statusNames, type TaskStatuses } from '../../model/task-status.ts';
import { PREVIOUS, PULL_REQUEST_PHASES, STRENGTHS } from '../../model/workflow.ts';
import { globs, oneOrMore, pattern, since } from './values.ts';

/** The keys of `rules.workflow`, and `workspace.statuses`. */

const MOST_RULES = 64;
const LONGEST_LABEL = 255;

const labels = (description: string) =>
  oneOrMore(z.string().min(1).max(LONGEST_LABEL), 'text or list of texts', description);

const statusName = z
  .string()
  .regex(/^[a-z][a-z0-9_]{0,39}$/, 'expected lower-case letters, digits and _, at most 40 of them')
  .refine((name) => name !== PREVIOUS, `"${PREVIOUS}" is the status before the first change by worksync`);

const word = z.string().min(1).max(100);

const addedStatus = z.strictObject({
  word: word.describe('The word of the server.'),
  after: statusName.optional().describe('The status after which it ranks. Absent: it has no rank, like `blocked`.'),
  final: z.boolean().optional().describe('Tasks with this status are finished.'),
});

const MOST_STATUSES = 32;

export const taskStatuses = z
  .record(z.union([z.enum(SPECIFIED_STATUSES), statusName]), z.union([word, addedStatus]))
  .check(checkStatuses)
  .default({})
  .meta({
    title: 'mapping from statuses to words or mappings',
    description:
      'The words of the server for the statuses of a task, such as `in_progress: InProgress`; absent ones have the same word. Statuses that the server has beyond those of the specification get a name for rules: `qa: { word: QA, after: review }`, `deployed: { word: Deployed, final: true }`.',
  });

function checkStatuses({
  value,
  issues,
}: z.core.ParsePayload<Record<string, string | z.output<typeof addedStatus>>>): void {
  const report = (path: string[], message: string) => issues.push({ code: 'custom', path, message, input: value });
  const added = Object.entries(value).filter(([name]) => !isSpecified(name));
  if (added.length > MOST_STATUSES) report([], `expected at most ${MOST_STATUSES} statuses beyond the specification`);
  for (const [name, status] of Object.entries(value)) {
    if (isSpecified(name) && typeof status !== 'string')
      report([name], 'expected the word of the server only: the specification defines this status');
    if (isSpecified(name)) continue;
    if (typeof status === 'string')
      report(
        [name],
        `no status of the specification: expected one of ${SPECIFIED_STATUSES.join(', ')}, or a mapping with "word"`,
      );
    else if (status.after !== undefined) {
      if (status.final === true) report([name, 'after'], 'a final status ranks last: leave "after" or "final" out');
      else if (!isRankable(value, name))
        report([name, 'after'], `expected a status that has a rank and is not final, found "${status.after}"`);
    }
  }
}

function isSpecified(name: string): boolean {
  return SPECIFIED_STATUSES.some((status) => status === name);
}

/** Whether the statuses that a status comes after lead to one of the specification that has a rank and is not final. */
function isRankable(statuses: TaskStatuses, name: string): boolean {
  let current = name;
  for (let steps = 0; steps <= MOST_STATUSES; steps += 1) {
    const status = Object.hasOwn(statuses, current) ? statuses[current] : undefined;
    if (typeof status !== 'object')
      return isSpecified(current) && rankOf({}, current) !== undefined && !isFinalStatus({}, current);
    if (status.after === undefined) return false;
    current = status.after;
  }
  return false;
}

const several = z
  .enum(['all', 'any'])
  .describe('`all`: the last of several open pull requests finishes the task. `any`: the first one does.');

const workItemState = z.enum([...WORK_ITEM_STATES, 'reopened']);

const workItem = z
  .union([
    workItemState,
    z.array(workItemState).min(1),
    z.strictObject({ status: z.array(z.string().min(1).max(LONGEST_LABEL)).min(1) }),
  ])
  .transform((value) =>
    typeof value === 'object' && 'status' in value
      ? value
      : // The phase that is stored with items has another name.
        [value].flat().map((state) => (state === 'in_progress' ? 'started' : state)),
  )
  .optional()
  .meta({
    title: 'state, list of states, or a mapping with `status`',
    description:
      'States of a work item, by the categories of its tracker. `{ status: [In Test] }` names statuses as the tracker calls them.',
  });

const when = z
  .strictObject({
    pullRequest: oneOrMore(
      z.enum([...PULL_REQUEST_PHASES, 'reopened']),
      'state or list of states',
      'States of a pull request.',
    ),
    workItem,
    connection: globs('Name of the connection.'),
    repository: globs('Name or id of the repository or project.'),
    labels: globs('One of the labels of the item.'),
    author: globs('Who opened the item.'),
    task: oneOrMore(z.enum(['bug', 'idea']), 'kind or list of kinds', 'Kind of the task.'),
    base: globs('Base branch of a merged pull request. `default`: the default branch; `!name` excludes.'),
    link: z
      .enum(STRENGTHS)
      .optional()
      .describe(
        'Weakest link that counts. `closing`: with a closing word; `carrying`: named in branch, title or trailer; `mentioning`: any. Absent: `carrying`; a rule with a final status also requires a closing word, or that branch, title and trailer name this task only.',
      ),
  })
  .refine(({ pullRequest, workItem: item }) => pullRequest !== undefined || item !== undefined, {
    message: 'expected `pullRequest` or `workItem`',
  })
  .describe('Conditions of the rule; all must be true.');

const rule = z.strictObject({
  when,
  set: z
    .strictObject({
      status: z
        .union([z.enum([...SPECIFIED_STATUSES, PREVIOUS]), z.string().max(LONGEST_LABEL)])
        .optional()
        .meta({
          title: 'status',
          description:
            'Status of the task: one of the specification, or a name of `workspace.statuses`. `previous`: the one before the first change by worksync.',
        }),
      addLabels: labels('Labels to add to the task. They must exist in the workspace.'),
      removeLabels: labels('Labels to remove from the task.'),
    })
    .describe('What the task gets.'),
  from: oneOrMore(
    z.string().min(1).max(LONGEST_LABEL),
    'status or list of statuses',
    'Statuses that the rule leaves. Absent: all that have a rank and are not final; blocked too if the rule finishes tasks.',
  ),
  several: several.optional(),
  back: z.boolean().default(false).describe('The rule may set a lower status than one that a person set.'),
  reopen: z.boolean().default(false).describe('A pull request that is opened after the end reopens the task.'),
  force: z
    .boolean()
    .default(false)
    .describe('Skip `from` and the statuses that people set. worksync then undoes what people do.'),
});

export const workflow = z
  .strictObject({
    preset: z
      .enum(['standard'])
      .optional()
      .describe(
        '`standard`: a task is in review while a pull request is open, in progress while it is a draft, and completed when it is merged.',
      ),
    rules: z
      .array(rule)
      .max(MOST_RULES)
      .default([])
      .describe(
        'Rules of your own, before those of the preset. The first one that matches an item decides what it asks for.',
      ),
    several: several.default('all'),
    trust: z
      .union([
        z.enum(['members', 'anyone']),
        z.strictObject({ people: z.array(z.string().min(1).max(LONGEST_LABEL)).min(1).max(1_000) }),
      ])
      .optional()
      .meta({
        title: '`members`, `anyone`, or a mapping with `people`',
        description:
          'Whose pull requests move tasks of public repositories. `people` lists logins beside the members. Absent: members; in private repositories anyone.',
      }),
    bots: z
      .enum(['count', 'names', 'ignore'])
      .default('names')
      .describe(
        'Pull requests by bots. `names`: they count if branch, title or trailer name the task; `count`: as those of people.',
      ),
    landed: z
      .strictObject({
        title: pattern('Title of a closed pull request that was merged.').optional(),
        label: globs('Label of a closed pull request that was merged.'),
      })
      .optional()
      .describe('How a merge queue marks the pull requests that it merged by closing them.'),
    since: since(
      'States that items reached before this time change nothing. Absent: the time when these rules were first used.',
    ),
  })
  .optional()
  .describe(
    'How the states of pull requests and work items change the status of tasks. Absent: it stays as people set it.',
  );

export type WorkflowConfig = NonNullable<z.output<typeof workflow>>;

/** Reports the statuses that rules set and that the workspace does not name. */
export function checkRuleStatuses({
  value,
  issues,
}: z.core.ParsePayload<{
  workspace: { statuses: TaskStatuses };
  rules: { workflow?: WorkflowConfig | undefined };
}>): void {
  const { statuses } = value.workspace;
  const known = [...statusNames(statuses), PREVIOUS];
  for (const [index, { set }] of (value.rules.workflow?.rules ?? []).entries()) {
    if (set.status === undefined || known.includes(set.status)) continue;
    const path = ['rules', 'workflow', 'rules', index, 'set', 'status'];
    issues.push({ code: 'invalid_value', values: known, path, input: set.status });
  }
}
