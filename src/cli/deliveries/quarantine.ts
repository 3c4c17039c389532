import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import type { Setting } from '../setting.ts';
import { plural, printable } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

const LISTED = 100;

/** `worksync quarantine`: lists, retries and dismisses deliveries that could not be read. */
export function addQuarantine(program: Command, setting: Setting): void {
  const group = program
    .command('quarantine')
    .description('deliveries that could not be read: list, retry, dismiss')
    .exitOverride();
  operationCommand(group, setting, {
    usage: 'list',
    description: `list the latest ${LISTED} deliveries in quarantine, and why they are there (the default)`,
    example: 'quarantine --json',
    isDefault: true,
    operation: 'quarantine',
    body: () => ({ limit: LISTED }),
    text: (found) =>
      found
        .map(({ id, connection, event, receivedAt, reason }) =>
          printable(`${id}  ${new Date(receivedAt).toISOString()}  ${connection} ${event}: ${reason ?? ''}`),
        )
        .join('\n') || 'nothing is in quarantine',
    json: (found) => [found],
  });
  operationCommand(group, setting, {
    usage: 'retry [delivery...]',
    description: 'read deliveries in quarantine again, by their numbers in the list',
    example: 'quarantine retry 4711',
    operation: 'retry',
    body: chosenDeliveries,
    text: ({ retried }) => describeDone('to be read again', retried),
  }).option(...ALL);
  operationCommand(group, setting, {
    usage: 'dismiss [delivery...]',
    description: 'ignore deliveries in quarantine, by their numbers in the list; "deliveries replay" reads them later',
    example: 'quarantine dismiss 4711',
    operation: 'dismiss',
    body: chosenDeliveries,
    text: ({ dismissed }) => describeDone('dismissed', dismissed),
  }).option(...ALL);
}

const ALL = ['--all', 'everything that is in quarantine'] as const;

type SelectionFlags = WorkspaceFlags & { readonly all?: boolean };

/** Returns the ids of the named deliveries; none for `--all`. Throws `usage` unless exactly one of the two is given. */
function chosenDeliveries({ all = false }: SelectionFlags, deliveries: readonly string[]): { readonly ids?: number[] } {
  const areNumbers = deliveries.every((each) => /^[1-9][0-9]{0,14}$/.test(each));
  if (!areNumbers || deliveries.length > 0 === all)
    throw new SyncError('usage', 'name deliveries by their numbers in "worksync quarantine list", or use --all');
  return all ? {} : { ids: deliveries.map(Number) };
}

function describeDone(done: string, count: number): string {
  if (count === 0) return 'none of these deliveries is in quarantine';
  return `${done}: ${plural(count, 'delivery', 'deliveries')}`;
}
