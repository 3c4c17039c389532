import { z } from 'zod';
import { WORK_ITEM_STATES } from '../../model/item.ts';
import { OPTIONAL_TASK_FIELDS, parseTemplate, TEMPLATE_VARIABLES } from '../../model/task.ts';
import { isFinalStatus, rankOf, SPECIFIED_STATUSES, statusNames, type TaskStatuses } from '../../model/task-status.ts';
import { PREVIOUS, PULL_REQUEST_PHASES, STRENGTHS } from '../../model/workflow.ts';
import { SYNC_FIELD_NAMES } from '../../model/written-task.ts';
import { groupCount } from '../lib/pattern.ts';
import { counted } from '../lib/quantities.ts';
import { globs, LONGEST_GLOB, oneOrMore, pattern, since } from './values.ts';

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

const workflow = z
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

const PLACES = ['branch', 'title', 'description', 'commit'] as const;
const PRIORITIES = ['urgent', 'high', 'medium', 'low', 'none'] as const;
const MOST_PATTERNS = 64;

const userLink = z
  .strictObject({
    pattern: pattern('Expression that names a task. A group `( )` is `$1` in `task`.'),
    place: oneOrMore(z.enum(PLACES), 'place or list of places', 'Where worksync looks for it. Absent: everywhere.'),
    task: z
      .string()
      .min(1)
      .max(LONGEST_GLOB)
      .default('$0')
      .describe('Key or id of the task; `$1` is the first group, `$0` the whole match.'),
    connection: globs('Only items of these connections.'),
  })
  .superRefine(({ pattern: text, task }, context) => {
    const groups = groupCount(text);
    const missing = task.match(/\$\d/g)?.find((name) => Number(name.slice(1)) > groups);
    if (missing === undefined) return;
    const message = `${missing} is no group of the pattern, which has ${counted(groups, 'group')}`;
    context.addIssue({ code: 'custom', path: ['task'], message });
  });

const template = z
  .string()
  .min(1)
  .max(LONGEST_GLOB)
  .refine(
    (text) => parseTemplate(text) !== undefined,
    `expected a text with no other variables than ${TEMPLATE_VARIABLES.map((name) => `{${name}}`).join(', ')}`,
  );

const triageRule = z.strictObject({
  when: z
    .strictObject({
      connection: globs('Name of the connection.'),
      project: globs('Name or id of the project, repository or team.'),
      labels: globs('One of its labels.'),
      type: globs('Type of the item, as the tracker calls it.'),
      priority: globs('Priority, as the tracker calls it.'),
      status: globs(
        '`open`, `in_progress`, `completed`, `dropped`, or the status as the tracker calls it. Absent: open and in_progress.',
      ),
      author: globs('Who reported it.'),
      text: pattern('Title or description match it.').optional(),
    })
    .prefault({})
    .describe('Conditions of the rule; all must be true. Absent: every work item.'),
  create: z
    .enum(['bug', 'idea', 'nothing'])
    .describe('What the item becomes. `nothing`: it becomes no task, and no later rule applies.'),
  title: template
    .default('{title}')
    .describe(`Title of the task. Variables: ${TEMPLATE_VARIABLES.map((name) => `\`{${name}}\``).join(', ')}.`),
  priority: z
    .union([z.enum(PRIORITIES).transform((priority) => ({ '*': priority })), z.record(z.string(), z.enum(PRIORITIES))])
    .optional()
    .meta({
      title: 'priority, or mapping of names to priorities',
      description: "The tracker's priorities by name, `*` for all others; or one for all. Absent: the usual names.",
    }),
  labels: z.array(z.string().min(1).max(255)).max(50).default([]).describe('Labels beside those of the item.'),
  reporter: z.string().min(1).optional().describe('User id of the reporter where the author has none in `users`.'),
  sync: z
    .array(z.enum(SYNC_FIELD_NAMES))
    .default([])
    .describe(
      'Fields of the created task that follow the item. A field that a person edits in the workspace is left alone from then on, and so are labels that worksync did not add. A field that `triage.send` leaves out is not synced.',
    ),
  since: since(
    'Triage skips items that were created and last changed before this time. Absent: the time when triage was first switched on for the connection.',
  ),
});

export const rules = z
  .strictObject({
    trailers: z
      .array(z.string().regex(/^[A-Za-z][A-Za-z0-9-]{0,39}$/, 'expected letters, digits and hyphens'))
      .max(20)
      .default(['Task'])
      .describe('Names of the lines in the last paragraph that name tasks: `Task: BUG-12`. Any case.'),
    links: z.array(userLink).max(MOST_PATTERNS).default([]).describe('Patterns of your own that name tasks.'),
    triage: z
      .array(triageRule)
      .max(MOST_PATTERNS)
      .default([])
      .describe('Which work items become tasks. The first rule that matches decides.'),
    workflow,
    documents: z
      .enum(['attach', 'off'])
      .default('off')
      .describe(
        '`attach`: if an item names the address of a workspace document, worksync attaches the document to the task of the item.',
      ),
  })
  .prefault({})
  .describe('What worksync links, and what becomes a task.');

export const triage = z
  .strictObject({
    send: z
      .array(z.enum(OPTIONAL_TASK_FIELDS))
      .default([...OPTIONAL_TASK_FIELDS])
      .describe(
        'Optional fields that worksync sends when it creates a task. It always sends title, description and the time of the report. Without `source`, worksync recognises the task by the last line of its description.',
      ),
  })
  .prefault({})
  .describe('How tasks are created, for a workspace that refuses some fields or gives them another meaning.');

export const users = z
  .record(
    z.string().min(1),
    z.record(z.string().min(1), z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected the id of a workspace user')),
  )
  .default({})
  .describe(
    'Maps people to workspace users. For a connection, a connector, or `email`: each name used there, and its user id.',
  );

const closing = z.strictObject({
  fields: z
    .record(z.string().regex(/^[A-Za-z][\w.-]{0,63}$/, 'expected the id of a field'), z.unknown())
    .describe('Values by the ids of the fields.'),
});

export const writeBack = z
  .strictObject({
    comment: z
      .boolean()
      .default(false)
      .describe('Write one comment on the item that names its tasks, and keep it up to date.'),
    close: z
      .union([z.boolean(), closing], { error: 'expected true, false, or a mapping with `fields`' })
      .default(false)
      .meta({
        title: '`true`, `false` or a mapping',
        description:
          'Close a work item when all its tasks are finished. `fields` gives values that the vendor asks for then, by their ids: `{ fields: { resolution: { name: Done } } }`. Only Jira takes them.',
      }),
    status: z
      .union([z.boolean(), z.literal('require')], { error: 'expected true, false or require' })
      .default(false)
      .meta({
        title: '`true`, `false` or `require`',
        description:
          'Keep the commit status `worksync/tasks` on the head of each open pull request: it names its tasks. With `require` it fails where there is none.',
      }),
  })
  .prefault({})
  .describe('What worksync writes to the vendor, with the credentials of the connection.');

export type RulesConfig = z.output<typeof rules>;
