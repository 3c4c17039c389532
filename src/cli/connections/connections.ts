import type { BackfillProgress, ConnectionHooks } from '../../admin/connections/connections.ts';
import type { Partition } from '../../daemon/partition.ts';
import { SyncError } from '../../model/errors.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, FAILED, OF_HOOKS, type Output, PARTIAL, print, say, sinceOf } from '../command.ts';
import { plural, safeOutput, span } from '../words.ts';
import { type CommandContext, operationCommand, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

const REBIND_HELP = `
worksync binds each name in the configuration to the vendor's id of the repository, project or team that the name first led
to. If the name later leads to another one, worksync takes nothing from the new one until you confirm it with this command.
Then worksync reads the new one from the start; what came from the old one stays as it is.`;

/** Adds the commands about one connection as a whole. */
export const addConnections: AddCommands = (program, setting) => {
  const group = program.command('connections').description('connections to vendors: rebind').exitOverride();
  operationCommand(group, setting, {
    usage: 'rebind <connection>',
    description: 'bind the names of a connection to what they lead to now (see scope_rebound in status)',
    example: 'connections rebind github',
    help: REBIND_HELP,
    costsQuota: true,
    operation: 'rebind',
    body: (_flags: WorkspaceFlags, connection: string) => ({ connection }),
    text(bound, _now, _flags, connection) {
      const lines = bound.map(({ name, id, called }) => `${name} now means ${called} (id ${id})`);
      return printable(lines.join('\n') || `${connection}: every name still leads to what it led to before`);
    },
    json: (bound, _flags, connection) => [{ connection, bound }],
  });
};

const HOOKS_HELP = `
The address is <public address>/webhooks/<workspace>/<connection>. Give the public address with --public-url or
WORKSYNC_PUBLIC_URL, to this command or to the daemon.`;

/** `worksync hooks`: checks and registers the webhooks at the vendors. */
export const addHooks: AddCommands = (program, setting) => {
  const group = program.command('hooks').description("the vendors' webhooks: status, install").exitOverride();
  requestCommand(group, setting, {
    usage: 'status [connection]',
    description: 'show which webhooks are on, switched off or absent; uses no quota',
    example: 'hooks status github --public-url https://sync.example.com',
    help: HOOKS_HELP,
    shown: OF_HOOKS,
    async run({ request, session }, _flags: WorkspaceFlags, connection: string | undefined) {
      const found = await request('hooks', { connection, publicUrl: session.options.publicUrl });
      const text = found.map(describeHooks).join('\n') || 'no connection takes webhooks';
      return { text, json: found, code: found.every(isSound) ? 0 : FAILED };
    },
  });
  requestCommand(group, setting, {
    usage: 'install <connection>',
    description: "register or repair the connection's webhooks; idempotent",
    example: 'hooks install github --public-url https://sync.example.com',
    help: `${HOOKS_HELP} The first of webhookSecrets signs the deliveries.`,
    shown: OF_HOOKS,
    async run({ request, session }, _flags: WorkspaceFlags, connection: string) {
      const installed = await request('hooks-install', { connection, publicUrl: session.options.publicUrl });
      const isRefused = installed.hooks.some(({ outcome }) => outcome === 'unknown');
      return { text: describeHooks(installed), json: [installed], code: isSound(installed) && !isRefused ? 0 : FAILED };
    },
  });
};

function isSound({ hooks, failure }: ConnectionHooks): boolean {
  return failure === null && hooks.every(({ state }) => state === 'active' || state === 'unknown');
}

function describeHooks({ connection, url, hooks, failure }: ConnectionHooks): string {
  const lines = hooks.flatMap(({ subject, state, outcome, message, hint }) => [
    `  ${outcome ?? state}  ${subject}: ${message}`,
    ...(hint === undefined ? [] : [`    remedy: ${hint}`]),
  ]);
  const failed = failure ? [`  ${failure.code}: ${failure.message}`, `    remedy: ${failure.hint}`] : [];
  return [`${connection}${url === null ? '' : ` at ${url}`}`, ...lines, ...failed].map(printable).join('\n');
}

/** Milliseconds between two polls of the progress, and between two reports if no terminal shows it. */
const POLL_EVERY = 1_000;
const REPORT_EVERY = 10_000;

/** Flags that steer an existing backfill instead of requesting one. */
type Steering = keyof typeof STEER;

type BackfillFlags = WorkspaceFlags & { readonly since?: string } & Partial<Readonly<Record<Steering, boolean>>>;

const BACKFILL_HELP = `
The backfill reads the newest items first, and takes only quota that nothing else needs. The running daemon does the work: this
command shows its progress. You may end the command at any time; call it again to see the same backfill. Without a daemon the
command does the work itself. After an interruption, the next daemon or the next call goes on. Mirroring and links work as configured.`;

/** `worksync backfill`: requests what a connection had before it was followed, and shows the progress. */
export const addBackfill: AddCommands = (program, setting) => {
  requestCommand(program, setting, {
    usage: 'backfill <connection>',
    description: 'read the older items of a connection, newest first, in the lowest lane of the quota',
    example: 'backfill github --since 2026-01-01',
    help: BACKFILL_HELP,
    async run(context, flags: BackfillFlags, connection: string) {
      const steering = steeringOf(flags);
      if (steering) return steer(context, steering, connection);
      const since = flags.since === undefined ? null : sinceOf(flags.since, context.session.parts.clock.now());
      const { outcome, progress } = await context.request('backfill', { connection, since });
      if (outcome === 'running') say(alreadyRuns(progress));
      return follow(context, flags, connection);
    },
  })
    .option(
      '--since <time>',
      'only items that changed since then: 2026-01-01, 2026-01-01T12:00:00Z, or 30d (default: all)',
    )
    .option('--stop', 'stop the running backfill; the items that it read stay')
    .option('--pause', 'pause the running backfill: no page is read until it is resumed, what was read is sent')
    .option('--resume', 'resume a paused backfill');
};

function steeringOf(flags: BackfillFlags): Steering | undefined {
  const [steering, other] = (Object.keys(STEER) as Steering[]).filter((each) => flags[each]);
  if (other !== undefined) throw new SyncError('usage', `--${steering} and --${other} exclude each other`);
  return steering;
}

/** The operation of each flag, and its text if there was a backfill, or none. */
const STEER = {
  stop: ['backfill-stop', 'is stopped; the items that it read stay', 'no backfill is running'],
  pause: ['backfill-pause', 'is paused; --resume resumes it', 'no backfill is running'],
  resume: ['backfill-resume', 'goes on', 'there is no backfill to resume'],
} as const;

async function steer({ request }: CommandContext, flag: Steering, connection: string): Promise<Output> {
  const [operation, done, none] = STEER[flag];
  const answer = await request(operation, { connection });
  const text = Object.values(answer).includes(true) ? `the backfill of ${connection} ${done}` : none;
  return { text, json: [{ connection, ...answer }] };
}

function alreadyRuns({ connection, since }: BackfillProgress): string {
  return `a backfill of ${connection} ${sinceWords(since)} is already running; --stop stops it`;
}

function sinceWords(since: string | null): string {
  return since === null ? 'of everything' : `since ${since.slice(0, 16).replace('T', ' ')}`;
}

/** Shows the progress until all is done. Without a daemon the stages run in this process meanwhile. */
async function follow(
  { request, partition, session }: CommandContext,
  { json }: BackfillFlags,
  connection: string,
): Promise<Output> {
  const { clock } = session.parts;
  partition?.startUnscheduled();
  const { report, clear } = json ? reportJson() : process.stderr.isTTY ? drawBar() : reportLines(clock);
  for (;;) {
    const { progress } = await request('backfill-progress', { connection });
    if (progress === null) throw new SyncError('conflict', `the backfill of ${connection} was stopped`);
    const halted = pauseOf(progress) ?? (await haltOf(partition));
    if (progress.state === 'done' || halted) {
      clear?.();
      if (halted) say(printable(halted));
      const code = halted || progress.failures.length > 0 ? PARTIAL : 0;
      return { text: describeEnd(progress), json: [{ type: 'result', ...progress }], code };
    }
    report(progress);
    await sleep(clock, POLL_EVERY);
  }
}

/** Returns the reason why nothing more happens by itself: a person paused it, and everything that it has read is sent. */
function pauseOf({ state, connection, pending, changes }: BackfillProgress): string | undefined {
  if (state !== 'paused' || pending + changes > 0) return undefined;
  return `the backfill of ${connection} is paused; --resume resumes it`;
}

/** Returns the reason why nothing reaches the workspace, if this process sends. */
async function haltOf(partition: Partition | undefined): Promise<string | undefined> {
  const state = (await partition?.status())?.state;
  return state?.kind === 'halted' ? `nothing can be sent: ${state.code}: ${state.message}. ${state.hint}` : undefined;
}

interface Reporter {
  report(progress: BackfillProgress): void;
  clear?(): void;
}

function reportJson(): Reporter {
  let last = '';
  return {
    report(progress) {
      const { at: _, forecast: __, ...lasting } = progress;
      const reported = JSON.stringify(lasting);
      if (reported !== last) print(JSON.stringify({ type: 'progress', ...progress }));
      last = reported;
    },
  };
}

function reportLines(clock: Clock): Reporter {
  let reportedAt = Number.NEGATIVE_INFINITY;
  let reported = '';
  return {
    report(progress) {
      const text = describeProgress(progress);
      if (text === reported || clock.monotonic() - reportedAt < REPORT_EVERY) return;
      reportedAt = clock.monotonic();
      reported = text;
      say(text);
    },
  };
}

const WIDTH = 24;

function drawBar(): Reporter {
  const clear = '\r\u001b[K';
  return {
    report: (progress) =>
      void process.stderr.write(`${clear}${safeOutput(`${bar(progress)} ${describeProgress(progress)}`)}`),
    clear: () => void process.stderr.write(clear),
  };
}

/** Draws the part of the known items that were read and sent. */
function bar({ items, total, changes }: BackfillProgress): string {
  const part = total === null || total === 0 ? 0 : Math.max(0, Math.min(1, (items - changes) / total));
  const full = Math.round(part * WIDTH);
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}]`;
}

function describeProgress(progress: BackfillProgress): string {
  const { connection, state, listed, units, unitsDone, items, total, changes, forecast, failures, at } = progress;
  const paused = state === 'paused' ? ['paused'] : [];
  if (!listed)
    return [
      [`${connection}: listing what the vendor has`, ...paused].join(', '),
      ...failures.map(({ error }) => printable(error)),
    ].join('; ');
  const of = total === null ? '' : ` of ${total}`;
  const eta =
    state !== 'paused' && forecast && forecast.requests > 0 ? [`done in about ${span(forecast.drainedAt - at)}`] : [];
  const slow = forecast && forecast.requests > 0 && forecast.objection ? [printable(forecast.objection)] : [];
  const [first] = failures;
  const failing = first
    ? [`${plural(failures.length, 'unit')} failing, will be retried: ${printable(first.error)}`]
    : [];
  const read = `${items}${of} items read, ${unitsDone} of ${plural(units, 'unit')} done`;
  return [
    `${connection}: ${read}`,
    ...paused,
    `${plural(changes, 'change')} to send`,
    ...eta,
    ...slow,
    ...failing,
  ].join(', ');
}

function describeEnd({ connection, since, items, units, pages, changes, startedAt, at, failures }: BackfillProgress) {
  const read = `${plural(items, 'item')} on ${plural(pages, 'page')} of ${plural(units, 'unit')}`;
  const left = changes > 0 ? `, ${plural(changes, 'change')} left to send` : '';
  return [
    `${connection} ${sinceWords(since)}: ${read} in ${span(at - startedAt)}${left}`,
    ...failures.map(({ unit, error }) => printable(`  failed: ${unit === null ? '' : `${unit}: `}${error}`)),
  ].join('\n');
}
