import type { Command } from 'commander';
import type { Exit, Setting } from './setting.ts';
import { taskIdOf } from './tasks.ts';
import { printable, table } from './words.ts';
import { runOnWorkspace, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** `worksync links`. A task may be named by its key or its id; a key costs one request more. */
export function addLinks(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('links').description("a task's external links: list, add, remove").exitOverride();
  addList(group, setting, exit);
  addAdd(group, setting, exit);
  addRemove(group, setting, exit);
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'list <task>',
    description: 'list the external links of a task',
    example: 'links list BUG-12',
  }).action((task: string, flags: WorkspaceFlags) =>
    runOnWorkspace(setting, exit, flags, async (client) => {
      const { workItems } = (await client.listWorkItems({ taskId: await taskIdOf(client, task) }, {})).body;
      const rows = workItems.map(({ workItemId, url, title }) => [workItemId, printable(url), printable(title ?? '')]);
      return { text: table(rows), json: workItems };
    }),
  );
}

type AddFlags = WorkspaceFlags & { title?: string; externalId?: string; provider?: string };

function addAdd(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'add <task> <url>',
    description: 'connect an address to a task; an address that is there already stays as it is',
    example: 'links add BUG-12 https://github.com/acme/app/pull/7 --title "Fix login"',
  })
    .option('--title <text>', 'shown in place of the address')
    .option('--external-id <id>', "the thing's own id, where it has one")
    .option('--provider <name>', 'where the address leads to')
    .action((task: string, url: string, flags: AddFlags) =>
      runOnWorkspace(setting, exit, flags, async (client) => {
        const { title, externalId, provider } = flags;
        const taskId = await taskIdOf(client, task);
        const { status, body } = await client.addWorkItem({ taskId, body: { url, title, externalId, provider } }, {});
        return { text: `${status === 201 ? 'added' : 'was there'}  ${body.workItemId}`, json: [body] };
      }),
    );
}

function addRemove(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'remove <task> <link>',
    description: 'remove a link, named by its id, from a task',
    example: 'links remove BUG-12 wi_PGZ3mGcBdhAhrUcC',
  }).action((task: string, workItemId: string, flags: WorkspaceFlags) =>
    runOnWorkspace(setting, exit, flags, async (client) => {
      const taskId = await taskIdOf(client, task);
      await client.removeWorkItem({ taskId, workItemId }, {});
      return { text: `removed  ${workItemId}`, json: [{ removed: workItemId }] };
    }),
  );
}
