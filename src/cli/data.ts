import type { Command } from 'commander';
import { type DaemonOptions, daemonOptions, environment, type Flags } from '../config/daemon-options.ts';
import { askOwner, hasOwner, whoRuns } from './owner.ts';
import { type Exit, OF_QUESTIONS, print, type Setting, say, withDaemonOptions } from './setting.ts';
import { plural } from './words.ts';

/** What deletes a large workspace takes, milliseconds. */
const LONGEST_FORGET = 600_000;

interface Json {
  readonly json?: boolean;
}

/** `worksync backup`, `worksync restore` and `worksync forget`. */
export function addData(program: Command, _setting: Setting, exit: Exit): void {
  withDaemonOptions(program.command('backup'), OF_QUESTIONS)
    .description('back up the database to a file, also while the daemon runs, and check the copy')
    .argument('<file>', 'the backup file; it must not exist yet')
    .addHelpText(
      'after',
      '\nThe backup does not contain the key files beside the database (*.key): store them apart from it.\n\nExample: worksync backup /backups/monday.db',
    )
    .option('--json', 'print one JSON object')
    .action(async (file: string, { json, ...flags }: Flags & Json) => {
      const place = daemonOptions(flags, environment());
      const { backUp } = await import('../operator/data.ts');
      await backUp(place, file);
      print(json ? JSON.stringify({ file }) : `The database was copied to ${file}, and the copy is intact.`);
      exit(0);
    });
  withDaemonOptions(program.command('restore'), OF_QUESTIONS)
    .description('replace the database with a backup; stop the daemon first')
    .argument('<file>', 'a file that "worksync backup" wrote; it stays as it is')
    .option('--workspace <name>', 'restore this workspace only; all others stay as they are')
    .addHelpText('after', '\nExample: worksync restore --workspace team /backups/monday.db')
    .option('--json', 'print one JSON object')
    .action(async (file: string, { workspace, json, ...flags }: Flags & Json & { readonly workspace?: string }) => {
      const place = daemonOptions(flags, environment());
      const { restore } = await import('../operator/data.ts');
      const { kept, rows } = await restore(place, file, workspace);
      if (json) print(JSON.stringify({ file, workspace: workspace ?? null, kept, rows }));
      else if (rows !== null) print(`Restored ${plural(rows, 'row')} of ${workspace}.`);
      else
        print(
          `The database was restored from ${file}.${kept === null ? '' : ` The previous one is stored as ${kept}`}`,
        );
      say(
        'worksync counts a full window of the request quota as used, and sends its next requests when the window has passed.',
      );
      exit(0);
    });
  withDaemonOptions(program.command('forget'), OF_QUESTIONS)
    .description('delete all rows of a workspace that has no configuration any more')
    .argument('<workspace>', 'name of the workspace')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExample: worksync forget team')
    .action(async (workspace: string, { json, ...flags }: Flags & Json) => {
      const place = daemonOptions(flags, environment());
      const rows = (await hasOwner(place.data))
        ? await askDaemon(place.data, workspace)
        : await forgetIt(place, workspace);
      print(json ? JSON.stringify({ workspace, rows }) : `Deleted ${plural(rows, 'row')} of ${workspace}.`);
      exit(0);
    });
}

async function askDaemon(data: string, workspace: string): Promise<number> {
  const answer = await askOwner<{ rows: number }>(data, 'POST', '/admin/forget', { workspace }, LONGEST_FORGET);
  return answer.rows;
}

async function forgetIt(place: DaemonOptions, workspace: string): Promise<number> {
  const { forgetAlone } = await import('../operator/data.ts');
  return forgetAlone(place, workspace, whoRuns());
}
