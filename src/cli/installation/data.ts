import { existsSync, readdirSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { asSyncError, SyncError } from '../../model/errors.ts';
import {
  type DaemonOptions,
  daemonOptions,
  environment,
  type Flags,
  serviceDatabase,
} from '../../platform/config/daemon-options.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { printable } from '../../platform/lib/text.ts';
import type { CopyProgress } from '../../store/copy/copy-store.ts';
import type { RestorePlan, WorkspaceRows } from '../../store/restore/restore.ts';
import { type AddCommands, daemonCommand, print, type Setting, say, sessionOf } from '../command.ts';
import { askOwnerOr, placeOf, whoRuns } from '../owner.ts';
import { plural } from '../words.ts';

/** Milliseconds that the deletion of a large workspace may take. */
const LONGEST_FORGET = 600_000;

interface Json {
  readonly json?: boolean;
}

export const addData: AddCommands = (program, setting) => {
  daemonCommand(program, 'backup', ['backup'])
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
  daemonCommand(program, 'restore', ['backup'])
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
  daemonCommand(program, 'forget')
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
};

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

interface CopyFlags {
  readonly giveUp?: true;
  readonly json?: boolean;
}

export const addStore: AddCommands = (program, { scrubber }) => {
  const group = program
    .command('store')
    .description('the database: a file in the data folder, or PostgreSQL')
    .exitOverride();
  group
    .command('copy')
    .description('copy everything from SQLite to PostgreSQL or back, and compare both; stop every daemon first')
    .argument('<from>', 'a data folder, or postgres://user@host/database?schema=worksync; it stays as it is')
    .argument(
      '[to]',
      'the same; absent: the address that WORKSYNC_STORE gives. Empty, or with what an earlier call copied',
    )
    .option('--give-up', 'delete from [to] what an unfinished copy left there, and copy nothing')
    .option('--json', 'print one JSON object')
    .exitOverride()
    .addHelpText('after', COPY_HELP)
    .action(async (from: string, given: string | undefined, { giveUp, json }: CopyFlags) => {
      const to = given ?? configuredStore();
      for (const secret of [from, to].flatMap(passwordOf)) scrubber.add(secret);
      const { giveUpMove, moveStore } = await import('../../admin/installation/store.ts');
      if (giveUp) {
        const rows = await giveUpMove(to);
        print(json ? JSON.stringify({ deleted: rows }) : `Deleted ${plural(rows, 'row')} of an unfinished copy.`);
      } else {
        const moved = await moveStore(from, to, whoRuns(), progressReporter());
        if (json) print(JSON.stringify(moved));
        else print(describeCopy(moved));
      }
    });
};

const COPY_HELP = `
A password needs no place in the command: let WORKSYNC_STORE or WORKSYNC_STORE_FILE give the address, or PGPASSWORD or ~/.pgpass the
password.
Killed at any point, the same command goes on; until then no worksync starts on the copy.

Example: worksync store copy data postgres://worksync@db.example.com/worksync?sslmode=verify-full`;

/** Returns the place where the daemon of these variables stores its rows. */
function configuredStore(): string {
  const { store } = daemonOptions({}, environment());
  if (store !== undefined) return store;
  const hint = 'Name it after the first place, or set WORKSYNC_STORE (or WORKSYNC_STORE_FILE).';
  throw new SyncError('usage', 'the place to copy to is missing', { hint });
}

/** Returns each form of the password in an address, because the scrubber must replace all of them. */
function passwordOf(text: string): readonly string[] {
  const password = URL.parse(text)?.password ?? '';
  return password === '' ? [] : [password, decodeURIComponent(password)];
}

/** Milliseconds between two progress reports. */
const REPORT_EVERY = 5_000;

function progressReporter(): (progress: CopyProgress) => void {
  const clock = systemClock();
  let reported = clock.monotonic();
  return ({ step, table, rows }) => {
    if (clock.monotonic() - reported < REPORT_EVERY) return;
    reported = clock.monotonic();
    say(`worksync: ${step} ${plural(rows, 'row')} of ${table}`);
  };
}

function describeCopy({ from, to, rows, next }: { from: string; to: string; rows: number; next: readonly string[] }) {
  const done = `Copied ${plural(rows, 'row')} from ${from} to ${to}, and compared them: both are the same.`;
  return [done, ...next].map(printable).join('\n');
}
