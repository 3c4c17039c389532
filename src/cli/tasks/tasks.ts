import type { Command } from 'commander';
import { taskName } from '../../model/task.ts';
import { SPECIFIED_STATUSES, serverStatus } from '../../model/task-status.ts';
import { PRIORITIES, TASK_KINDS } from '../../workspace-api/contract/field-values.ts';
import { taskHead } from '../items/explained.ts';
import { eachOf, oneOf, type Setting } from '../setting.ts';
import { addShorthands, getTask, type Shorthand, type Task } from '../shorthand.ts';
import { withText } from '../text-input.ts';
import { printable } from '../words.ts';
import { gather, operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

const ROWS: readonly Shorthand[] = [
  {
    usage: 'list',
    description: 'list open tasks, newest first',
    example: 'tasks list --kind bug',
    operation: 'listTasks',
    options: (command) =>
      command
        .option(
          '--status <status>',
          `only this status: ${SPECIFIED_STATUSES.join(', ')}, a name of workspace.statuses, or a word of the server; may be repeated`,
          gather,
        )
        .option('--kind <kind>', 'bug or idea; may be repeated', eachOf(TASK_KINDS))
        .option('--team <id>', 'only tasks of this team')
        .option('--assignee <id>', 'only tasks of this user'),
    fields: { team: 'teamId', assignee: 'assigneeId' },
    prepare: ({ status, ...fields }, { workspace }) => ({
      status: (status as readonly string[] | undefined)?.map((name) => serverStatus(workspace.statuses, name)),
      ...fields,
    }),
    list: {
      name: 'tasks',
      columns: ({ key, taskId, status, priority, title }: Task) => {
        const id = key === taskId ? [] : [taskId];
        return [key, status, priority, printable(title), ...id];
      },
      all: 'every task, whatever its status, in one request',
      remark: ({ all, status }) => (all || status ? undefined : 'These are the open tasks; --all lists all of them.'),
    },
  },
  {
    usage: 'get <task>',
    description: 'show one task, by its key (BUG-12) or its id; one request',
    example: 'tasks get BUG-12 --json',
    operation: 'getTask',
    send: async (client, { task }: { readonly task: string }) => ({ body: await getTask(client, task) }),
    show: describeTask,
  },
  ...TASK_KINDS.map(creation),
];

function creation(kind: 'bug' | 'idea'): Shorthand {
  return {
    usage: `${kind} <title>`,
    description: `create ${kind === 'bug' ? 'a bug' : 'an idea'}; not idempotent: repeating the command creates another one`,
    example: `tasks ${kind} "Login fails" --priority high --label auth --description-file notes.md`,
    operation: kind === 'bug' ? 'createBug' : 'createIdea',
    options: (command) =>
      withText(command, 'description')
        .option('--priority <priority>', 'urgent, high, medium, low or none', oneOf(PRIORITIES))
        .option('--source <name>', 'where it comes from (default: api)')
        .option('--reporter <id>', 'the user who reports it (default: the user of the API key)')
        .option('--reported-at <time>', 'RFC 3339 with offset (default: now)')
        .option('--team <id>', 'a team; may be repeated', gather)
        .option('--assignee <id>', 'a user; may be repeated', gather)
        .option('--label <label>', 'a label; may be repeated', gather),
    fields: {
      descriptionFile: 'description',
      reporter: 'reporterUserId',
      team: 'teamIds',
      assignee: 'assigneeIds',
      label: 'labels',
    },
    show: (task: Task) => `created ${taskHead({ ...task, name: taskName(task) })}`,
  };
}

export function addTasks(program: Command, setting: Setting): void {
  const description = "the workspace's tasks: list, get, bug, idea, undo";
  const group = program.command('tasks').description(description).exitOverride();
  addShorthands(group, ROWS, setting);
  operationCommand(group, setting, {
    usage: 'undo <task>',
    description:
      'restore the status that a task had before worksync changed it, unless somebody changed it since; two requests',
    example: 'tasks undo BUG-12',
    costsQuota: true,
    operation: 'status-undo',
    body: (_flags: WorkspaceFlags, task: string) => ({ task }),
    text: ({ task, from, to }) => printable(`${task}: ${from} → ${to}`),
  });
}

function describeTask(task: Task): string {
  const rows = [
    ['status', task.status],
    ['priority', task.priority],
    ['source', task.source],
    ['reported', `${task.reportedAt ?? 'unknown'} by ${task.reporterUserId ?? 'unknown'}`],
    ['assignees', task.assigneeIds.join(', ')],
    ['labels', task.labels.join(', ')],
    ['id', task.taskId],
  ].filter(([, value]) => value !== '');
  const head = task.key === task.taskId ? printable(task.title) : `${task.key}  ${printable(task.title)}`;
  const body = rows.map(([name, value]) => `  ${name!.padEnd(10)}${printable(value!)}`);
  const text = task.description?.split('\n').map(printable).join('\n');
  return [head, ...body, ...(text ? ['', text] : [])].join('\n');
}
