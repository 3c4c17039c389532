import { describeUnfinished } from '../../admin/labels.ts';
import type { BrokenWorkspace, ConnectionStatus, Status, WorkspaceStatus } from '../../admin/status/status.ts';
import { partOf } from '../../admin/status/verdict.ts';
import { describeBuild } from '../../model/build.ts';
import { BURST } from '../../model/change.ts';
import { asSyncError } from '../../model/errors.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import { commandEnvironment } from '../../platform/config/config-files.ts';
import { daemonOptions, environment, type Flags } from '../../platform/config/daemon-options.ts';
import type { Environment } from '../../platform/config/interpolate.ts';
import { asTyped, ofWorkspace } from '../../platform/lib/own-program.ts';
import { printable } from '../../platform/lib/text.ts';
import type { BackfillStatus } from '../../store/connections/backfills.ts';
import { type AddCommands, daemonCommand, print, say } from '../command.ts';
import { askStatus, pollEvery } from '../owner.ts';
import { lastSent, percent, plural, safeOutput, span, table } from '../words.ts';
import { describeRound } from '../workspace/sweep.ts';

const HELP = `
The exit code is 0 whatever the status is, and 75 if no daemon runs. In scripts use "worksync wait", or read --json.
Example: worksync status --json`;

export const addStatus: AddCommands = (program) => {
  daemonCommand(program, 'status')
    .description('show what the running daemon does, what waits, and what is wrong')
    .option('--watch', 'show it until a signal ends the command: redrawn on a terminal, else one line for each change')
    .option('--json', 'print the whole status as JSON')
    .addHelpText('after', HELP)
    .action(async ({ json = false, watch, ...flags }: Flags & { json?: boolean; watch?: boolean }) => {
      const { data } = daemonOptions(flags, settingsFor(flags));
      const read = () => askStatus(data);
      if (watch) return watchStatus(read, json);
      const status = await read();
      print(json ? JSON.stringify(status) : describeStatus(status));
    });
};

/** Ignores an invalid `.env`. The daemon reports it as a problem, and uses the values that it read before. */
function settingsFor(flags: Flags): Environment {
  try {
    return commandEnvironment(flags).settings;
  } catch (thrown) {
    const { message, hint } = asSyncError(thrown);
    say(`worksync: .env is left out: ${message}\n  remedy: ${hint}`);
    return environment();
  }
}

/** Describes the status for people: first whether everything works, then the faults. */
export function describeStatus(status: Status): string {
  const head = `worksync ${describeBuild(status.version, status)}, ${describeWhole(status)}, up for ${span(status.at - status.startedAt)}`;
  const isOnly = status.workspaces.length + status.broken.length + (status.elsewhere ?? []).length === 1;
  const whole = status.workspaces.map((workspace) =>
    ofWorkspace(describeWorkspace(workspace, status.at), isOnly ? undefined : workspace.name),
  );
  const elsewhere = (status.elsewhere ?? []).map(describeElsewhere);
  return [
    head,
    ...describeFault(status),
    ...describeShared(status),
    ...whole,
    ...status.broken.map(describeBroken),
    ...elsewhere,
  ].join('\n\n');
}

/** Why the changed configuration, or `.env`, has no effect. */
function describeFault({ configFault }: Status): string[] {
  if (configFault === null) return [];
  const { code, message, hint } = configFault;
  const lines = ['configuration', `  NOT RELOADED ${code}: the last good one stays in use. ${hint}`];
  return [[...lines, ...message.split('\n').map((line) => `    ${line}`)].map(printable).join('\n')];
}

/** The processes that share the workspaces, and what is wrong among them. */
function describeShared({ shared, at }: Status): string[] {
  if (!shared || shared.replicas.length === 0) return [];
  const rows = shared.replicas.map(({ host, address, version, startedAt, isOwn, sameConfig, holds }) => [
    `  ${printable(host)}`,
    ...[printable(address), printable(version), `up for ${span(at - startedAt)}`],
    holds === null ? 'DOES NOT ANSWER' : plural(holds.length, 'workspace'),
    [...(isOwn ? ['this one'] : []), ...(sameConfig ? [] : ['another configuration'])].join(', '),
  ]);
  const causes = shared.causes.map(({ code, message, hint }) => printable(`  ${code}: ${message}. ${hint}`));
  return [['replicas', table(rows), ...causes].join('\n')];
}

