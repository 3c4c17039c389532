import type { BackfillStatus } from '../store/backfills.ts';
import type { Status, WindowStatus, WorkspaceState, WorkspaceStatus } from '../web/status.ts';
import { plural, printable, span, table } from './words.ts';

/** `worksync status` for people: first whether it works, then what does not. */
export function describeStatus(status: Status): string {
  const head = `worksync ${status.version}, ${status.ready ? 'ready' : 'NOT READY'}, up for ${span(status.at - status.startedAt)}`;
  return [head, ...status.workspaces.map((workspace) => describeWorkspace(workspace, status.at))].join('\n\n');
}

function describeWorkspace(workspace: WorkspaceStatus, now: number): string {
  const { quota, deliveries, changes, pullRequests, links } = workspace;
  const lines = [
    `workspace ${workspace.name}  ${workspace.address}`,
    `  state       ${describeState(workspace.state, now)}`,
    `  quota       ${describeWindow(quota.long)}; ${describeWindow(quota.burst)}; share ${percent(quota.effectiveShare)}`,
    `  mirrored    ${plural(pullRequests.total, 'pull request')}, ${plural(links.total, 'link')}`,
    `  deliveries  ${deliveries.pending} pending, ${deliveries.quarantined} in quarantine`,
    `  changes     ${changes.byState.pending} pending, ${changes.byState.sending} on the wire, ` +
      `${changes.byState.unknown} of unknown fate, ${changes.byState.held} held`,
    ...changes.stuck.map(
      (row) => `    ${row.state}: ${row.entity}: ${row.failure?.message ?? ''} (${row.failure?.hint ?? ''})`,
    ),
    ...deliveries.quarantine.map((row) => `    quarantine: ${row.connection} ${row.event}: ${row.reason ?? ''}`),
    ...workspace.gone.map((row) => `    gone at the provider: ${row.key}, learnt ${span(now - row.at)} ago`),
    ...workspace.backfills.flatMap((backfill) => describeBackfill(backfill, now)),
    ...describeConnections(workspace, now),
  ];
  return lines.map(printable).join('\n');
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
  const rows = connections.map(({ name, connector, lastDeliveryAt, lastPollAt, schedule }) => [
    `    ${name}`,
    connector,
    lastDeliveryAt === null ? 'no delivery yet' : `last delivery ${span(now - lastDeliveryAt)} ago`,
    describePoll(schedule, lastPollAt, now),
  ]);
  const failures = connections.flatMap(({ name, failure }) =>
    failure ? [`    ${name}: ${failure.message}${failure.hint ? ` (${failure.hint})` : ''}`] : [],
  );
  const silent = connections.flatMap(({ name, names, hooks, missingUnits }) => [
    ...names.map((each) => `    ${name}: ${describeName(name, each)}`),
    ...(hooks?.silent ?? []).map(
      ({ subject, state, message, hint }) =>
        `    ${name}: webhook ${state} at ${subject}: ${message}${hint ? ` (${hint})` : ''}`,
    ),
    ...[hooks?.failure, hooks?.redeliveryFailure].flatMap((failure) =>
      failure ? [`    ${name}: webhooks: ${failure}`] : [],
    ),
    ...missingUnits.map(
      (unit) => `    ${name}: not there any more, or not shown to us: ${unit}; what is held of it stays`,
    ),
  ]);
  return ['  connections', ...table(rows).split('\n'), ...failures, ...silent];
}

function describeName(
  connection: string,
  { name, id, called, elsewhere }: WorkspaceStatus['connections'][number]['names'][number],
): string {
  if (elsewhere === null) return `${name} is called ${called} now; it is followed by its id ${id}`;
  return (
    `scope_rebound: ${name} leads to ${elsewhere}, and led to ${id} before; nothing is taken from ${elsewhere} ` +
    `(if it is the one you mean, run "worksync connections rebind ${connection}")`
  );
}

function describePoll(schedule: string | null, lastPollAt: number | null, now: number): string {
  if (schedule === null) return 'not polled';
  return `polled ${schedule}, ${lastPollAt === null ? 'not finished yet' : `last ${span(now - lastPollAt)} ago`}`;
}

function describeState(state: WorkspaceState, now: number): string {
  if (state.kind === 'running') return 'running';
  if (state.kind === 'waiting') return `waiting for ${span(state.until - now)}: ${state.reason}`;
  return `HALTED ${state.code}: ${state.message}. ${state.hint}`;
}

function describeWindow({ window, used, cap, backgroundLimit }: WindowStatus): string {
  if (cap === null) return `no limit per ${span(window)}`;
  return `${used} of ${cap} used in ${span(window)} (we take up to ${backgroundLimit})`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
