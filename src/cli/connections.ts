import type { Command } from 'commander';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, OF_WORK, type Setting, sessionOf } from './setting.ts';
import { printable } from './words.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

const HELP = `
A name in the configuration is bound to the vendor's id of the repository, project or team that it led to first. When it
leads to another one later, nothing is taken from that one until this command says that it is the one you mean. It is then
read from the start; what came from the one before stays as it is.`;

/** `worksync connections`: what concerns one connection as a whole. */
export function addConnections(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('connections').description('connections to vendors: rebind').exitOverride();
  workspaceCommand(
    group,
    {
      usage: 'rebind <connection>',
      description: 'take what the names of a connection lead to now for what is meant (see scope_rebound in status)',
      example: 'connections rebind github',
    },
    { shown: OF_WORK },
  )
    .addHelpText('after', HELP)
    .action(async (connection: string, flags: WorkspaceFlags) => {
      const session = sessionOf(setting, flags, () => 'warn');
      const bound = await askingWorkspace(session, flags, ({ ask }) => ask('rebind', { connection }));
      const lines = bound.map(({ name, id, called }) => `${name} now means ${called} (id ${id})`);
      const text = lines.join('\n') || `${connection}: every name leads to what it led to before`;
      show({ text: printable(text), json: [{ connection, bound }] }, flags);
      exit(0);
    });
}
