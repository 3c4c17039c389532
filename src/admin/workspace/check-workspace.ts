import type { Finding } from '../../connectors/connector.ts';
import { asSyncError } from '../../model/errors.ts';
import { sharedWords } from '../../model/task-status.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { afterListRefused, linksAreIdempotent, UNKNOWN_ROUTE } from '../../store/workspace/server-capabilities.ts';
import { RECORDS_PER_PAGE } from '../../sync/outbox/request.ts';
import { updateFormOf } from '../../sync/outbox/task-update-body.ts';
import { apiOverrides, ROUTES } from '../../workspace-api/contract.ts';
import { withHost } from '../connections/connections.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { describeMirror } from '../status/describe-open-workspace.ts';
import { checkRules, type TaskValues } from './check-rules.ts';

const LONGEST_WAIT = 10_000;

const ASKED = { lane: 'interactive', patience: LONGEST_WAIT } as const;

/** Reads what the daemon reads of a workspace, reports what it found, and repeats what the status reports. */
export async function checkWorkspace(workspace: OpenWorkspace): Promise<Finding[]> {
  const subject = `${workspace.name}: workspace`;
  const tasks = await listTasks(workspace, subject);
  if (!('ids' in tasks)) return tasks.findings;
  return [
    ...tasks.findings,
    ...(await checkLinks(workspace, subject, tasks.ids[0])),
    ...(await checkTaskUpdates(workspace, subject, tasks.ids[0])),
    ...(await checkRecords(workspace, subject)),
    ...checkWebhook(workspace, subject),
    ...checkStatuses(workspace, subject),
    ...(await checkRules(workspace, tasks, subject)),
    ...(await repeatStatus(workspace, subject)),
  ];
}

async function listTasks(
  { client, config }: OpenWorkspace,
  subject: string,
): Promise<
  { readonly findings: Finding[] } | ({ readonly findings: Finding[]; readonly ids: readonly string[] } & TaskValues)
> {
  try {
    const { body } = await client.listTasks({ query: { all: true } }, ASKED);
    const address = config.workspace.url ?? 'the embedded service';
    const keys = body.tasks.length > 0 && body.tasks.every(({ key, taskId }) => key === taskId) ? ', without keys' : '';
    const message = `${address} answers and accepts the key: ${counted(body.tasks.length, 'task')}${keys}`;
    return {
      findings: [{ level: 'ok', subject, message }],
      ids: body.tasks.map(({ taskId }) => taskId),
      statuses: new Set(body.tasks.map(({ status }) => status)),
      labels: new Set(body.tasks.flatMap((task) => task.labels)),
    };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'rate_limited') return { findings: [withHost(failed(subject, error), config.workspace.url)] };
    const message = `could not be checked: ${error.message}`;
    return { findings: [{ level: 'warning', subject, message, hint: error.hint, isPostponed: true }] };
  }
}

async function checkLinks(
  { client, store }: OpenWorkspace,
  subject: string,
  taskId: string | undefined,
): Promise<Finding[]> {
  if (taskId === undefined) return [];
  const areIdempotent = await linksAreIdempotent(store.query);
  try {
    await client.listWorkItems({ taskId }, ASKED);
    const how = areIdempotent
      ? 'an address is not added twice'
      : 'worksync reads the links of a task before it adds the first one';
    return [{ level: 'ok', subject, message: `links of tasks can be read; ${how}` }];
  } catch (thrown) {
    const error = asSyncError(thrown);
    const hint = areIdempotent
      ? 'Links are added without it; links that people remove are not detected.'
      : 'Give the key the right to read them, or set workspace.api.routes.listWorkItems. If the server never doubles an address, set workspace.api.links: idempotent. Until then no links are added.';
    const level = areIdempotent || error.code === 'rate_limited' ? 'warning' : 'error';
    return [{ level, subject, message: `links of tasks cannot be read: ${error.message}`, hint }];
  }
}

