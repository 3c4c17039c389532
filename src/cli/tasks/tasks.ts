import type { LinkTarget } from '../../admin/tasks/links.ts';
import { SyncError } from '../../model/errors.ts';
import { taskName } from '../../model/task.ts';
import { SPECIFIED_STATUSES, serverStatus } from '../../model/task-status.ts';
import { SYNC_FIELD_NAMES, type SyncField } from '../../model/written-task.ts';
import { printable } from '../../platform/lib/text.ts';
import { PRIORITIES, TASK_KINDS } from '../../workspace-api/contract/field-values.ts';
import { type AddCommands, collect, eachOf, type Output, oneOf } from '../command.ts';
import { describeExplained, taskHead } from '../items/show-items.ts';
import { addShorthands, getTask, type Shorthand, type Task, taskIdOf } from '../shorthand.ts';
import { withText } from '../text-input.ts';
import { table } from '../words.ts';
import { type CommandContext, operationCommand, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

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
          collect,
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
        .option('--team <id>', 'a team; may be repeated', collect)
        .option('--assignee <id>', 'a user; may be repeated', collect)
        .option('--label <label>', 'a label; may be repeated', collect),
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

export const addTasks: AddCommands = (program, setting) => {
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
};

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

const ITEM = 'by its address, its key, or its usual name (ENG-12, acme/app#7)';

type AddFlags = WorkspaceFlags & { title?: string; externalId?: string; provider?: string };

/**
 * `worksync links`. A task may be named by its key or its id; a key that the daemon does not know costs one request more. An
 * item of the daemon may stand wherever an address may.
 */
export const addLinks: AddCommands = (program, setting) => {
  const group = program
    .command('links')
    .description("a task's external links: list, add, remove, explain, release-status, release-field, unfinished")
    .exitOverride();
  requestCommand(group, setting, {
    usage: 'list <task>',
    description: 'list the external links of a task',
    example: 'links list BUG-12',
    costsQuota: true,
    run: listLinks,
  });
  requestCommand(group, setting, {
    usage: 'add <task> <url|item>',
    description: `connect an address, or an item ${ITEM}, to a task; an existing link stays as it is`,
    example: 'links add BUG-12 https://github.com/acme/app/pull/7 --title "Fix login"',
    costsQuota: true,
    run: addLink,
  })
    .option('--title <text>', 'shown in place of the address')
    .option('--external-id <id>', 'id of the linked thing, if it has one')
    .option('--provider <name>', 'provider that the address leads to');
  requestCommand(group, setting, {
    usage: 'remove <task> <link|item>',
    description: `remove a link from a task, named by its id, or by the item ${ITEM}; worksync does not add it again by itself`,
    example: 'links remove BUG-12 wi_PGZ3mGcBdhAhrUcC',
    costsQuota: true,
    run: removeLink,
  });
  operationCommand(group, setting, {
    usage: 'explain <task|item>',
    description: `explain why links exist or do not: of a task, or of an item ${ITEM}; uses no quota`,
    example: 'links explain https://github.com/acme/app/pull/7',
    operation: 'explain',
    body: (_flags: WorkspaceFlags, target: string) => ({ target }),
    text(explained, _now, _flags, target) {
      if (explained.task !== null || explained.items.length > 0) return describeExplained(explained);
      throw new SyncError('not_found', `the daemon knows no task and no item ${target}`, {
        hint: 'Give the key of a task, such as BUG-12, or an address or name of an item, such as acme/app#7.',
      });
    },
  });
  operationCommand(group, setting, {
    usage: 'release-status <task>',
    description: 'let the rules decide about a status that a person set; uses no quota',
    example: 'links release-status BUG-12',
    operation: 'release-status',
    body: (_flags: WorkspaceFlags, task: string) => ({ task }),
    text: ({ task: { name }, released }) =>
      printable(released ? `released  ${name}` : `nothing to release: no person set the status of ${name}`),
  });
  operationCommand(group, setting, {
    usage: 'release-field <task> <field>',
    description: `let a field that a person edited follow its work item again: ${SYNC_FIELD_NAMES.join(', ')}; uses no quota`,
    example: 'links release-field BUG-12 title',
    operation: 'release-field',
    body: (_flags: WorkspaceFlags, task: string, field: SyncField) => ({ task, field }),
    text({ task, released }, _now, _flags, _task, field) {
      const name = `${field} of ${task.name}`;
      return printable(released ? `released  ${name}` : `nothing to release: no person set ${name}`);
    },
  });
  operationCommand(group, setting, {
    usage: 'unfinished',
    description: 'list tasks whose work was merged and that are not finished, with the reason; uses no quota',
    example: 'links unfinished --json',
    operation: 'unfinished',
    body: () => ({ limit: MOST_UNFINISHED }),
    text: ({ tasks }) => table(tasks.map(({ name, status, reason }) => [printable(name), status, reason])),
    json: ({ tasks }) => tasks,
  });
};

const MOST_UNFINISHED = 200;

/** Returns the id of a task, which the daemon usually knows. */
async function findTask({ request, client }: CommandContext, task: string): Promise<string> {
  const known = await request('link-target', { target: task });
  return known.task?.taskId ?? (await taskIdOf(client, task));
}

async function listLinks(context: CommandContext, _flags: WorkspaceFlags, task: string): Promise<Output> {
  const taskId = await findTask(context, task);
  const { workItems } = (await context.client.listWorkItems({ taskId }, {})).body;
  const rows = workItems.map(({ workItemId, url, title }) => [workItemId, printable(url), printable(title ?? '')]);
  return { text: table(rows), json: workItems };
}

async function addLink(context: CommandContext, flags: AddFlags, task: string, target: string): Promise<Output> {
  const taskId = await findTask(context, task);
  const { url, item } = await addressOf(context, target);
  const { title = item?.title ?? undefined, externalId, provider = item?.connector } = flags;
  const link = { taskId, body: { url, title, externalId, provider } };
  const { status, body } = await context.client.addWorkItem(link, {});
  await context.request('link-added', { taskId, workItem: body, item: item?.key ?? null });
  return { text: `${status === 201 ? 'added' : 'already there'}  ${body.workItemId}`, json: [body] };
}

type KnownItem = LinkTarget['items'][number];

/** Throws `not_found` where it is neither an address nor an item. */
async function addressOf(
  { request }: CommandContext,
  target: string,
): Promise<{ readonly url: string; readonly item?: KnownItem }> {
  const { items } = await request('link-target', { target });
  const [item, another] = items;
  if (/^https?:\/\//i.test(target)) return { url: target, ...(item && !another ? { item } : {}) };
  if (another) {
    const keys = items.map(({ key }) => key).join(', ');
    throw new SyncError('usage', `several items are called ${target}: name one by its key (${keys})`);
  }
  if (item?.url) return { url: item.url, item };
  throw new SyncError('not_found', `there is no item ${target}`, {
    hint: 'Give its address, or its key as links explain shows it.',
  });
}

async function removeLink(
  context: CommandContext,
  _flags: WorkspaceFlags,
  task: string,
  link: string,
): Promise<Output> {
  const taskId = await findTask(context, task);
  const workItemId = await linkIdOf(context, taskId, link);
  if (workItemId !== undefined) await context.client.removeWorkItem({ taskId, workItemId }, {});
  await context.request('link-removed', { taskId, link });
  return { text: `removed  ${workItemId ?? link}`, json: [{ removed: workItemId ?? link }] };
}

/** Returns undefined if the link is desired, but not in the workspace yet. Throws `not_found`. */
async function linkIdOf(
  { request, client }: CommandContext,
  taskId: string,
  link: string,
): Promise<string | undefined> {
  const { workItemId, url, isOnlyWanted } = await request('link-to-remove', { taskId, link });
  if (workItemId !== null) return workItemId;
  if (isOnlyWanted) return undefined;
  const { items } = await request('link-target', { target: link });
  const addresses = [url, ...items.map((item) => item.url), /^https?:\/\//i.test(link) ? link : null].filter(
    (each) => each !== null,
  );
  if (addresses.length === 0) return link;
  const { workItems } = (await client.listWorkItems({ taskId }, {})).body;
  const found = workItems.find((each) => addresses.includes(each.url));
  if (found) return found.workItemId;
  throw new SyncError('not_found', `the task has no link ${link}`, { hint: '"worksync links list" lists them.' });
}
