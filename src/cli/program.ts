import { Command, CommanderError } from 'commander';
import { describeBuild } from '../model/build.ts';
import { keepAlive } from '../platform/lib/clock.ts';
import { helpAsTyped, OWN_COMMAND, setPlaceFlags } from '../platform/lib/own-command.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import { filesFor } from './commands.ts';
import { reportError } from './report-error.ts';
import type { Exit, Setting } from './setting.ts';
import { safeOutput } from './words.ts';

/**
 * The command line. Data goes to standard output, everything else to standard error.
 *
 * @returns the exit code; undefined where the process goes on until a signal ends it
 */
export async function main(argv: readonly string[], version: string, scrubber: Scrubber): Promise<number | undefined> {
  let exit: number | undefined;
  setPlaceFlags(argv);
  const release = keepAlive();
  try {
    const program = await programOf(argv[2], { version, scrubber }, (code) => {
      exit = code;
    });
    await program.parseAsync(argv);
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    return reportError(error, (text) => scrubber.scrub(text));
  } finally {
    release();
  }
}

/** The commands that a command line with this first word needs: all of them unless it names one. */
export async function programOf(word: string | undefined, setting: Setting, exit: Exit): Promise<Command> {
  const program = new Command(OWN_COMMAND)
    .description(
      "Keeps a workspace's tasks in sync with pull requests and work items elsewhere, within a scarce request quota.",
    )
    .version(describeBuild(setting.version))
    .showHelpAfterError(
      'Add --help to see the arguments and options of the command. Run "worksync --help" to see all commands.',
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => process.stdout.write(safeOutput(helpAsTyped(text))),
      writeErr: (text) => process.stderr.write(safeOutput(helpAsTyped(text))),
    })
    .addHelpText('after', EXIT_CODES);
  for (const { load } of filesFor(word)) (await load(word))(program, setting, exit);
  return program;
}

const EXIT_CODES = `
Exit codes:
  0   done
  1   failed
  2   wrong usage
  3   done in part: something is left to do
  75  try again later: the data folder is in use, no daemon runs, the disk is full, the quota is used up
  77  a credential was refused
  78  the configuration is wrong, or the data folder cannot be used
  141 the reader of its output closed the pipe`;
