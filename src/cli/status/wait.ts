import { type Command, InvalidArgumentError } from 'commander';
import type { Status } from '../../admin/status/status.ts';
import { CONDITIONS, type Condition, conditionOf, judgeCondition, type Waiting } from '../../admin/status/wait.ts';
import { asSyncError, CODES } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { type Clock, sleep, systemClock } from '../../platform/lib/clock.ts';
import { didYouMean } from '../../platform/lib/text.ts';
import { askStatus, placeOf } from '../owner.ts';
import { durationOption } from '../patience.ts';
import { OF_QUESTIONS, PARTIAL, print, type Setting, say, withDaemonOptions } from '../setting.ts';
import { printable, span } from '../words.ts';
import { gather } from '../workspace-command.ts';

const POLL_EVERY = 1_000;
/** Default of the longest wait, milliseconds: enough for a start with a full inbox. */
const LONGEST_WAIT = 600_000;

const HELP = `
Without a daemon the command waits for one to start. It says on standard error what it waits for, each time that changes.
Exit codes: 0 the condition is met; 3 what is left needs a person; 75 the time is over.

Example: worksync wait --for ready --timeout 1m
         worksync wait --for synced --workspace team --timeout 30m
         worksync wait --for workspace=team`;

interface WaitFlags extends Flags {
  readonly for?: readonly Condition[];
  readonly workspace?: readonly string[];
  readonly timeout: number;
  readonly json?: boolean;
}

type Outcome = 'met' | 'needs a person' | 'out of time';

/** `worksync wait`: waits for a state of the daemon. */
export function addWait(program: Command, { exit }: Setting): void {
  withDaemonOptions(program.command('wait'), OF_QUESTIONS)
    .description('wait until everything is synced, or until a condition is met')
    .option('--for <condition>', `${CONDITIONS.join(', ')}; may be repeated (default: synced)`, readCondition)
    .option('--workspace <name>', 'for synced: only this workspace; may be repeated', gather)
    .addOption(durationOption('--timeout <duration>', 'how long to wait at most', LONGEST_WAIT))
    .option('--json', 'print one JSON object: outcome, and what is left')
    .addHelpText('after', HELP)
    .action(async ({ for: conditions = [{ kind: 'synced' }], workspace, timeout, json, ...flags }: WaitFlags) => {
      const { data } = await placeOf(flags as Flags);
      const look = () => lookAt(data, conditions, workspace);
      const { outcome, waitsFor, needsPerson } = await waitFor(look, timeout, systemClock());
      if (json) print(JSON.stringify({ outcome, waitsFor, needsPerson }));
      else if (outcome !== 'met') for (const left of [...needsPerson, ...waitsFor]) say(printable(`left: ${left}`));
      exit(outcome === 'met' ? 0 : outcome === 'needs a person' ? PARTIAL : CODES.not_answering.exit);
    });
}

function readCondition(text: string, previous: readonly Condition[] = []): readonly Condition[] {
  const condition = conditionOf(text);
  if (condition) return [...previous, condition];
  throw new InvalidArgumentError(`expected one of ${CONDITIONS.join(', ')}${didYouMean(text, ['ready', 'synced'])}`);
}

async function lookAt(data: string, conditions: readonly Condition[], only?: readonly string[]): Promise<Waiting> {
  let status: Status;
  try {
    status = await askStatus(data);
  } catch (thrown) {
    const { code, message } = asSyncError(thrown);
    if (!STARTING.has(code)) throw thrown;
    return { waitsFor: [`the daemon: ${message}`], needsPerson: [] };
  }
  const judged = conditions.map((condition) => judgeCondition(condition, status, only));
  return {
    waitsFor: judged.flatMap(({ waitsFor }) => waitsFor),
    needsPerson: [...new Set(judged.flatMap(({ needsPerson }) => needsPerson))],
  };
}

const STARTING: ReadonlySet<string> = new Set(['not_running', 'not_answering', 'outcome_unknown', 'server_failed']);

async function waitFor(
  look: () => Promise<Waiting>,
  timeout: number,
  clock: Clock,
): Promise<Waiting & { outcome: Outcome }> {
  const deadline = clock.monotonic() + timeout;
  let reported = '';
  for (;;) {
    const found = await look();
    if (found.waitsFor.length === 0)
      return { ...found, outcome: found.needsPerson.length === 0 ? 'met' : 'needs a person' };
    const left = deadline - clock.monotonic();
    if (left <= 0) return { ...found, outcome: 'out of time' };
    const text = found.waitsFor.join('; ');
    if (text !== reported) say(printable(`worksync: waiting for ${text}, for at most ${span(left)}`));
    reported = text;
    await sleep(clock, Math.min(POLL_EVERY, left));
  }
}
