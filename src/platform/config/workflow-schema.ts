import { z } from 'zod';
import { OWN_STATUSES } from '../../model/task-status.ts';
import { PREVIOUS, PULL_REQUEST_PHASES, STRENGTHS, WORK_ITEM_PHASES } from '../../model/workflow.ts';
import { globs, oneOrMore, pattern, since } from './rule-fields.ts';

/** The keys of `rules.workflow`. */

const MOST_RULES = 64;
const LONGEST_LABEL = 255;

const labels = (description: string) =>
  oneOrMore(z.string().min(1).max(LONGEST_LABEL), 'text or list of texts', description);

const several = z
  .enum(['all', 'any'])
  .describe('`all`: the last of several open pull requests finishes the task. `any`: the first one does.');

const workItem = z
  .union([
    z.enum([...WORK_ITEM_PHASES, 'reopened']),
    z.array(z.enum([...WORK_ITEM_PHASES, 'reopened'])).min(1),
    z.strictObject({ status: z.array(z.string().min(1).max(LONGEST_LABEL)).min(1) }),
  ])
  .transform((value) => (typeof value === 'string' ? [value] : value))
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

const rule = z
  .strictObject({
    when,
    set: z
      .strictObject({
        status: z
          .enum([...OWN_STATUSES, PREVIOUS])
          .optional()
          .describe('Status of the task. `previous`: the one before the first change by worksync.'),
        addLabels: labels('Labels to add to the task. They must exist in the workspace.'),
        removeLabels: labels('Labels to remove from the task.'),
      })
      .describe('What the task gets.'),
    from: oneOrMore(
      z.string().min(1).max(LONGEST_LABEL),
      'status or list of statuses',
      'Statuses that the rule leaves. Absent: idea, open, planned, in_progress and review; blocked too if the rule finishes tasks.',
    ),
    several: several.optional(),
    back: z.boolean().default(false).describe('The rule may set a lower status than one that a person set.'),
    reopen: z.boolean().default(false).describe('A pull request that is opened after the end reopens the task.'),
    force: z
      .boolean()
      .default(false)
      .describe('Skip `from` and the statuses that people set. worksync then undoes what people do.'),
  })
  .refine(({ force, from }) => !force || from !== undefined, { message: '`force` needs `from`', path: ['from'] });

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
