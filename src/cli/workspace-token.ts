import type { Command } from 'commander';
import { systemClock } from '../platform/lib/clock.ts';
import { systemRandom } from '../platform/lib/random.ts';
import { durationOption } from './patience.ts';
import { type Exit, oneOf, print } from './setting.ts';

interface Given {
  readonly db: string;
  readonly user: string;
  readonly role: 'owner' | 'admin' | 'member';
  readonly ttl: number;
  readonly workspace?: string;
  readonly json?: boolean;
}

const HELP = `
The command works with or without a running service. An unknown user becomes a member with this role.

Example: worksync workspace token --db data/workspace.service.db --user ada --role admin --ttl 8h
         worksync workspace token --db data/demo.service.db --user Owner --role owner   (of npm start)`;

/** `worksync workspace token`: an OAuth token of a member (W18). */
export function addWorkspaceToken(workspace: Command, exit: Exit): void {
  workspace
    .command('token')
    .description('mint an OAuth token of a member')
    .requiredOption('--user <id or name>', 'the member whose token it is')
    .option('--role <role>', 'role of the token: owner, admin or member', oneOf(['owner', 'admin', 'member']), 'member')
    .addOption(durationOption('--ttl <duration>', 'how long it lives: 30m, 1h, 14d', 3_600_000))
    .option('--db <file>', 'database file of the service', 'data/workspace.service.db')
    .option('--workspace <id>', 'optional if the service has only one workspace')
    .option('--json', 'print JSON: the token with its id, user, role and end')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async ({ db, user, role, ttl, workspace: workspaceId, json }: Given) => {
      const place = { file: db, clock: systemClock(), random: systemRandom() };
      const { mintTokenBeside } = await import('../reference-service/access/beside.ts');
      const minted = await mintTokenBeside(place, { workspaceId, user, role, ttl });
      print(json ? JSON.stringify(minted) : minted.token);
      exit(0);
    });
}
