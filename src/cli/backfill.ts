import type { Command } from 'commander';
import { parseDuration } from '../config/duration.ts';
import type { Partition } from '../daemon/partition.ts';
import { SyncError } from '../errors/sync-error.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { BackfillProgress } from '../operator/backfill.ts';
import { type Asking, askingWorkspace } from './ask-workspace.ts';
import { type Exit, print, type Setting, say, sessionOf } from './setting.ts';
import { plural, printable, span } from './words.ts';
import { type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Exit code where something could not be read, or is left because nothing gets through. */
const PARTIAL = 3;
/** How often the progress is looked at, and how often it is told where no terminal shows it, milliseconds. */
const LOOK_EVERY = 1_000;
const TELL_EVERY = 10_000;

type BackfillFlags = WorkspaceFlags & { readonly since?: string; readonly stop?: boolean };

const HELP = `
The backfill reads the newest items first, and takes only quota that nothing else needs. The running daemon does the work: this
command shows its progress. You may end the command at any time; call it again to see the same backfill. Without a daemon the
command does the work itself. After an interruption, the next daemon or the next call goes on. Mirroring and links work as configured.`;

/** `worksync backfill`: asks for what a connection had before it was followed, and shows how far that is. */
export function addBackfill(program: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'backfill <connection>',
    description: 'read the older items of a connection, newest first, in the lowest lane of the quota',
    example: 'backfill github --since 2026-01-01',
  };
  workspaceCommand(program, described, { costsQuota: false })
    .option(
      '--since <time>',
      'only items that changed since then: 2026-01-01, 2026-01-01T12:00:00Z, or 30d (default: all)',
    )
    .option('--stop', 'stop the running backfill; the items that it read stay')
    .addHelpText('after', HELP)
    .action(async (connection: string, flags: BackfillFlags) => {
      const session = sessionOf(setting, flags, () => 'warn');
      const { clock } = session.parts;
      const since = flags.since === undefined ? null : sinceOf(flags.since, clock.now());
      await askingWorkspace(session, flags, async (asking) => {
        if (flags.stop) return exit(await stop(asking, connection, flags));
        const { outcome, progress } = await asking.ask('backfill', { connection, since });
        if (outcome === 'running') say(alreadyRuns(progress));
        exit(await follow({ ...asking, connection }, flags, clock));
      });
    });
}

/** RFC 3339. Throws `usage`. */
function sinceOf(text: string, now: number): string {
  const duration = parseDuration(text);
  const isDate = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const time = duration === undefined ? Date.parse(isDate ? text : '') : now - duration;
  if (Number.isNaN(time))
    throw new SyncError('usage', `--since ${text}: expected a date, a time with its zone, or 30d`);
  if (time > now) throw new SyncError('usage', `--since ${text}: this is in the future`);
  return new Date(time).toISOString();
}

async function stop({ ask }: Asking, connection: string, { json }: BackfillFlags): Promise<number> {
  const { stopped } = await ask('backfill-stop', { connection });
  const text = stopped
    ? `the backfill of ${connection} is stopped; the items that it read stay`
    : 'no backfill is running';
  print(json ? JSON.stringify({ connection, stopped }) : text);
  return 0;
}

function alreadyRuns({ connection, since }: BackfillProgress): string {
  return `a backfill of ${connection} ${sinceWords(since)} is already running; --stop stops it`;
}

function sinceWords(since: string | null): string {
  return since === null ? 'of everything' : `since ${since.slice(0, 16).replace('T', ' ')}`;
}

