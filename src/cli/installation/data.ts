import { existsSync, readdirSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { type DaemonOptions, type Flags, serviceDatabase } from '../../platform/config/daemon-options.ts';
import type { RestorePlan, WorkspaceRows } from '../../store/restore/restore.ts';
import { askOwnerOr, placeOf, whoRuns } from '../owner.ts';
import { OF_QUESTIONS, print, type Setting, say, sessionOf, withDaemonOptions } from '../setting.ts';
import { plural, printable } from '../words.ts';

/** Milliseconds that the deletion of a large workspace may take. */
const LONGEST_FORGET = 600_000;

interface Json {
  readonly json?: boolean;
}

export function addData(program: Command, setting: Setting): void {
  withDaemonOptions(program.command('backup'), [...OF_QUESTIONS, 'backup'])
    .description('back up the database to a file, also while the daemon runs, and check the copy')
    .argument('<file>', 'the backup file, which must not exist yet; - writes to standard output')
    .addHelpText(
      'after',
      '\nThe backup does not contain the key files beside the database (*.key): store them apart from it.\n\nExample: worksync backup /backups/monday.db',
    )
    .option('--json', 'print one JSON object')
    .action(async (name: string, { json, ...flags }: Flags & Json) => {
      const place = await placeOf(flags);
      const { backUp, backUpTo } = await import('../../admin/installation/data.ts');
      if (name === '-') {
        if (json || process.stdout.isTTY)
          throw new SyncError('usage', 'a backup on standard output leaves no room for other output', {
            hint: 'Leave --json out, and redirect standard output to a file or a pipe.',
          });
        await backUpTo(place, process.stdout);
        return;
      }
      const file = backupFile(place, name);
      await backUp(place, file);
      print(json ? JSON.stringify({ file }) : `The database was copied to ${file}, and the copy is intact.`);
    });
  withDaemonOptions(program.command('restore'), [...OF_QUESTIONS, 'backup'])
    .description('replace the database with a backup; stop the daemon first')
    .argument('<file>', 'a file that "worksync backup" wrote; it stays as it is')
    .option('--workspace <name>', 'restore this workspace only; all others stay as they are')
    .option('--dry-run', 'check the backup, print what would change, and change nothing')
    .addHelpText('after', '\nExample: worksync restore --workspace team /backups/monday.db')
    .option('--json', 'print one JSON object')
    .action(async (name: string, { workspace, dryRun, json, ...flags }: Flags & Json & RestoreFlags) => {
      const place = await placeOf(flags);
      const file = backupFile(place, name);
      const { restore, tryRestore } = await import('../../admin/installation/data.ts');
      if (dryRun) {
        const plan = await tryRestore(place, file, workspace);
        print(
          json ? JSON.stringify({ file, workspace: workspace ?? null, ...plan }) : describePlan(plan, file, workspace),
        );
        return;
      }
      const { kept, rows } = await restore(place, file, workspace);
      if (json) print(JSON.stringify({ file, workspace: workspace ?? null, kept, rows }));
      else if (rows !== null) print(`Restored ${plural(rows, 'row')} of ${workspace}.`);
      else
        print(
          `The database was restored from ${file}.${kept === null ? '' : ` The previous one is stored as ${kept}`}`,
        );
      say(AFTERWARDS);
    });
  withDaemonOptions(program.command('forget'), OF_QUESTIONS)
    .description('delete all rows of a workspace that has no configuration any more')
    .argument('<workspace>', 'name of the workspace')
    .option('--json', 'print one JSON object')
    .option('--yes', 'delete them; only a backup brings them back')
    .addHelpText('after', '\nExample: worksync forget team --yes')
    .action(async (workspace: string, { json, yes, ...flags }: Flags & Json & { readonly yes?: boolean }) => {
      if (!yes)
        throw new SyncError(
          'usage',
          `forget needs --yes: it deletes all rows of ${workspace}, which are deliveries, items, links and history`,
          {
            hint: 'Make a backup with "worksync backup <file>" first. Then repeat the command with --yes.',
          },
        );
      const place = await placeOf(flags);
      const { rows } = await askOwnerOr(
        place.data,
        '/admin/forget',
        { workspace },
        () => forgetWithoutDaemon(setting, flags, place, workspace),
        LONGEST_FORGET,
      );
      print(json ? JSON.stringify({ workspace, rows }) : `Deleted ${plural(rows, 'row')} of ${workspace}.`);
      const service = serviceDatabase(place.data, workspace);
      if (existsSync(service))
        say(
          `${service} and the files whose names begin with it were kept: they hold the tasks and uploads of the embedded service. Delete them if you no longer need them.`,
        );
    });
}

function backupFile({ backup }: DaemonOptions, name: string): string {
  return resolve(backup ?? '', name);
}

interface RestoreFlags {
  readonly workspace?: string;
  readonly dryRun?: true;
}

const AFTERWARDS = `Gateway tokens that came with the backup are revoked: make new ones with "worksync gateway token create --description <purpose>".
worksync counts a full window of the request quota as used, and sends its next requests when the window has passed.
It writes nothing about an item until it has fetched, polled or received that item again. "worksync status" counts these items.`;

function describePlan({ backup, present, presentFault, kept }: RestorePlan, file: string, workspace?: string): string {
  const only = ({ name }: WorkspaceRows) => workspace === undefined || name === workspace;
  const now = present?.workspaces.filter(only) ?? [];
  const then = backup.workspaces.filter(only);
  const lost = now.filter(({ name }) => !then.some((each) => each.name === name));
  const tokens = now.reduce((sum, each) => sum + each.tokens, 0);
  const lines = [
    `Nothing was changed. To restore ${file} would`,
    ...(presentFault === null ? [] : [`  replace a database that cannot be read (${presentFault})`]),
    ...(kept === null ? [] : [`  keep the present database as ${kept}`]),
    ...then.map(
      (each) =>
        `  bring back ${describeRows(
          each,
          now.find(({ name }) => name === each.name),
        )}`,
    ),
    ...lost.map((each) => `  remove ${describeRows(each)}`),
    `  revoke ${plural(tokens, 'gateway token')}${workspace === undefined ? `, and log ${plural(present?.sessions ?? 0, 'browser')} out` : ''}`,
    '  count a full window of the request quota as used',
    `  write nothing about each of ${plural(
      then.reduce((sum, { items }) => sum + items, 0),
      'item',
    )} until it was fetched, polled or delivered again`,
  ];
  return lines.map(printable).join('\n');
}

/** Shows the present number beside each number of the backup that differs. */
function describeRows(rows: WorkspaceRows, present: WorkspaceRows = rows): string {
  const count = (key: 'deliveries' | 'items' | 'tasks', one: string) =>
    `${plural(rows[key], one, key)}${present[key] === rows[key] ? '' : ` (now ${present[key]})`}`;
  return `${rows.name}: ${[count('deliveries', 'delivery'), count('items', 'item'), count('tasks', 'task')].join(', ')}`;
}

/** Deletes the rows while no daemon runs. Throws `conflict` if the workspace is configured: the next start would create it again. */
async function forgetWithoutDaemon(
  setting: Setting,
  flags: Flags,
  place: DaemonOptions,
  workspace: string,
): Promise<{ readonly rows: number }> {
  const names = await configuredNames(setting, flags, place);
  if (names.includes(workspace))
    throw new SyncError('conflict', `${workspace} still has a configuration`, {
      hint: 'Remove its file from the configuration first, then repeat the command.',
    });
  const { alone, forget } = await import('../../admin/installation/data.ts');
  return { rows: await alone(place, (installation) => forget(installation, workspace, whoRuns())) };
}

/** Returns the names of all configured workspaces. An empty folder has none. */
async function configuredNames(
  setting: Setting,
  flags: Flags,
  { config: path }: DaemonOptions,
): Promise<readonly string[]> {
  try {
    const { config } = await sessionOf(setting, flags, () => 'error');
    return [...config.workspaces, ...config.broken].map(({ name }) => name);
  } catch (error) {
    const isFolder = path !== undefined && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    const isEmpty = isFolder && readdirSync(path).length === 0;
    if (asSyncError(error).code === 'config_unreadable' && isEmpty) return [];
    throw error;
  }
}
