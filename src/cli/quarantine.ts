import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, type Setting, sessionOf } from './setting.ts';
import { plural, printable } from './words.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Deliveries listed: the latest. */
const LISTED = 100;

/** `worksync quarantine`: the deliveries that could not be read, and trying them again. */
export function addQuarantine(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('quarantine')
    .description('deliveries that could not be read: list, retry')
    .exitOverride();
  addList(group, setting, exit);
  addRetry(group, setting, exit);
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'list',
    description: `list the latest ${LISTED} deliveries in quarantine, and why they are there (the default)`,
    example: 'quarantine --json',
  };
  workspaceCommand(group, described, { isDefault: true, costsQuota: false }).action(async (flags: WorkspaceFlags) => {
    const session = await sessionOf(setting, flags, () => 'warn');
    const found = await askingWorkspace(session, flags, ({ ask }) => ask('quarantine', { limit: LISTED }));
    const lines = found.map(({ id, connection, event, receivedAt, reason }) =>
      printable(`${id}  ${new Date(receivedAt).toISOString()}  ${connection} ${event}: ${reason ?? ''}`),
    );
    show({ text: lines.length === 0 ? 'nothing is in quarantine' : lines.join('\n'), json: [found] }, flags);
    exit(0);
  });
}

type RetryFlags = WorkspaceFlags & { readonly all?: boolean };

function addRetry(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'retry [delivery...]',
    description: 'read deliveries in quarantine again, by their numbers in the list',
    example: 'quarantine retry 4711',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .option('--all', 'everything that is in quarantine')
    .action(async (deliveries: readonly string[], flags: RetryFlags) => {
      const isOfNumbers = deliveries.every((each) => /^[1-9][0-9]{0,14}$/.test(each));
      if (!isOfNumbers || deliveries.length > 0 === (flags.all === true)) {
        throw new SyncError(
          'usage',
          'name what to read again: numbers of deliveries as `quarantine` lists them, or --all',
        );
      }
      const wish = flags.all ? {} : { ids: deliveries.map(Number) };
      const session = await sessionOf(setting, flags, () => 'warn');
      const answer = await askingWorkspace(session, flags, ({ ask }) => ask('retry', wish));
      show({ text: `to be read again: ${plural(answer.retried, 'delivery', 'deliveries')}`, json: [answer] }, flags);
      exit(0);
    });
}
