import { z } from 'zod';
import { SYNC_FIELD_NAMES } from '../../model/synced-fields.ts';
import { OPTIONAL_TASK_FIELDS, parseTemplate, TEMPLATE_VARIABLES } from '../../model/task.ts';
import { groupCount } from '../lib/pattern.ts';
import { counted } from '../lib/quantities.ts';
import { globs, LONGEST_GLOB, oneOrMore, pattern, since } from './values.ts';
import { workflow } from './workflow-schema.ts';

/** The keys of `rules` and `users`. */

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