/** Describes a workspace that a replica did not report. That is no fault by itself. */
function describeElsewhere({ name, address }: NonNullable<Status['elsewhere']>[number]): string {
  const owner =
    address === null ? 'moves between replicas' : `another replica works on it (${address}), and told nothing`;
  return printable(`workspace ${name}: ${owner}`);
}

/** Names the reason if the process is not ready. */
function describeWhole({ ready, components, verdict }: Status): string {
  if (ready) return verdict === 'ok' ? 'ok' : verdict.toUpperCase();
  const reasons = Object.entries(components).filter(([, reason]) => reason !== 'ok');
  return `NOT READY (${reasons.map(([component, reason]) => `${component}: ${reason}`).join(', ') || 'starting'})`;
}

function describeBroken({ name, code, message, hint }: BrokenWorkspace): string {
  const reasons = message.split('\n').map((line) => `    ${line}`);
  return [`workspace ${name}`, `  state       BLOCKED ${code}: ${hint}`, ...reasons].map(printable).join('\n');
}

function describeWorkspace(workspace: WorkspaceStatus, now: number): string {
  const { quota, deliveries, changes, pullRequests, links, mirror } = workspace;
  const lines = [
    `workspace ${workspace.name}  ${workspace.address}`,
    `  state       ${describeState(workspace, now)}`,
    ...workspace.causes.map(({ code, message, hint }) => `    ${code}: ${message}. ${hint}`),
    `  quota       ${describeWindow(quota.long)}; ${describeWindow(quota.burst)}; share ${percent(quota.effectiveShare)}`,
    `  synced      ${partOf(pullRequests, 'pull request')}, ${partOf(links, 'link')}${describeBacklog(workspace.backlog, now)}`,
    `  mirror      pull requests: ${mirror.message}`,
    `  deliveries  ${deliveries.pending} pending, ${deliveries.quarantined} in quarantine`,
    ...describeSweep(workspace.sweep, now),
    `  changes     ${changes.byState.pending} pending, ${changes.byState.sending} in flight, ` +
      `${changes.byState.unknown} with outcome unknown, ${changes.byState.held} held`,
    ...describeBurst(changes),
    ...describeStuck(changes),
    ...describeQuarantine(deliveries),
    ...describeUnfinishedTasks(workspace),
    ...workspace.gone.map((row) => `    gone at the provider: ${row.name}, detected ${span(now - row.at)} ago`),
    ...workspace.backfills.flatMap((backfill) => describeBackfill(backfill, now)),
    ...describeConnections(workspace, now),
  ];
  return lines.map(printable).join('\n');
}

function describeUnfinishedTasks({ unfinishedTasks }: WorkspaceStatus): string[] {
  const sentence = describeUnfinished(unfinishedTasks);
  return sentence === undefined ? [] : [`  tasks       ${sentence} ("worksync links unfinished" lists them)`];
}

function describeBacklog({ requests, backfill, lastSentAt }: WorkspaceStatus['backlog'], now: number): string {
  if (requests === 0) return '';
  return `; ${plural(requests, 'request')} to send${backfill > 0 ? ` (${backfill} for backfills)` : ''}, ${lastSent(lastSentAt, now)}`;
}

/** Describes the creations that wait longer than others because of a burst. */
function describeBurst({ waitingBursts }: WorkspaceStatus['changes']): string[] {
  if (waitingBursts === 0) return [];
  const limit = `more than ${BURST.creations} of one connection within a minute`;
  return [`    burst: ${plural(waitingBursts, 'creation')} sent after all other changes: ${limit}`];
}

/** Changes named of those that wait for the same reason. */
const NAMED = 3;

