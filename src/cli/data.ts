import type { Command } from 'commander';
import { daemonOptions, environment, type Flags } from '../config/daemon-options.ts';
import { backUp, forgetAlone, restore } from '../operator/data.ts';
import { askOwner, hasOwner } from './owner.ts';
import { type Exit, OF_QUESTIONS, print, say, withDaemonOptions } from './setting.ts';
import { plural } from './words.ts';

/** What deletes a large workspace takes, milliseconds. */
const LONGEST_FORGET = 600_000;

/** `worksync backup`, `worksync restore` and `worksync forget`. */
export function addData(program: Command, exit: Exit): void {
  withDaemonOptions(program.command('backup'), OF_QUESTIONS)
    .description('back up the database to a file, also while the daemon runs, and check the copy')
    .argument('<file>', 'the backup file; it must not exist yet')
    .addHelpText(
      'after',
      '\nThe backup does not contain the key files beside the database (*.key): store them apart from it.',
    )
    .action(async (file: string, flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      await backUp(data, file);
      print(`The database was copied to ${file}, and the copy is intact.`);
      exit(0);
    });
  withDaemonOptions(program.command('restore'), OF_QUESTIONS)
    .description('replace the database with a backup; stop the daemon first')
    .argument('<file>', 'a file that "worksync backup" wrote; it stays as it is')
    .option('--workspace <name>', 'restore this workspace only; all others stay as they are')
    .addHelpText('after', '\nExample: worksync restore --workspace team /backups/monday.db')
    .action(async (file: string, { workspace, ...flags }: Flags & { readonly workspace?: string }) => {
      const { data } = daemonOptions(flags, environment());
      const { kept, rows } = await restore(data, file, workspace);
      if (rows !== null) print(`Restored ${plural(rows, 'row')} of ${workspace}.`);
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
    .action(async (workspace: string, flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      const rows = (await hasOwner(data)) ? await askDaemon(data, workspace) : await forgetAlone(data, workspace);
      print(`Deleted ${plural(rows, 'row')} of ${workspace}.`);
      exit(0);
    });
}

async function askDaemon(data: string, workspace: string): Promise<number> {
  const answer = await askOwner<{ rows: number }>(data, 'POST', '/admin/forget', { workspace }, LONGEST_FORGET);
  return answer.rows;
}
