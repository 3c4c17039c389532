import type { Command } from 'commander';
import { answering } from './ask-workspace.ts';
import type { Exit, Setting } from './setting.ts';
import { printable } from './words.ts';
import { type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

const HELP = `
worksync binds each name in the configuration to the vendor's id of the repository, project or team that the name first led
to. If the name later leads to another one, worksync takes nothing from the new one until you confirm it with this command.
Then worksync reads the new one from the start; what came from the old one stays as it is.`;

/** `worksync connections`: what concerns one connection as a whole. */
export function addConnections(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('connections').description('connections to vendors: rebind').exitOverride();
  const described = {
    usage: 'rebind <connection>',
    description: 'bind the names of a connection to what they lead to now (see scope_rebound in status)',
    example: 'connections rebind github',
  };
  workspaceCommand(group, described)
    .addHelpText('after', HELP)
    .action(
      answering(
        setting,
        exit,
      )(async ({ ask }, _flags: WorkspaceFlags, connection: string) => {
        const bound = await ask('rebind', { connection });
        const lines = bound.map(({ name, id, called }) => `${name} now means ${called} (id ${id})`);
        const text = lines.join('\n') || `${connection}: every name still leads to what it led to before`;
        return { text: printable(text), json: [{ connection, bound }] };
      }),
    );
}
