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
    .description('copy the database to a file, also while the daemon runs, and check the copy')
    .argument('<file>', 'where to; it must not be there yet')
    .addHelpText('after', '\nKeys beside the database (*.key) are not part of it: keep them apart from it.')
    .action(async (file: string, flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      await backUp(data, file);
      print(`The database was copied to ${file}, and the copy is sound.`);
      exit(0);
    });
  withDaemonOptions(program.command('restore'), OF_QUESTIONS)
    .description('put a backup in the place of the database; no daemon may run meanwhile')
    .argument('<file>', 'what "worksync backup" wrote; it stays as it is')
    .option('--workspace <name>', 'bring back this workspace only; all others stay as they are')
    .addHelpText('after', '\nExample: worksync restore --workspace team /backups/monday.db')
    .action(async (file: string, { workspace, ...flags }: Flags & { readonly workspace?: string }) => {
      const { data } = daemonOptions(flags, environment());
      const { kept, rows } = await restore(data, file, workspace);
      if (rows !== null) print(`Brought back ${plural(rows, 'row')} of ${workspace}.`);
      else print(`The database is that of ${file} now.${kept === null ? '' : ` The one before is kept: ${kept}`}`);
      say('A full window of the request quota counts as used: the next requests go out when it has passed.');
      exit(0);
    });
  withDaemonOptions(program.command('forget'), OF_QUESTIONS)
    .description('delete all rows of a workspace that has no configuration any more')
    .argument('<workspace>', 'its name')
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