/** Groups the changes by reason, one line each. */
function describeStuck({ stuck }: WorkspaceStatus['changes']): string[] {
  const groups = Map.groupBy(stuck, ({ state, failure }) => `${state}: ${failure?.message ?? ''}`);
  return [...groups].map(([reason, rows]) => {
    const names = rows.slice(0, NAMED).map(({ label }) => label);
    return `    ${reason}: ${names.join(', ')}${rows.length > NAMED ? ', …' : ''} ("worksync changes" lists them)`;
  });
}

function describeQuarantine({ quarantine }: WorkspaceStatus['deliveries']): string[] {
  const groups = Map.groupBy(quarantine, ({ connection, event, reason }) => `${connection} ${event}: ${reason ?? ''}`);
  return [...groups].map(([what, { length }]) => `    quarantine: ${what}${length > 1 ? ` (${length} times)` : ''}`);
}

function describeSweep({ running, last, turn }: WorkspaceStatus['sweep'], now: number): string[] {
  if (!running && !last) return [];
  const state = running ? `a sweep has been running for ${span(now - running.startedAt)}` : '';
  const looked =
    turn?.endedAt === null ? [`    links and documents that no list contains: ${turn.read} checked so far`] : [];
  if (!last) return [`  sweep       ${state}`, ...looked];
  const ago = `last ${span(now - (last.finishedAt ?? now))} ago`;
  return [`  sweep       ${[ago, describeRound(last), ...(state ? [state] : [])].join('; ')}`, ...looked];
}

function describeBackfill(
  { connection, items, total, units, unitsDone, finishedAt, failures }: BackfillStatus,
  now: number,
) {
  const state = finishedAt === null ? 'runs' : `read ${span(now - finishedAt)} ago`;
  const read = `${items}${total === null ? '' : ` of ${total}`} items, ${unitsDone} of ${plural(units, 'unit')}`;
  return [
    `  backfill    ${connection} ${state}: ${read}`,
    ...failures.map(({ unit, error }) => `    ${unit === null ? '' : `${unit}: `}${error}`),
  ];
}

function describeConnections({ connections }: WorkspaceStatus, now: number): string[] {
  if (connections.length === 0) return [];
  const rows = connections.map(({ name, connector, webhookPath, lastWebhookAt, lastPollAt, schedule }) => [
    `    ${name}`,
    connector,
    describeWebhooks(webhookPath, lastWebhookAt, now),
    describePoll(schedule, lastPollAt, now),
  ]);
  const refused = connections.flatMap(({ name, lastRefused }) =>
    lastRefused === null
      ? []
      : [
          `    ${name}: last refused webhook ${span(now - lastRefused.at)} ago: ${lastRefused.status} ${lastRefused.code}`,
        ],
  );
  const failures = connections.flatMap(({ name, failure }) =>
    failure ? [`    ${name}: ${failure.message}${failure.hint ? ` (${failure.hint})` : ''}`] : [],
  );
  return ['  connections', ...table(rows).split('\n'), ...refused, ...failures, ...connections.flatMap(describeSilent)];
}

function describeSilent(connection: ConnectionStatus): string[] {
  const { name, names, hooks, missingUnits, unverifiedItems, switchedOff } = connection;
  return [
    ...(unverifiedItems > 0 ? [describeUnverified(unverifiedItems)] : []),
    ...describeRefused(connection),
    ...names.map((each) => describeName(name, each)),
    ...(hooks?.silent ?? []).map(
      ({ subject, state, message, hint }) => `webhook ${state} at ${subject}: ${message}${hint ? ` (${hint})` : ''}`,
    ),
    ...[hooks?.failure, hooks?.redeliveryFailure].flatMap((failure) => (failure ? [`webhooks: ${failure}`] : [])),
    ...switchedOff,
    ...missingUnits.map((unit) => `not found, or not visible to the credential: ${unit}; its records and links stay`),
  ].map((line) => `    ${name}: ${line}`);
}

