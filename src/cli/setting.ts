import { type Command, InvalidArgumentError, Option } from 'commander';
import { SyncError } from '../model/errors.ts';
import { DAEMON_OPTIONS, type Flags, optionValue } from '../platform/config/daemon-options.ts';
import { asTyped } from '../platform/lib/own-program.ts';
import { parseDuration } from '../platform/lib/quantities.ts';
import { didYouMean, nearest } from '../platform/lib/text.ts';
import type { Session, SessionInput } from './session.ts';
import { safeOutput } from './words.ts';

/** Exit codes: something is wrong; something is left to do, or needs a person. */
export const FAILED = 1;
export const PARTIAL = 3;

export interface Setting extends Pick<SessionInput, 'version' | 'scrubber'> {
  /** Receives the exit code if it is not 0; undefined for a process that goes on until a signal ends it. */
  readonly exit: (code: number | undefined) => void;
}

type OptionKey = (typeof DAEMON_OPTIONS)[number]['key'];

/** The options that matter to commands that open the workspaces, to those about webhooks, and to those that query the daemon. */
export const OF_WORK: readonly OptionKey[] = ['config', 'data', 'logLevel'];
export const OF_HOOKS: readonly OptionKey[] = [...OF_WORK, 'publicUrl'];
export const OF_QUESTIONS: readonly OptionKey[] = ['data'];

/**
 * The daemon's options, each with its environment variable. Every command accepts all of them, so that one set of flags fits all
 * commands; its help shows those that matter to it.
 */
export function withDaemonOptions(command: Command, shown?: readonly OptionKey[]): Command {
  for (const { key, flag, env, description, default: standard } of DAEMON_OPTIONS) {
    const value = standard === undefined ? '' : `default: ${standard}, `;
    const option = new Option(flag, `${description} (${value}env: ${env})`);
    command.addOption(option.hideHelp(shown !== undefined && !shown.includes(key)));
  }
  return command.exitOverride();
}

/** Loads the code that reads the configuration only here, because it is most of worksync. */
export async function sessionOf(
  setting: Setting,
  flags: Flags,
  logLevel: SessionInput['logLevel'],
  isDaemon = false,
): Promise<Session> {
  const { openSession } = await import('./session.ts');
  return openSession({ ...setting, flags, logLevel, isDaemon });
}

/** Parses an option of a command like the same option of the daemon. */
export function likeOption<Key extends OptionKey>(key: Key) {
  return (text: string) => {
    const read = optionValue(key, text);
    if ('value' in read) return read.value;
    throw new InvalidArgumentError(read.expected);
  };
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number');
  return Number(text);
}

export function oneOf<Word extends string>(words: readonly Word[]): (text: string) => Word {
  return (text) => {
    const wanted = text.toLowerCase();
    const found = words.find((word) => word === wanted);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`expected one of ${words.join(', ')}${didYouMean(wanted, words)}`);
  };
}

export function eachOf<Word extends string>(words: readonly Word[]) {
  const read = oneOf(words);
  return (text: string, previous: readonly Word[] = []): readonly Word[] => [...previous, read(text)];
}

/** The options of the default command of a group, as its own help shows them. */
function optionsOf(command: Command): string {
  const [, options = ''] = /^Options:\n([\s\S]*)/m.exec(command.helpInformation()) ?? [];
  return `\nOptions of ${command.name()}, which may be left out:\n${options.trimEnd()}`;
}

/**
 * Configures the default command of a group, which receives unknown commands and refuses them. If it takes a name, a word that is
 * nearly a command is refused too, unless the command is named. The help of the group shows its options.
 */
export function refusingUnknown(command: Command): Command {
  // The help of the program itself lists commands only.
  if (command.parent?.parent) command.parent.addHelpText('after', () => optionsOf(command));
  return command.allowExcessArguments().hook('preAction', ({ args, registeredArguments, parent }) => {
    const known = parent?.commands.map((each) => each.name()) ?? [];
    const [first] = args;
    const isNamed = parent?.args[0] === command.name();
    const isMisspelt = !isNamed && first !== undefined && nearest(first, known) !== undefined;
    const unknown = isMisspelt ? first : args[registeredArguments.length];
    if (unknown === undefined) return;
    command.error(`error: unknown command '${unknown}'${didYouMean(unknown, known)}`, { exitCode: 2 });
  });
}

/** Prints rows with foreign texts to standard output. */
export function printData(text: string): void {
  process.stdout.write(`${safeOutput(text)}\n`);
}

/** Prints a text of worksync to standard output, with the commands in it as they are typed here. */
export function print(text: string): void {
  process.stdout.write(`${safeOutput(asTyped(text))}\n`);
}

/** Prints unchanged data: a document that is piped into a file, a command of ours for a CI service. */
export function printAsIs(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function say(text: string): void {
  process.stderr.write(`${safeOutput(asTyped(text))}\n`);
}

/** Returns the time of `--since` in RFC 3339. Throws `usage`. */
export function sinceOf(text: string, now: number): string {
  const duration = parseDuration(text);
  const isDate = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const time = duration === undefined ? Date.parse(isDate ? text : '') : now - duration;
  if (Number.isNaN(time))
    throw new SyncError('usage', `--since ${text}: expected a date, a time with its zone, or 30d`);
  if (time > now) throw new SyncError('usage', `--since ${text}: this is in the future`);
  return new Date(time).toISOString();
}
