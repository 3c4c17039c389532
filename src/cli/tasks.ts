import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { taskName } from '../model/task.ts';
import { SPECIFIED_STATUSES, serverStatus } from '../model/task-status.ts';
import { PRIORITIES, TASK_KINDS } from '../workspace-api/contract/field-values.ts';
import type { Answered, Parameters, Routes } from '../workspace-api/contract.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { taskHead } from './explained.ts';
import { type Exit, eachOf, oneOf, type Setting, say, sessionOf } from './setting.ts';
import { textOf, withText } from './text-input.ts';
import { printable, table } from './words.ts';
import type { CommandClient } from './workspace-client.ts';
import {
  gather,
  type ListFlags,
  listCommand,
  readPages,
  runOnWorkspace,
  show,
  type WorkspaceFlags,
  workspaceCommand,
} from './workspace-command.ts';

type Task = Answered<Routes['getTask']>;
type NewTask = Parameters<Routes['createBug']>['body'];
type TaskQuery = NonNullable<Parameters<Routes['listTasks']>['query']>;

/** `worksync tasks`. */
export function addTasks(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('tasks')
    .description("the workspace's tasks: list, get, bug, idea, undo")
    .exitOverride();
  addList(group, setting, exit);
  addGet(group, setting, exit);
  for (const kind of ['bug', 'idea'] as const) addCreate(group, kind, setting, exit);
  addUndo(group, setting, exit);
}

type TaskListFlags = ListFlags & {
  status?: readonly string[];
  kind?: readonly string[];
  team?: string;
  assignee?: string;
};

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = { usage: 'list', description: 'list open tasks, newest first', example: 'tasks list --kind bug' };
  listCommand(group, described, 'every task, whatever its status, in one request')
    .option(
      '--status <status>',
      `only this status: ${SPECIFIED_STATUSES.join(', ')}, a name of workspace.statuses, or a word of the server; may be repeated`,
      gather,
    )
    .option('--kind <kind>', 'bug or idea; may be repeated', eachOf(TASK_KINDS))
    .option('--team <id>', 'only tasks of this team')
    .option('--assignee <id>', 'only tasks of this user')
    .action((flags: TaskListFlags) =>
      runOnWorkspace(setting, exit, flags, async (client, { workspace }) => {
        const status = flags.status?.map((name) => serverStatus(workspace.statuses, name));
        const tasks = await listTasks(client, { ...flags, status });
        const isPart = !flags.all && flags.status === undefined;
        if (isPart && !flags.json && process.stderr.isTTY) say('These are the open tasks; --all lists all of them.');
        return { text: describeTasks(tasks), json: tasks };
      }),
    );
}

async function listTasks(client: CommandClient, flags: TaskListFlags): Promise<Task[]> {
  const filters = {
    status: flags.status,
    kind: flags.kind,
    teamId: flags.team,
    assigneeId: flags.assignee,
  } as TaskQuery;
  if (flags.all) return (await client.listTasks({ query: { ...filters, all: true } }, {})).body.tasks;
  return readPages(flags, async (page) => {
    const { tasks, nextCursor } = (await client.listTasks({ query: { ...filters, ...page } }, {})).body;
    return { entries: tasks, nextCursor };
  });
}

function describeTasks(tasks: readonly Task[]): string {
  const cells = ({ key, taskId, ...task }: Task) => {
    const id = key === taskId ? [] : [taskId];
    return [key, task.status, task.priority, printable(task.title), ...id];
  };
  return table(tasks.map(cells));
}

function addGet(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'get <task>',
    description: 'show one task, by its key (BUG-12) or its id; one request',
    example: 'tasks get BUG-12 --json',
  }).action((task: string, flags: WorkspaceFlags) =>
    runOnWorkspace(setting, exit, flags, async (client) => {
      const found = await getTask(client, task);
      return { text: describeTask(found), json: [found] };
    }),
  );
}

function addUndo(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'undo <task>',
    description:
      'restore the status that a task had before worksync changed it, unless somebody changed it since; two requests',
    example: 'tasks undo BUG-12',
  }).action(async (task: string, flags: WorkspaceFlags) => {
    const session = await sessionOf(setting, flags, () => 'warn');
    const undone = await askingWorkspace(session, flags, ({ ask }) => ask('status-undo', { task }));
    show({ text: printable(`${undone.task}: ${undone.from} → ${undone.to}`), json: [undone] }, flags);
    exit(0);
  });
}

/** Keys of people: letters, a hyphen, a number. Ids hold an underscore. */
const KEY = /^[A-Za-z][A-Za-z0-9]*-\d+$/;

/** One task by key or id, in one request. Throws `not_found`. */
async function getTask(client: CommandClient, task: string): Promise<Task> {
  if (!KEY.test(task)) return (await client.getTask({ taskId: task }, {})).body;
  const { tasks } = (await client.listTasks({ query: { all: true } }, {})).body;
  const found = tasks.find(({ key }) => key.toUpperCase() === task.toUpperCase());
  if (found) return found;
  throw new SyncError('not_found', `the workspace has no task ${task}`, {
    hint: '"worksync tasks list --all" lists them.',
  });
}

/** The id of a task that is named by key or id; only a key costs a request. Throws `not_found`. */
export async function taskIdOf(client: CommandClient, task: string): Promise<string> {
  return KEY.test(task) ? (await getTask(client, task)).taskId : task;
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

interface CreateFlags extends WorkspaceFlags {
  readonly description?: string;
  readonly priority?: string;
  readonly source?: string;
  readonly reporter?: string;
  readonly reportedAt?: string;
  readonly team?: readonly string[];
  readonly assignee?: readonly string[];
  readonly label?: readonly string[];
}

function addCreate(group: Command, kind: 'bug' | 'idea', setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: `${kind} <title>`,
    description: `create ${kind === 'bug' ? 'a bug' : 'an idea'}; not idempotent: repeating the command creates another one`,
    example: `tasks ${kind} "Login fails" --priority high --label auth --description-file notes.md`,
  });
  withText(command, 'description')
    .option('--priority <priority>', 'urgent, high, medium, low or none', oneOf(PRIORITIES))
    .option('--source <name>', 'where it comes from (default: api)')
    .option('--reporter <id>', 'the user who reports it (default: the user of the API key)')
    .option('--reported-at <time>', 'RFC 3339 with offset (default: now)')
    .option('--team <id>', 'a team; may be repeated', gather)
    .option('--assignee <id>', 'a user; may be repeated', gather)
    .option('--label <label>', 'a label; may be repeated', gather)
    .action((title: string, flags: CreateFlags) => {
      const body = newTask(title, flags);
      return runOnWorkspace(setting, exit, flags, async (client) => {
        const create = kind === 'bug' ? client.createBug : client.createIdea;
        const task = (await create({ body }, {})).body;
        return { text: `created ${taskHead({ ...task, name: taskName(task) })}`, json: [task] };
      });
    });
}

function newTask(title: string, flags: CreateFlags): NewTask {
  return {
    title,
    description: textOf(flags as never, 'description'),
    priority: flags.priority as NewTask['priority'],
    source: flags.source,
    reporterUserId: flags.reporter,
    reportedAt: flags.reportedAt,
    teamIds: flags.team && [...flags.team],
    assigneeIds: flags.assignee && [...flags.assignee],
    labels: flags.label && [...flags.label],
  };
}
