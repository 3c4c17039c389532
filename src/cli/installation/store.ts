import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import { daemonOptions, environment } from '../../platform/config/daemon-options.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import type { CopyProgress } from '../../store/copy/copy-store.ts';
import { whoRuns } from '../owner.ts';
import { print, type Setting, say } from '../setting.ts';
import { plural, printable } from '../words.ts';

interface Flags {
  readonly giveUp?: true;
  readonly json?: boolean;
}

export function addStore(program: Command, { scrubber }: Setting): void {
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
    .addHelpText('after', HELP)
    .action(async (from: string, given: string | undefined, { giveUp, json }: Flags) => {
      const to = given ?? configuredStore();
      for (const secret of [from, to].flatMap(passwordOf)) scrubber.add(secret);
      const { giveUpMove, moveStore } = await import('../../admin/installation/store.ts');
      if (giveUp) {
        const rows = await giveUpMove(to);
        print(json ? JSON.stringify({ deleted: rows }) : `Deleted ${plural(rows, 'row')} of an unfinished copy.`);
      } else {
        const moved = await moveStore(from, to, whoRuns(), progressReporter());
        if (json) print(JSON.stringify(moved));
        else print(describe(moved));
      }
    });
}

const HELP = `
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

/** Returns the password in an address, because no message may contain it. */
function passwordOf(text: string): readonly string[] {
  const password = URL.parse(text)?.password ?? '';
  return password === '' ? [] : [password, decodeURIComponent(password)];
}

/** Milliseconds without output that people accept. */
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

function describe({ from, to, rows, next }: { from: string; to: string; rows: number; next: readonly string[] }) {
  const done = `Copied ${plural(rows, 'row')} from ${from} to ${to}, and compared them: both are the same.`;
  return [done, ...next].map(printable).join('\n');
}
