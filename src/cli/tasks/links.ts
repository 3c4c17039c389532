import type { Command } from 'commander';
import type { LinkTarget } from '../../admin/tasks/links.ts';
import { SyncError } from '../../model/errors.ts';
import { SYNC_FIELD_NAMES, type SyncField } from '../../model/written-task.ts';
import { describeExplained } from '../items/explained.ts';
import type { Setting } from '../setting.ts';
import { taskIdOf } from '../shorthand.ts';
import { printable, table } from '../words.ts';
import type { CommandContext } from '../workspace-client.ts';
import { type Output, operationCommand, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

const ITEM = 'by its address, its key, or its usual name (ENG-12, acme/app#7)';

type AddFlags = WorkspaceFlags & { title?: string; externalId?: string; provider?: string };

/**
 * `worksync links`. A task may be named by its key or its id; a key that the daemon does not know costs one request more. An
 * item of the daemon may stand wherever an address may.
 */
export function addLinks(program: Command, setting: Setting): void {
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
}

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
