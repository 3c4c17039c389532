import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, type Setting, sessionOf } from './setting.ts';
import { plural, printable } from './words.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Deliveries listed: the latest. */
const LISTED = 100;

/** `worksync quarantine`: lists, retries and dismisses deliveries that could not be read. */
export function addQuarantine(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('quarantine')
    .description('deliveries that could not be read: list, retry, dismiss')
    .exitOverride();
  addList(group, setting, exit);
  addRetry(group, setting, exit);
  addDismiss(group, setting, exit);
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

type SelectionFlags = WorkspaceFlags & { readonly all?: boolean };

function addRetry(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'retry [delivery...]',
    description: 'read deliveries in quarantine again, by their numbers in the list',
    example: 'quarantine retry 4711',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .option('--all', 'everything that is in quarantine')
    .action(async (deliveries: readonly string[], flags: SelectionFlags) => {
      const chosen = chosenDeliveries(deliveries, flags);
      const session = await sessionOf(setting, flags, () => 'warn');
      const answer = await askingWorkspace(session, flags, ({ ask }) => ask('retry', chosen));
      show({ text: counted('to be read again', answer.retried), json: [answer] }, flags);
      exit(0);
    });
}

function addDismiss(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'dismiss [delivery...]',
    description: 'ignore deliveries in quarantine, by their numbers in the list; "deliveries replay" reads them later',
    example: 'quarantine dismiss 4711',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .option('--all', 'everything that is in quarantine')
    .action(async (deliveries: readonly string[], flags: SelectionFlags) => {
      const chosen = chosenDeliveries(deliveries, flags);
      const session = await sessionOf(setting, flags, () => 'warn');
      const answer = await askingWorkspace(session, flags, ({ ask }) => ask('dismiss', chosen));
      show({ text: counted('dismissed', answer.dismissed), json: [answer] }, flags);
      exit(0);
    });
}

/** Returns the ids of the named deliveries; none for `--all`. Throws `usage` unless exactly one of the two is given. */
function chosenDeliveries(deliveries: readonly string[], { all = false }: SelectionFlags): { readonly ids?: number[] } {
  const areNumbers = deliveries.every((each) => /^[1-9][0-9]{0,14}$/.test(each));
  if (!areNumbers || deliveries.length > 0 === all)
    throw new SyncError('usage', 'name deliveries by their numbers in "worksync quarantine list", or use --all');
  return all ? {} : { ids: deliveries.map(Number) };
}

function counted(done: string, count: number): string {
  return count === 0
    ? 'none of these deliveries is in quarantine'
    : `${done}: ${plural(count, 'delivery', 'deliveries')}`;
}
