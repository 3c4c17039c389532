import type { Command } from 'commander';
import type { LinkTarget } from '../admin/links.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { SYNC_FIELD_NAMES, type SyncField } from '../model/synced-fields.ts';
import { type Asking, askingWorkspace } from './ask-workspace.ts';
import { describeExplained } from './explained.ts';
import { type Exit, type Setting, sessionOf } from './setting.ts';
import { taskIdOf } from './shorthand.ts';
import { printable, table } from './words.ts';
import { type Output, show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

const ITEM = 'by its address, its key, or its usual name (ENG-12, acme/app#7)';

/**
 * `worksync links`. A task may be named by its key or its id; a key that the daemon does not know costs one request more. An
 * item of the daemon may stand wherever an address may.
 */
export function addLinks(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('links')
    .description("a task's external links: list, add, remove, explain, release-status, release-field, unfinished")
    .exitOverride();
  const run = (flags: WorkspaceFlags, work: (asking: Asking) => Promise<Output>) =>
    runAsking(setting, exit, flags, work);
  addList(group, run);
  addAdd(group, run);
  addRemove(group, run);
  addExplain(group, run);
  addReleaseStatus(group, run);
  addReleaseField(group, run);
  addUnfinished(group, run);
}

type Run = (flags: WorkspaceFlags, work: (asking: Asking) => Promise<Output>) => Promise<void>;

async function runAsking(
  setting: Setting,
  exit: Exit,
  flags: WorkspaceFlags,
  work: (asking: Asking) => Promise<Output>,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  show(await askingWorkspace(session, flags, work), flags);
  exit(0);
}

/** The id of a task, from what the daemon knows where it does. */
async function findTask({ ask, client }: Asking, task: string): Promise<string> {
  const known = await ask('link-target', { target: task });
  return known.task?.taskId ?? (await taskIdOf(client, task));
}

function addList(group: Command, run: Run): void {
  workspaceCommand(group, {
    usage: 'list <task>',
    description: 'list the external links of a task',
    example: 'links list BUG-12',
  }).action((task: string, flags: WorkspaceFlags) =>
    run(flags, async (asking) => {
      const taskId = await findTask(asking, task);
      const { workItems } = (await asking.client.listWorkItems({ taskId }, {})).body;
      const rows = workItems.map(({ workItemId, url, title }) => [workItemId, printable(url), printable(title ?? '')]);
      return { text: table(rows), json: workItems };
    }),
  );
}

type AddFlags = WorkspaceFlags & { title?: string; externalId?: string; provider?: string };

function addAdd(group: Command, run: Run): void {
  workspaceCommand(group, {
    usage: 'add <task> <url|item>',
    description: `connect an address, or an item ${ITEM}, to a task; an existing link stays as it is`,
    example: 'links add BUG-12 https://github.com/acme/app/pull/7 --title "Fix login"',
  })
    .option('--title <text>', 'shown in place of the address')
    .option('--external-id <id>', 'id of the linked thing, if it has one')
    .option('--provider <name>', 'provider that the address leads to')
    .action((task: string, target: string, flags: AddFlags) =>
      run(flags, async (asking) => {
        const taskId = await findTask(asking, task);
        const { url, item } = await addressOf(asking, target);
        const { title = item?.title ?? undefined, externalId, provider = item?.connector } = flags;
        const { status, body } = await asking.client.addWorkItem(
          { taskId, body: { url, title, externalId, provider } },
          {},
        );
        await asking.ask('link-added', { taskId, workItem: body, item: item?.key ?? null });
        return { text: `${status === 201 ? 'added' : 'already there'}  ${body.workItemId}`, json: [body] };
      }),
    );
}

type KnownItem = LinkTarget['items'][number];

/** Throws `not_found` where it is neither an address nor an item. */
async function addressOf(
  { ask }: Asking,
  target: string,
): Promise<{ readonly url: string; readonly item?: KnownItem }> {
  const { items } = await ask('link-target', { target });
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

function addRemove(group: Command, run: Run): void {
  workspaceCommand(group, {
    usage: 'remove <task> <link|item>',
    description: `remove a link from a task, named by its id, or by the item ${ITEM}; worksync does not add it again by itself`,
    example: 'links remove BUG-12 wi_PGZ3mGcBdhAhrUcC',
  }).action((task: string, link: string, flags: WorkspaceFlags) =>
    run(flags, async (asking) => {
      const taskId = await findTask(asking, task);
      const workItemId = await linkIdOf(asking, taskId, link);
      if (workItemId !== undefined) await asking.client.removeWorkItem({ taskId, workItemId }, {});
      await asking.ask('link-removed', { taskId, link });
      return { text: `removed  ${workItemId ?? link}`, json: [{ removed: workItemId ?? link }] };
    }),
  );
}

/** Undefined where the link is only wanted and does not stand there yet. Throws `not_found`. */
async function linkIdOf({ ask, client }: Asking, taskId: string, link: string): Promise<string | undefined> {
  const { workItemId, url, isOnlyWanted } = await ask('link-to-remove', { taskId, link });
  if (workItemId !== null) return workItemId;
  if (isOnlyWanted) return undefined;
  const { items } = await ask('link-target', { target: link });
  const addresses = [url, ...items.map((item) => item.url), /^https?:\/\//i.test(link) ? link : null].filter(
    (each) => each !== null,
  );
  if (addresses.length === 0) return link;
  const { workItems } = (await client.listWorkItems({ taskId }, {})).body;
  const found = workItems.find((each) => addresses.includes(each.url));
  if (found) return found.workItemId;
  throw new SyncError('not_found', `the task has no link ${link}`, { hint: '"worksync links list" lists them.' });
}

function addExplain(group: Command, run: Run): void {
  const described = {
    usage: 'explain <task|item>',
    description: `explain why links exist or do not: of a task, or of an item ${ITEM}; uses no quota`,
    example: 'links explain https://github.com/acme/app/pull/7',
  };
  workspaceCommand(group, described, { costsQuota: false }).action((target: string, flags: WorkspaceFlags) =>
    run(flags, async ({ ask }) => {
      const explained = await ask('explain', { target });
      if (explained.task === null && explained.items.length === 0)
        throw new SyncError('not_found', `the daemon knows no task and no item ${target}`, {
          hint: 'Give the key of a task, such as BUG-12, or an address or name of an item, such as acme/app#7.',
        });
      return { text: describeExplained(explained), json: [explained] };
    }),
  );
}

function addReleaseStatus(group: Command, run: Run): void {
  const described = {
    usage: 'release-status <task>',
    description: 'let the rules decide about a status that a person set; uses no quota',
    example: 'links release-status BUG-12',
  };
  workspaceCommand(group, described, { costsQuota: false }).action((task: string, flags: WorkspaceFlags) =>
    run(flags, async ({ ask }) => {
      const released = await ask('release-status', { task });
      const name = printable(released.task.name);
      const text = released.released ? `released  ${name}` : `nothing to release: no person set the status of ${name}`;
      return { text, json: [released] };
    }),
  );
}

function addReleaseField(group: Command, run: Run): void {
  const described = {
    usage: 'release-field <task> <field>',
    description: `let a field that a person edited follow its work item again: ${SYNC_FIELD_NAMES.join(', ')}; uses no quota`,
    example: 'links release-field BUG-12 title',
  };
  workspaceCommand(group, described, { costsQuota: false }).action(
    (task: string, field: SyncField, flags: WorkspaceFlags) =>
      run(flags, async ({ ask }) => {
        const released = await ask('release-field', { task, field });
        const name = `${field} of ${printable(released.task.name)}`;
        const text = released.released ? `released  ${name}` : `nothing to release: no person set ${name}`;
        return { text, json: [released] };
      }),
  );
}

/** Tasks of one answer. */
const MOST_UNFINISHED = 200;

function addUnfinished(group: Command, run: Run): void {
  const described = {
    usage: 'unfinished',
    description: 'list tasks whose work was merged and that are not finished, with the reason; uses no quota',
    example: 'links unfinished --json',
  };
  workspaceCommand(group, described, { costsQuota: false }).action((flags: WorkspaceFlags) =>
    run(flags, async ({ ask }) => {
      const { tasks } = await ask('unfinished', { limit: MOST_UNFINISHED });
      return { text: table(tasks.map(({ name, status, reason }) => [printable(name), status, reason])), json: tasks };
    }),
  );
}