/** Reads a task by the route that precedes each update. Sends no update. */
async function checkTaskUpdates(
  { client, config }: OpenWorkspace,
  subject: string,
  taskId: string | undefined,
): Promise<Finding[]> {
  if (config.rules.workflow === undefined || taskId === undefined) return [];
  const { routes } = apiOverrides.parse(config.workspace.api ?? {});
  const { method, path } = { ...ROUTES.updateTask, ...routes?.updateTask };
  try {
    await client.getTask({ taskId }, ASKED);
    const how = updateFormOf(config) === 'whole' ? 'the whole task' : 'the changed fields';
    return [
      { level: 'ok', subject, message: `tasks can be read; an update sends ${how} by ${method} ${path}, not tried` },
    ];
  } catch (thrown) {
    const { code, message: reason } = asSyncError(thrown);
    if (code === 'rate_limited')
      return [{ level: 'warning', subject, message: `task updates could not be checked: ${reason}` }];
    const message = `the workspace has no route for task updates: statuses are not changed (${reason})`;
    const hint = 'Name the routes that read and update one task in workspace.api.routes.getTask and updateTask.';
    return [{ level: 'warning', subject, message, hint }];
  }
}

async function checkRecords({ client, config }: OpenWorkspace, subject: string): Promise<Finding[]> {
  const modes = config.connections.map(({ mirror }) => mirror);
  const said = (state: 'open' | 'closed' | 'unknown', error: string | null): string =>
    `pull requests: ${describeMirror(modes, { records: { state, error } }).message}`;
  if (modes.every((mode) => mode === 'off')) return [{ level: 'ok', subject, message: said('unknown', null) }];
  try {
    await client.listPullRequestRecords({ query: { limit: RECORDS_PER_PAGE } }, ASKED);
    return [{ level: 'ok', subject, message: said('open', null) }, ...opensPullRequests(config, subject)];
  } catch (thrown) {
    const { own, message, status } = asSyncError(thrown);
    const isClosed = afterListRefused(UNKNOWN_ROUTE, { own, status, error: message }, 0).state === 'closed';
    const isWanted = modes.includes('record');
    if (isClosed && !isWanted) return [{ level: 'ok', subject, message: said('closed', null) }];
    const text = isClosed ? `record_not_supported: ${said('closed', null)}` : said('unknown', message);
    const hint = isClosed
      ? 'Set mirror to auto or off, or name the route as workspace.api.routes.listPullRequestRecords and recordPullRequest.'
      : 'worksync asks again by itself. Links and new tasks do not wait for it.';
    return [{ level: 'warning', subject, message: text, hint }];
  }
}

/** By the specification, this address opens pull requests. Only an operator can point records at it. */
function opensPullRequests({ workspace }: OpenWorkspace['config'], subject: string): Finding[] {
  const { routes } = apiOverrides.parse(workspace.api ?? {});
  const path = routes?.recordPullRequest?.path;
  const opening = routes?.createPullRequest?.path ?? ROUTES.createPullRequest.path;
  if (path === undefined || path !== opening) return [];
  const message = `records are sent to ${path}, where the specification says that a POST opens a pull request at the provider`;
  const hint = 'Leave workspace.api.routes.recordPullRequest out, unless this server only records there.';
  return [{ level: 'warning', subject, message, hint }];
}

function checkWebhook({ config }: OpenWorkspace, subject: string): Finding[] {
  const { webhook } = config.workspace;
  if (!webhook) return [];
  const proofs = [
    ...(webhook.key.length > 0 ? ['the shared key'] : []),
    ...(webhook.secret.length > 0 ? ['a signature'] : []),
  ];
  return [{ level: 'ok', subject, message: `webhooks of the workspace are accepted with ${proofs.join(' and ')}` }];
}

/** A task whose status has such a word reads as the first of these statuses, so rules cannot tell them apart. */
function checkStatuses({ config }: OpenWorkspace, subject: string): Finding[] {
  return sharedWords(config.workspace.statuses).map(([word, statuses]) => ({
    level: 'warning',
    subject,
    message: `the workspace has one word, ${word}, for ${statuses.join(' and ')}: worksync reads it as ${statuses[0]}`,
    hint: 'Give each status a word of its own in workspace.statuses, if the workspace has one.',
  }));
}

/** Causes that no other line of the check reports. */
const OF_STATUS: ReadonlySet<string> = new Set(['workspace_routes_off', 'task_updates_off', 'task_fields_refused']);

async function repeatStatus(workspace: OpenWorkspace, subject: string): Promise<Finding[]> {
  const { causes } = await workspace.status();
  return causes
    .filter(({ code, verdict }) => verdict === 'blocked' || OF_STATUS.has(code))
    .map(({ code, message, hint, verdict }) => ({
      level: verdict === 'blocked' ? 'error' : 'warning',
      subject,
      message: `${code}: ${message}`,
      hint,
    }));
}

export function failed(subject: string, thrown: unknown): Finding {
  const { code, message, hint } = asSyncError(thrown);
  return { level: 'error', subject, message: `${code}: ${message}`, hint };
}
