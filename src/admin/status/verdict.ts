import { CODES } from '../../model/errors.ts';
import { bytes, counted } from '../../platform/lib/quantities.ts';
import type { TimeRange } from '../../store/status/status-shape.ts';
import { type Cause, type Failure, type WorkspaceStatus, worst } from './status.ts';

type Judgement = Pick<WorkspaceStatus, 'verdict' | 'summary' | 'causes'>;

export type UnjudgedStatus = Omit<WorkspaceStatus, keyof Judgement | 'state' | 'mirror'>;

/** The facts that only the verdict shows. */
export interface HiddenFacts {
  readonly halt: Failure | null;
  /** The fault of the present configuration, if an earlier one stays in use. */
  readonly rejected: string | null;
  /** Bytes of the database's log that another program keeps from being truncated; null: none does. */
  readonly keptLog: number | null;
}

type Facts = UnjudgedStatus & HiddenFacts;

/** The one function that judges the state of a workspace: pages, commands, metrics and the log show its result. */
export function judge(facts: Facts, now: number): Judgement {
  const causes = [...blocking(facts), ...WARNINGS.flatMap((warning) => warn(warning, facts))];
  const verdict = worst(causes.map((cause) => cause.verdict));
  const messages = causes.map(({ code, message }) => `${code}: ${message}`);
  return { verdict, summary: [synced(facts), ...messages, ...done(facts, now)].join('; '), causes };
}

function synced({ pullRequests, links }: Facts): string {
  return `${partOf(pullRequests, 'pull request')} synced, ${partOf(links, 'link')}`;
}

/** Milliseconds until the end of the work that are not worth a mention. */
const WORTH_SAYING = 60_000;

/** Names the time at which the pending work is done; nothing while the workspace is halted. */
function done({ backlog, halt }: Facts, now: number): string[] {
  const { doneAt, held } = backlog;
  if (doneAt === null || halt || doneAt - now < WORTH_SAYING) return [];
  const minutes = Math.round((doneAt - now) / 60_000);
  const time = minutes < 120 ? counted(minutes, 'minute') : counted(Math.round(minutes / 60), 'hour');
  return [`the rest done in about ${time}${held > 0 ? ', without what needs approval' : ''}`];
}

/** `24 of 260 pull requests`, or `260 pull requests` if none waits. */
export function partOf({ total, waiting }: WorkspaceStatus['links'], noun: string): string {
  const done = Math.max(0, total - waiting);
  return done === total ? counted(total, noun) : `${done} of ${counted(total, noun)}`;
}

function blocking({ halt }: Facts): Cause[] {
  if (!halt) return [];
  const { code, message, hint } = halt;
  const stops = 'Nothing is sent to the workspace until this is solved. worksync goes on storing what it can.';
  return [
    { code, message, hint, stops, verdict: 'blocked', count: 1, since: null, seenAt: null, command: 'worksync check' },
  ];
}

interface Warning {
  readonly code: string;
  /** The alert whose runbook in `config/operating.md` says more. */
  readonly runbook: string;
  /** The work that stops, and the work that continues. */
  readonly stops: string;
  readonly hint: string;
  readonly command: string | null;
  /** The time when it began and was last seen, if the facts contain it. */
  readonly seen?: (facts: Facts) => Partial<TimeRange> | null;
  /** Returns the names of the things that it concerns, or their number. */
  find(facts: Facts): readonly string[] | number;
  describe(count: number): string;
}