function describeRefused(connection: ConnectionStatus): string[] {
  const { refusedFetches, fetchRefusal, refusedWrites, writeRefusal } = connection;
  const line = (count: number, noun: string, said: string, reason: string | null) =>
    count > 0 ? [`${plural(count, noun)} ${said}: ${reason ?? 'refused'}`] : [];
  return [
    ...line(refusedFetches, 'object', 'cannot be fetched', fetchRefusal),
    ...line(refusedWrites, 'write', 'refused by the provider', writeRefusal),
  ];
}

function describeUnverified(count: number): string {
  return `${plural(count, 'item')} not confirmed since a restore: worksync fetches them, or waits for their next delivery, before it writes anything about them`;
}

function describeName(
  connection: string,
  { name, id, called, elsewhere }: WorkspaceStatus['connections'][number]['names'][number],
): string {
  if (elsewhere === null) return `${name} is now called ${called}; worksync follows it by its id ${id}`;
  return (
    `scope_rebound: ${name} leads to ${elsewhere} now, and led to ${id} before; worksync takes nothing from ${elsewhere} ` +
    `(if you mean the new one, run "worksync connections rebind ${connection}")`
  );
}

function describeWebhooks(path: string | null, lastWebhookAt: number | null, now: number): string {
  if (path === null) return 'takes no webhooks';
  return lastWebhookAt === null ? 'no recent webhook' : `last webhook ${span(now - lastWebhookAt)} ago`;
}

function describePoll(schedule: string | null, lastPollAt: number | null, now: number): string {
  if (schedule === null) return 'not polled';
  return `polled ${schedule}, ${lastPollAt === null ? 'not finished yet' : `last ${span(now - lastPollAt)} ago`}`;
}

/** `ok` only where nothing is wrong. */
function describeState({ verdict, state }: WorkspaceStatus, now: number): string {
  if (state.kind === 'halted') return `BLOCKED ${state.code}`;
  const work = state.kind === 'waiting' ? `waiting for ${span(state.until - now)}: ${state.reason}` : 'running';
  return `${verdict === 'ok' ? 'ok' : verdict.toUpperCase()}, ${work}`;
}

function describeWindow({ window, used, cap, backgroundLimit }: WindowSnapshot): string {
  if (cap === null) return `no limit per ${span(window)}`;
  return `${used} of ${cap} used in ${span(window)} (we take up to ${backgroundLimit})`;
}

const POLL_EVERY = 2_000;
/** No workspace has this name. */
const CONFIGURATION = 'the configuration';
/** The cursor at the top, and nothing below it. */
const REDRAW = '\u001b[H\u001b[J';

/**
 * Shows the status until a signal ends the process: drawn anew on a terminal, elsewhere a line for each workspace whenever
 * its summary changes. A daemon that is away for a while is no reason to end.
 */
async function watchStatus(read: () => Promise<Status>, json: boolean): Promise<never> {
  const asJson = (status: Status) => print(JSON.stringify(status));
  const redraw = (status: Status) =>
    void process.stdout.write(`${REDRAW}${safeOutput(asTyped(describeStatus(status)))}\n`);
  const show = json ? asJson : process.stdout.isTTY ? redraw : append();
  return pollEvery(POLL_EVERY, async () => show(await read()));
}

function append() {
  const shown = new Map<string, string>();
  return ({ at, workspaces, broken, configFault }: Status): void => {
    const fault = configFault && `not reloaded, ${configFault.code}: ${configFault.message}`;
    const lines = [
      ...(fault || shown.has(CONFIGURATION) ? [[CONFIGURATION, fault ?? 'ok'] as const] : []),
      ...workspaces.map(({ name, verdict, summary }) => [name, `${verdict}, ${summary}`] as const),
      ...broken.map(({ name, code, message }) => [name, `blocked, ${code}: ${message}`] as const),
    ];
    for (const [name, text] of lines) {
      if (shown.get(name) !== text) print(printable(`${new Date(at).toISOString()}  ${name}  ${text}`));
      shown.set(name, text);
    }
  };
}
