import { type Command, InvalidArgumentError, Option } from 'commander';
import { asSyncError, SyncError } from '../model/errors.ts';
import { DAEMON_OPTIONS, type Flags, optionValue } from '../platform/config/daemon-options.ts';
import { type Clock, systemClock } from '../platform/lib/clock.ts';
import { asTyped } from '../platform/lib/own-program.ts';
import { durationText, parseDuration } from '../platform/lib/quantities.ts';
import { didYouMean, nearest } from '../platform/lib/text.ts';
import type { ApiRequest, ApiResponse, Send } from '../workspace-api/typed-client.ts';
import type { Session, SessionInput } from './session.ts';
import { safeOutput, span } from './words.ts';

/** Exit codes: something is wrong; something is left to do, or needs a person. */
export const FAILED = 1;
export const PARTIAL = 3;

export interface Setting extends Pick<SessionInput, 'version' | 'scrubber'> {
  /** Receives the exit code if it is not 0; undefined for a process that goes on until a signal ends it. */
  readonly exit: (code: number | undefined) => void;
}

/** Adds the commands of a file to the program. */
export type AddCommands = (program: Command, setting: Setting) => void;

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

/** A command that queries the daemon of a data folder. Of the daemon's options its help shows that folder, and `others`. */
export function daemonCommand(program: Command, usage: string, others: readonly OptionKey[] = []): Command {
  return withDaemonOptions(program.command(usage), [...OF_QUESTIONS, ...others]);
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

/** Collects the values of an option that may be repeated. */
export function collect(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value];
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
function printData(text: string): void {
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

/** The text for people, and the objects that `--json` prints instead, one per line. */
export interface Output {
  readonly text: string;
  readonly json: readonly unknown[];
  /** The text goes unchanged into a file. */
  readonly asIs?: boolean;
  readonly code?: number;
}

export function show({ text, json, asIs }: Output, flags: { readonly json?: boolean }): void {
  const shown = flags.json ? json.map((value) => JSON.stringify(value)).join('\n') : text;
  if (shown === '') {
    if (process.stderr.isTTY && !flags.json && !asIs) say('The list is empty.');
    return;
  }
  if (asIs && !flags.json) printAsIs(shown);
  else printData(shown);
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

/** Default wait of a command, milliseconds: enough for a full short window of the quota. */
const PATIENCE = 90_000;
/** Milliseconds of a wait for a slot that is not reported. */
const AT_ONCE = 300;

/** Milliseconds without output that people accept. */
export const SILENCE = 2_000;
/** The waiting is not under a test's clock, because it depends on other processes. */
const clock = systemClock();

/** Reports the subject and the longest time of a wait, if the work takes longer than a moment. */
export async function withWaitNotice<Result>(
  what: string,
  atMost: number,
  work: () => Promise<Result>,
  silence = SILENCE,
): Promise<Result> {
  const cancelReport = clock.after(silence, () => say(`worksync: waiting for ${what}, for at most ${span(atMost)}`));
  try {
    return await work();
  } finally {
    cancelReport();
  }
}

/** The flags about the wait of a command. */
export interface PatienceFlags {
  readonly timeout?: number;
}

export function withPatience(command: Command, standard = PATIENCE): Command {
  const description = `how long to wait for the quota at most (default: ${durationText(standard)})`;
  return command.option('--timeout <duration>', description, readDuration);
}

export function readDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('expected a duration such as 90s, 5m or 1h');
  return ms;
}

/** An option with a duration; `standard` is its default in milliseconds, which its help shows as people write it. */
export function durationOption(flags: string, description: string, standard: number, read = readDuration): Option {
  return new Option(flags, description).argParser(read).default(standard, durationText(standard));
}

/** Sends one request; waits for a slot of the quota for `patience` milliseconds at most. */
type SendWithin = (request: ApiRequest, patience: number) => Promise<ApiResponse>;

/**
 * Sends all requests of a command within one wait limit, which starts now. Reports at once what it waits for, and fails at once if
 * the wait would be longer. Throws the reason why nothing is sent: `rate_limited`, or the workspace's answer about the key.
 */
export function withWaitLimit(
  clock: Clock,
  { timeout: patience = PATIENCE }: PatienceFlags,
  send: SendWithin,
): Send<object> {
  const deadline = clock.monotonic() + patience;
  return async (request) => {
    let hasReported = false;
    for (;;) {
      const left = Math.max(0, Math.ceil(deadline - clock.monotonic()));
      try {
        return await send(request, hasReported ? left : Math.min(left, AT_ONCE));
      } catch (thrown) {
        const error = asSyncError(thrown);
        const { retryAfter: wait } = error;
        if (wait === undefined) throw error;
        // Waiting does not help against a refused key.
        if (hasReported || wait > left || error.code !== 'rate_limited') throw giveUp(error, patience, wait);
        say(`worksync: ${error.message}. Waiting for at most ${span(left)}.`);
        hasReported = true;
      }
    }
  };
}

function giveUp({ code, message, hint, cause }: SyncError, patience: number, wait: number): SyncError {
  const longer =
    code === 'rate_limited'
      ? `Repeat it in ${span(wait)}, or give it more time than ${span(patience)} with --timeout.`
      : hint;
  return new SyncError(code, message, { hint: longer, cause });
}