/** All causes that do not block, most urgent first. */
export const WARNINGS: readonly Warning[] = [
  {
    code: 'config_rejected',
    runbook: 'WorksyncConfigRejected',
    stops: 'The changes in the file have no effect. The last good configuration goes on.',
    command: 'worksync check --offline',
    hint: 'Correct the file: the daemon reloads it by itself. Until then the last good configuration stays in use.',
    find: ({ rejected }) => (rejected === null ? [] : [rejected]),
    describe: () => 'the changed configuration was rejected',
  },
  {
    code: 'database_log_kept',
    runbook: 'WorksyncDatabaseLogKept',
    stops:
      'Nothing for now. The log grows with each change until that program ends; when it has filled the disk, webhooks are refused.',
    command: 'worksync check',
    hint: 'End the program that reads the database: "fuser worksync.db" in the data folder names it. For a copy use "worksync backup".',
    find: ({ keptLog }) => (keptLog === null ? [] : [bytes(keptLog)]),
    describe: () => 'another program reads the database on and on, and its log cannot be emptied',
  },
  {
    code: 'connections_failing',
    runbook: 'WorksyncConnectionFailing',
    stops:
      'Polls and fetches do not work for these connections, or for the repositories and projects that "worksync status" names. Webhooks are stored, and everything else goes on.',
    command: 'worksync check',
    seen: ({ connections }) => ({ seenAt: Math.max(...connections.flatMap(({ failure }) => failure?.at ?? [])) }),
    hint: 'Run "worksync check": it asks each provider and names the remedy.',
    find: ({ connections }) =>
      connections.flatMap(({ name, failure }) => (failure ? [`${name}: ${failure.code}`] : [])),
    describe: (count) => `${counted(count, 'connection')} failing`,
  },
  {
    code: 'changes_held',
    runbook: 'WorksyncNeedsApproval',
    stops: 'These changes are not written to the workspace. All other changes go on.',
    command: 'worksync held',
    seen: ({ changes }) => changes.heldSeen,
    hint: 'List them with "worksync held", which names the command that releases each kind.',
    find: ({ changes }) => changes.byState.held,
    describe: (count) => (count === 1 ? '1 change needs approval' : `${count} changes need approval`),
  },
  {
    code: 'record_not_supported',
    runbook: 'WorksyncServerLimited',
    stops:
      'Pull requests are not recorded in the workspace. They are linked to their tasks, and everything else goes on.',
    command: 'worksync check',
    hint: 'Set mirror to auto or off. If the server records pull requests at another address, name it as workspace.api.routes.listPullRequestRecords and recordPullRequest.',
    find: ({ connections, server }) =>
      server.records.state === 'closed'
        ? connections.filter(({ mirror }) => mirror === 'record').map(({ name }) => name)
        : [],
    describe: (count) =>
      `${counted(count, 'connection')} should record pull requests, and the workspace has no route for that`,
  },
  {
    code: 'workspace_routes_off',
    runbook: 'WorksyncServerLimited',
    stops: 'What depends on these reads waits, or goes on without them. worksync asks again within a day.',
    command: 'worksync check',
    hint: 'Ask the operator of the workspace, or give the key the right to read them. If only the path differs, set it in workspace.api.routes. Links need workspace.api.links: idempotent if they cannot be read.',
    find: ({ server }) => server.routesOff.map(({ route, status }) => `${route}: ${status}`),
    describe: (count) => `the workspace refuses ${counted(count, 'kind')} of reads`,
  },
  {
    code: 'task_updates_off',
    runbook: 'WorksyncServerLimited',
    stops:
      'Statuses of tasks are not changed. Everything else goes on. worksync tries a missing route again within a day.',
    command: 'worksync check',
    hint: 'Name the routes that read and update one task in workspace.api.routes.getTask and updateTask, and the form of updates in workspace.api.taskUpdate.',
    find: ({ server }) => (server.updatesOff === null ? [] : [server.updatesOff]),
    describe: () => 'the workspace has no route for task updates: statuses are not changed',
  },
  {
    code: 'statuses_contested',
    runbook: 'WorksyncNeedsApproval',
    stops: 'Changes of statuses are held for a day. Everything else goes on.',
    command: 'worksync held',
    hint: 'Switch one of the two automations off, then run "worksync held release --refused".',
    find: ({ server }) => (server.areStatusesContested ? 1 : 0),
    describe: () => 'another automation changes statuses back',
  },
  {
    code: 'task_fields_refused',
    runbook: 'WorksyncServerLimited',
    stops: 'New tasks are created without these fields. worksync tries them again once a day.',
    command: 'worksync check',
    hint: 'Name the fields that the workspace accepts in triage.send.',
    find: ({ server }) => server.fieldsOff,
    describe: (count) => `the workspace refuses ${counted(count, 'field')} of new tasks`,
  },
  {
    code: 'deliveries_quarantined',
    runbook: 'WorksyncQuarantine',
    stops: 'What these deliveries say is not applied. All other deliveries go on.',
    command: 'worksync quarantine list',
    seen: ({ deliveries }) => deliveries.quarantinedSeen,
    hint: 'List the reasons with "worksync quarantine list". worksync tries a delivery again when its sender repeats it. "worksync quarantine dismiss <number>" ignores one that you do not need, and "worksync quarantine dismiss --all" all of them.',
    find: ({ deliveries }) => deliveries.quarantined,
    describe: (count) => (count === 1 ? '1 delivery quarantined' : `${count} deliveries quarantined`),
  },
  {
    code: 'names_rebound',
    runbook: 'WorksyncScopeChanged',
    stops: 'worksync takes nothing from the new target. What it knows of the earlier one stays.',
    command: 'worksync connections rebind',
    hint: CODES.scope_rebound.hint,
    find: ({ connections }) =>
      connections.filter(({ names }) => names.some(({ elsewhere }) => elsewhere !== null)).map(({ name }) => name),
    describe: (count) => `names of ${counted(count, 'connection')} lead to another target than before`,
  },
  {
    code: 'names_unmatched',
    runbook: 'WorksyncScopeChanged',
    stops: 'Every webhook of these connections is ignored. Everything else goes on.',
    command: 'worksync deliveries list',
    hint: 'If it was renamed, write its present name, or its id, in the scope of the connection. A connection that polls follows renames by itself.',
    find: ({ connections }) =>
      connections.flatMap(({ name, unmatchedUnit }) =>
        unmatchedUnit ? [`${name}: ${unmatchedUnit.name || 'no name'}, id ${unmatchedUnit.id}`] : [],
      ),
    describe: (count) => `all webhooks of ${counted(count, 'connection')} are outside the scope`,
  },
  {
    code: 'webhooks_silent',
    runbook: 'WorksyncWebhooksSilent',
    stops: 'Changes there arrive with the next poll or sweep, and not at once.',
    command: 'worksync hooks status',
    hint: 'Run "worksync hooks status" to see which, and "worksync hooks install" to repair them.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.silent.length).map(({ name }) => name),
    describe: (count) => `webhooks of ${counted(count, 'connection')} send nothing`,
  },
  {
    code: 'webhooks_unknown',
    runbook: 'WorksyncWebhooksSilent',
    stops: 'Nobody knows whether these webhooks work. Polls go on.',
    command: 'worksync hooks status',
    hint: 'Run "worksync hooks status" to see why the vendor does not show them.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.failure).map(({ name }) => name),
    describe: (count) => `webhooks of ${counted(count, 'connection')} could not be checked`,
  },
  {
    code: 'redeliveries_failing',
    runbook: 'WorksyncWebhooksSilent',
    stops: 'Deliveries that failed are not sent again. Polls bring what they said, later.',
    command: 'worksync hooks status',
    hint: 'Polls bring what the vendor could not deliver. "worksync status" shows the error.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.redeliveryFailure).map(({ name }) => name),
    describe: (count) => `redelivery could not be requested for ${counted(count, 'connection')}`,
  },
  {
    code: 'units_missing',
    runbook: 'WorksyncScopeChanged',
    stops: 'Nothing new arrives from them. Their records and links stay.',
    command: 'worksync check',
    hint: 'They are gone, renamed, or not visible to the credential: correct the scope, or the rights. Their records and links stay.',
    find: ({ connections }) => connections.flatMap(({ missingUnits }) => missingUnits),
    describe: (count) =>
      count === 1 ? '1 repository or project not found' : `${count} repositories or projects not found`,
  },
  {
    code: 'fetches_refused',
    runbook: 'WorksyncScopeChanged',
    stops: 'What changed in these objects is not recorded. All others go on.',
    command: 'worksync check',
    hint: 'The credential cannot see them, or there is none: set one with the rights that "worksync check" names. worksync asks again after a restart, and when the provider reports them anew.',
    find: ({ connections }) =>
      connections
        .filter(({ refusedFetches }) => refusedFetches > 0)
        .map(({ name, refusedFetches }) => `${name}: ${counted(refusedFetches, 'object')}`),
    describe: (count) => `objects of ${counted(count, 'connection')} cannot be fetched`,
  },
  {
    code: 'writes_refused',
    runbook: 'WorksyncScopeChanged',
    stops: 'These comments, closings and commit statuses are not written. All others go on.',
    command: 'worksync status',
    hint: 'See the reason in "worksync status". Give the credential the right to write, or switch writeBack off for the connection. worksync tries writes without a right again each hour, and all of them after a restart.',
    find: ({ connections }) =>
      connections
        .filter(({ refusedWrites }) => refusedWrites > 0)
        .map(({ name, refusedWrites }) => `${name}: ${counted(refusedWrites, 'write')}`),
    describe: (count) => `${counted(count, 'connection')} refuse writes`,
  },
  {
    code: 'backfill_failing',
    runbook: 'WorksyncBackfillFailing',
    stops: 'Some older items are not read. Live changes go on.',
    command: 'worksync backfill',
    hint: 'A backfill retries by itself what it has not given up. "worksync status" shows the errors.',
    find: ({ backfills }) =>
      backfills.filter(({ failures }) => failures.length > 0).map(({ connection }) => connection),
    describe: (count) => `${counted(count, 'backfill')} failing`,
  },
];

/** More names than these in one sentence are not readable. */
const NAMED = 3;

/** Joins the first names; an ellipsis stands for the others. */
export function joinNames(names: readonly string[], separator = ', '): string {
  return [...names.slice(0, NAMED), ...(names.length > NAMED ? ['…'] : [])].join(separator);
}

function warn({ code, stops, hint, command, find, seen, describe }: Warning, facts: Facts): Cause[] {
  const found = find(facts);
  const names = typeof found === 'number' ? [] : found;
  const count = typeof found === 'number' ? found : found.length;
  if (count === 0) return [];
  const shown = joinNames(names);
  const message = shown === '' ? describe(count) : `${describe(count)} (${shown})`;
  const { since = null, seenAt = null } = seen?.(facts) ?? {};
  return [{ code, verdict: 'degraded', count, since, seenAt, message, stops, hint, command }];
}
