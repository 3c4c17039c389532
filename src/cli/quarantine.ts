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
  for (const act of ACTS) addAct(group, act, setting, exit);
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

/** A command that changes deliveries in quarantine. */
interface Act {
  readonly name: 'retry' | 'dismiss';
  readonly description: string;
  /** Precedes the number of deliveries. */
  readonly done: string;
}

const ACTS: readonly Act[] = [
  {
    name: 'retry',
    description: 'read deliveries in quarantine again, by their numbers in the list',
    done: 'to be read again',
  },
  {
    name: 'dismiss',
    description: 'ignore deliveries in quarantine, by their numbers in the list; "deliveries replay" reads them later',
    done: 'dismissed',
  },
];

function addAct(group: Command, { name, description, done }: Act, setting: Setting, exit: Exit): void {
  const described = { usage: `${name} [delivery...]`, description, example: `quarantine ${name} 4711` };
  workspaceCommand(group, described, { costsQuota: false })
    .option('--all', 'everything that is in quarantine')
    .action(async (deliveries: readonly string[], flags: SelectionFlags) => {
      const chosen = chosenDeliveries(deliveries, flags);
      const session = await sessionOf(setting, flags, () => 'warn');
      const answer = await askingWorkspace(session, flags, ({ ask }) => ask(name, chosen));
      const count = 'retried' in answer ? answer.retried : answer.dismissed;
      const text =
        count === 0
          ? 'none of these deliveries is in quarantine'
          : `${done}: ${plural(count, 'delivery', 'deliveries')}`;
      show({ text, json: [answer] }, flags);
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
