import { InvalidArgumentError } from 'commander';
import { unknownName } from '../../admin/named.ts';
import type { Status, WorkspaceStatus } from '../../admin/status/status.ts';
import { asSyncError, CODES } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { type Clock, sleep, systemClock } from '../../platform/lib/clock.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { didYouMean, printable } from '../../platform/lib/text.ts';
import { type AddCommands, collect, daemonCommand, durationOption, PARTIAL, print, say } from '../command.ts';
import { askStatus, placeOf } from '../owner.ts';
import { span } from '../words.ts';

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
export const addWait: AddCommands = (program, { exit }) => {
  daemonCommand(program, 'wait')
    .description('wait until everything is synced, or until a condition is met')
    .option('--for <condition>', `${CONDITIONS.join(', ')}; may be repeated (default: synced)`, readCondition)
    .option('--workspace <name>', 'for synced: only this workspace; may be repeated', collect)
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
};

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

/**
 * ready            the daemon stores webhooks
 * synced           everything known is processed and sent, and each poll has ended once
 * workspace=NAME   this workspace is open
 */
type Condition = { readonly kind: 'ready' | 'synced' } | { readonly kind: 'workspace'; readonly name: string };

const CONDITIONS = ['ready', 'synced', 'workspace=<name>'] as const;

export function conditionOf(text: string): Condition | undefined {
  if (text === 'ready' || text === 'synced') return { kind: text };
  const name = /^workspace=(.+)$/.exec(text)?.[1];
  return name === undefined ? undefined : { kind: 'workspace', name };
}

interface Waiting {
  /** The missing parts; none once the condition is met. */
  readonly waitsFor: readonly string[];
  /** Obstacles that do not go away without a person. */
  readonly needsPerson: readonly string[];
}

/**
 * Reports the progress of a condition.
 *
 * @param only the workspaces that `synced` is about: all by default
 * Throws `usage` if one of them is not configured.
 */
export function judgeCondition(condition: Condition, status: Status, only: readonly string[] = []): Waiting {
  if (condition.kind === 'ready') return readiness(status);
  const names = condition.kind === 'workspace' ? [condition.name] : only;
  for (const name of names) refuseUnknown(name, status);
  const isMeant = ({ name }: { readonly name: string }) => names.length === 0 || names.includes(name);
  const broken = status.broken.filter(isMeant).map(({ name, code, hint }) => `${name} is not open: ${code}. ${hint}`);
  const silent = (status.elsewhere ?? [])
    .filter(isMeant)
    .map(({ name }) => `the replica that works on ${name} to answer`);
  if (condition.kind === 'workspace') return { waitsFor: silent, needsPerson: broken };
  const judged = status.workspaces.filter(isMeant).map(syncOf);
  return {
    waitsFor: [...readiness(status).waitsFor, ...silent, ...judged.flatMap(({ waitsFor }) => waitsFor)],
    needsPerson: [...broken, ...judged.flatMap(({ needsPerson }) => needsPerson)],
  };
}

function readiness({ ready, components }: Status): Waiting {
  if (ready) return { waitsFor: [], needsPerson: [] };
  const reasons = Object.entries(components).filter(([, reason]) => reason !== 'ok');
  return {
    waitsFor: [`the daemon to be ready${reasons.map(([name, reason]) => `, ${name}: ${reason}`).join('')}`],
    needsPerson: [],
  };
}

function refuseUnknown(name: string, { workspaces, broken, elsewhere = [] }: Status): void {
  const known = [...workspaces, ...broken, ...elsewhere].map((each) => each.name);
  if (!known.includes(name)) throw unknownName('workspace', name, known);
}

function syncOf(workspace: WorkspaceStatus): Waiting {
  const { name, deliveries, changes, connections, state, backfills } = workspace;
  const { pending, sending, unknown, held } = changes.byState;
  const fetches = connections.reduce((sum, connection) => sum + connection.fetches, 0);
  const polls = connections.filter(({ schedule, lastPollAt }) => schedule !== null && lastPollAt === null);
  const parts = [
    ...some(deliveries.pending, 'delivery', 'deliveries'),
    ...some(fetches, 'fetch', 'fetches'),
    ...some(pending + sending + unknown, 'change'),
    ...polls.map((connection) => `the first poll of ${connection.name}`),
    ...backfills
      .filter(({ finishedAt }) => finishedAt === null)
      .map(({ connection }) => `the backfill of ${connection}`),
  ];
  // In a halted workspace waiting does not help.
  return {
    waitsFor: parts.length === 0 || state.kind === 'halted' ? [] : [`${name}: ${parts.join(', ')}`],
    needsPerson: [
      ...(state.kind === 'halted' ? [`${name}: ${state.code}: ${state.message}. ${state.hint}`] : []),
      ...(held > 0 ? [`${name}: ${counted(held, 'change')} held; list them with "worksync held"`] : []),
    ],
  };
}

function some(count: number, one: string, many = `${one}s`): string[] {
  return count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
}