/** Shows the progress until all is done. Without a daemon the stages run in this process meanwhile. */
async function follow(
  { ask, partition, connection }: Asking & { readonly connection: string },
  { json }: BackfillFlags,
  clock: Clock,
): Promise<number> {
  partition?.startUnscheduled();
  const teller = json ? tellJson() : process.stderr.isTTY ? drawBar() : tellLines(clock);
  for (;;) {
    const { progress } = await ask('backfill-progress', { connection });
    if (progress === null) throw new SyncError('conflict', `the backfill of ${connection} was stopped`);
    const halted = await haltOf(partition);
    if (progress.state === 'done' || halted) {
      teller.end(progress);
      if (halted) say(printable(halted));
      return halted || progress.failures.length > 0 ? PARTIAL : 0;
    }
    teller.tell(progress);
    await sleep(clock, LOOK_EVERY);
  }
}

/** Why nothing gets through to the workspace, where this process is the one to send. */
async function haltOf(partition: Partition | undefined): Promise<string | undefined> {
  const state = (await partition?.status())?.state;
  return state?.kind === 'halted' ? `nothing can be sent: ${state.code}: ${state.message}. ${state.hint}` : undefined;
}

interface Teller {
  tell(progress: BackfillProgress): void;
  /** The last word, to standard output. */
  end(progress: BackfillProgress): void;
}

function tellJson(): Teller {
  let last = '';
  return {
    tell(progress) {
      const { at: _, forecast: __, ...lasting } = progress;
      const told = JSON.stringify(lasting);
      if (told !== last) print(JSON.stringify({ type: 'progress', ...progress }));
      last = told;
    },
    end: (progress) => print(JSON.stringify({ type: 'result', ...progress })),
  };
}

function tellLines(clock: Clock): Teller {
  let toldAt = Number.NEGATIVE_INFINITY;
  let told = '';
  return {
    tell(progress) {
      const text = describeProgress(progress);
      if (text === told || clock.monotonic() - toldAt < TELL_EVERY) return;
      toldAt = clock.monotonic();
      told = text;
      say(text);
    },
    end: (progress) => print(describeEnd(progress)),
  };
}

const WIDTH = 24;

function drawBar(): Teller {
  const clear = '\r\u001b[K';
  return {
    tell: (progress) => void process.stderr.write(`${clear}${bar(progress)} ${describeProgress(progress)}`),
    end(progress) {
      process.stderr.write(clear);
      print(describeEnd(progress));
    },
  };
}

/** How much is done of all that is known: read, and sent of what was read. */
function bar({ items, total, changes }: BackfillProgress): string {
  const part = total === null || total === 0 ? 0 : Math.max(0, Math.min(1, (items - changes) / total));
  const full = Math.round(part * WIDTH);
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}]`;
}

function describeProgress(progress: BackfillProgress): string {
  const { connection, listed, units, unitsDone, items, total, changes, forecast, failures, at } = progress;
  if (!listed)
    return [`${connection}: listing what the vendor has`, ...failures.map(({ error }) => printable(error))].join('; ');
  const of = total === null ? '' : ` of ${total}`;
  const eta = forecast && forecast.requests > 0 ? [`done in about ${span(forecast.drainedAt - at)}`] : [];
  const slow = forecast && forecast.requests > 0 && forecast.objection ? [printable(forecast.objection)] : [];
  const [first] = failures;
  const failing = first
    ? [`${plural(failures.length, 'unit')} failing, will be retried: ${printable(first.error)}`]
    : [];
  const read = `${items}${of} items read, ${unitsDone} of ${plural(units, 'unit')} done`;
  return [`${connection}: ${read}`, `${plural(changes, 'change')} to send`, ...eta, ...slow, ...failing].join(', ');
}

function describeEnd({ connection, since, items, units, pages, changes, startedAt, at, failures }: BackfillProgress) {
  const read = `${plural(items, 'item')} on ${plural(pages, 'page')} of ${plural(units, 'unit')}`;
  const left = changes > 0 ? `, ${plural(changes, 'change')} left to send` : '';
  return [
    `${connection} ${sinceWords(since)}: ${read} in ${span(at - startedAt)}${left}`,
    ...failures.map(({ unit, error }) => printable(`  failed: ${unit === null ? '' : `${unit}: `}${error}`)),
  ].join('\n');
}
