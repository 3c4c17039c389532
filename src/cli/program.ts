import { Command, CommanderError } from 'commander';
import { describeBuild } from '../model/build.ts';
import { keepAlive } from '../platform/lib/clock.ts';
import { helpAsTyped, OWN_COMMAND, setPlaceFlags } from '../platform/lib/own-program.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import type { AddCommands, Setting } from './command.ts';
import { reportError } from './report-error.ts';
import { safeOutput } from './words.ts';

/**
 * The command line. Data goes to standard output, everything else to standard error.
 *
 * @returns the exit code; undefined where the process goes on until a signal ends it
 */
export async function main(argv: readonly string[], version: string, scrubber: Scrubber): Promise<number | undefined> {
  let exit: number | undefined = 0;
  setPlaceFlags(argv);
  const release = keepAlive();
  try {
    const setExit: Setting['exit'] = (code) => {
      exit = code;
    };
    const program = await programOf(argv[2], { version, scrubber }, setExit);
    await program.parseAsync(argv);
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    return reportError(error, (text) => scrubber.scrub(text));
  } finally {
    release();
  }
}

/** Returns the commands that a command line with this first word needs: all of them unless it names one. */
export async function programOf(
  word: string | undefined,
  setting: Omit<Setting, 'exit'>,
  exit: Setting['exit'],
): Promise<Command> {
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
  for (const { load } of filesFor(word)) (await load(word))(program, { ...setting, exit });
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

interface CommandFile {
  readonly names: readonly string[];
  /** @param word the first word of the command line */
  readonly load: (word?: string) => Promise<AddCommands>;
}

/**
 * All commands, in the order of the help. A command line that names one loads the file of that one alone; and the file of a
 * command imports only what names, options and help need. What its action needs, the action imports.
 */
export const COMMAND_FILES: readonly CommandFile[] = [
  { names: ['run'], load: async () => (await import('./installation/run.ts')).addRun },
  { names: ['init'], load: async () => (await import('./installation/init.ts')).addInit },
  { names: ['once'], load: async () => (await import('./installation/run.ts')).addOnce },
  { names: ['demo'], load: async () => (await import('./installation/run.ts')).addDemo },
  { names: ['status'], load: async () => (await import('./status/status.ts')).addStatus },
  { names: ['wait'], load: async () => (await import('./status/wait.ts')).addWait },
  { names: ['check'], load: async () => (await import('./status/check.ts')).addCheck },
  { names: ['login', 'logout'], load: async () => (await import('./access/access.ts')).addLogin },
  { names: ['backup', 'restore', 'forget'], load: async () => (await import('./installation/data.ts')).addData },
  { names: ['store'], load: async () => (await import('./installation/data.ts')).addStore },
  { names: ['plan'], load: async () => (await import('./changes/plan.ts')).addPlan },
  { names: ['quota'], load: async () => (await import('./quota/quota.ts')).addQuota },
  { names: ['held'], load: async () => (await import('./changes/waiting-changes.ts')).addHeld },
  { names: ['changes'], load: async () => (await import('./changes/waiting-changes.ts')).addChanges },
  { names: ['quarantine'], load: async () => (await import('./deliveries/deliveries.ts')).addQuarantine },
  { names: ['deliveries'], load: async () => (await import('./deliveries/deliveries.ts')).addDeliveries },
  { names: ['listen'], load: async () => (await import('./deliveries/deliveries.ts')).addListen },
  { names: ['trigger'], load: async () => (await import('./deliveries/trigger.ts')).addTrigger },
  { names: ['items'], load: async () => (await import('./items/show-items.ts')).addItems },
  { names: ['backfill'], load: async () => (await import('./connections/connections.ts')).addBackfill },
  { names: ['sweep'], load: async () => (await import('./workspace/sweep.ts')).addSweep },
  { names: ['hooks'], load: async () => (await import('./connections/connections.ts')).addHooks },
  { names: ['config'], load: async () => (await import('./installation/config.ts')).addConfig },
  { names: ['connections'], load: async () => (await import('./connections/connections.ts')).addConnections },
  { names: ['connectors'], load: async () => (await import('./connections/connectors.ts')).addConnectors },
  { names: ['translate'], load: async () => (await import('./deliveries/translate.ts')).addTranslate },
  { names: ['api'], load: loadApi },
  { names: ['tasks'], load: async () => (await import('./tasks/tasks.ts')).addTasks },
  { names: ['links'], load: async () => (await import('./tasks/tasks.ts')).addLinks },
  { names: ['docs'], load: async () => (await import('./tasks/docs.ts')).addDocs },
  { names: ['prs'], load: async () => (await import('./tasks/prs.ts')).addPullRequests },
  { names: ['ci'], load: async () => (await import('./tasks/ci.ts')).addCi },
  { names: ['files'], load: async () => (await import('./tasks/docs.ts')).addFiles },
  { names: ['keys'], load: async () => (await import('./access/keys.ts')).addKeys },
  { names: ['audit'], load: async () => (await import('./access/access.ts')).addAudit },
  { names: ['gateway'], load: async () => (await import('./access/access.ts')).addGateway },
  { names: ['workspace'], load: async () => (await import('./workspace/workspace.ts')).addWorkspace },
  { names: ['healthcheck'], load: async () => (await import('./status/healthcheck.ts')).addHealthcheck },
  { names: ['completion'], load: async () => (await import('./completion.ts')).addCompletion },
  { names: ['generate'], load: async () => (await import('./installation/config.ts')).addGenerate },
];

/** `run` suggests commands for what is none, and `completion` lists them. */
const OF_ALL: ReadonlySet<unknown> = new Set(['run', 'completion']);

/** The files to load for a command line whose first word is this. */
function filesFor(word: string | undefined): readonly CommandFile[] {
  const named = COMMAND_FILES.filter(({ names }) => word !== undefined && names.includes(word));
  return named.length === 0 || OF_ALL.has(word) ? COMMAND_FILES : named;
}

/** The first words of command lines that show or run operations of the workspace API. */
const OF_API: ReadonlySet<unknown> = new Set(['api', 'completion', 'help']);

/** Loads the operations only where they are needed, because the contract takes longer than all other commands. */
async function loadApi(word: string | undefined): Promise<AddCommands> {
  const { addOperations } = OF_API.has(word) ? await import('./workspace/api.ts') : {};
  return (program, setting) => {
    const group = program.command('api').description('send any operation of the workspace API').exitOverride();
    addOperations?.(group, setting);
  };
}
