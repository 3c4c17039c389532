import type { Command } from 'commander';
import type { Setting } from '../setting.ts';
import { printable } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

const HELP = `
worksync binds each name in the configuration to the vendor's id of the repository, project or team that the name first led
to. If the name later leads to another one, worksync takes nothing from the new one until you confirm it with this command.
Then worksync reads the new one from the start; what came from the old one stays as it is.`;

/** Adds the commands about one connection as a whole. */
export function addConnections(program: Command, setting: Setting): void {
  const group = program.command('connections').description('connections to vendors: rebind').exitOverride();
  operationCommand(group, setting, {
    usage: 'rebind <connection>',
    description: 'bind the names of a connection to what they lead to now (see scope_rebound in status)',
    example: 'connections rebind github',
    help: HELP,
    costsQuota: true,
    operation: 'rebind',
    body: (_flags: WorkspaceFlags, connection: string) => ({ connection }),
    text(bound, _now, _flags, connection) {
      const lines = bound.map(({ name, id, called }) => `${name} now means ${called} (id ${id})`);
      return printable(lines.join('\n') || `${connection}: every name still leads to what it led to before`);
    },
    json: (bound, _flags, connection) => [{ connection, bound }],
  });
}
