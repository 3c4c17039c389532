import { type Action, branchOfRecordsRead, entity as entityName } from '../../model/change.ts';
import { itemLineIn } from '../../model/task.ts';
import { taskOfSource } from '../../store/cached-tasks.ts';
import { type EntityRow, findEntity, json, removeOrTombstone, saveEntity } from '../../store/entities.ts';
import { type Eligibility, nextChange } from '../../store/next-change.ts';
import { findChange, type OutboxRow, readWaiting, removeChange, updateChange } from '../../store/outbox-rows.ts';
import { nextRevision } from '../../store/revision.ts';
import { type OptionalRoute, routeOffUntil } from '../../store/server-capabilities.ts';
import { creationBody } from '../../store/task-creations.ts';
import { requestTaskList } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { blockedUntil, LONGEST_BLOCK, unverifiedUntil } from './blocked-until.ts';

/** The routes of reads that other work can do without. */
export const OPTIONAL_READS: Readonly<Partial<Record<Action, OptionalRoute>>> = {
  'read-links': 'listWorkItems',
  'read-task': 'getTask',
  'read-document': 'getDocument',
};

/** A request that is about to be sent, as it stands in the outbox row while it is in flight. */
export interface Prepared {
  readonly action: Action;
  readonly entity: string;
  readonly kind: OutboxRow['kind'];
  readonly lane: OutboxRow['lane'];
  /** The request body; for a list read its cursor; for a removal the ids. */
  readonly body: Readonly<Record<string, unknown>>;
  /** What becomes `known` when the request succeeds: null means that the workspace no longer has it. */
  readonly known: string | null;
  readonly taskId: string | null;
  /** Deliveries that this request settles; later ones wait for the next. */
  readonly waiting: number;
  readonly attempts: number;
  /** An earlier attempt may have been carried out: nobody knows. */
  readonly open: boolean;
  readonly sentAt: number;
  /** In the order of all requests: see `store/revision.ts`. */
  readonly revision: number;
  /** For the history of requests. */
  readonly trace: Trace;
}

/** What led to a request. Epoch milliseconds. */
export interface Trace extends SlotTimes {
  readonly itemKey: string | null;
  readonly since: number;
  readonly due: number;
  /** The ids of the deliveries that it settles. */
  readonly deliveries: readonly number[];
}

export interface SlotTimes {
  /** When it asked for a slot, and when it got one. */
  readonly askedAt: number;
  readonly slotAt: number;
}

/**
 * At a free slot: takes the change that is due first, computes what to send from `desired` against `known`, and stores
 * it as in flight. Changes whose difference has vanished are removed in passing. Runs in the transaction that also
 * writes the ledger row.
 *
 * @param chosen the change that was found to be next a moment ago, and nothing has happened since
 * @returns undefined when nothing is to be sent
 */
export async function prepareNext(
  query: Scope,
  eligible: Eligibility,
  chosen?: string,
  slot: SlotTimes = { askedAt: eligible.now, slotAt: eligible.now },
): Promise<Prepared | undefined> {
  let known = chosen === undefined ? undefined : await waitingChange(query, chosen);
  for (;;) {
    const row = known ?? (await nextChange(query, eligible));
    known = undefined;
    if (row === undefined) return undefined;
    const held = row.kind === 'read' ? undefined : await findEntity(query, row.entity);
    const request =
      row.kind === 'read' ? await readOnce(query, row, eligible.now) : held && (await writeOnce(query, row, held));
    if (request === undefined) {
      await dropVanished(query, row, eligible.now);
      continue;
    }
    const { entity, kind, lane, attempts, since, due } = row;
    const itemKey = held?.item_key ?? null;
    const blocked =
      (await unverifiedUntil(query, itemKey, eligible.now)) ?? (await blockedUntil(query, row, request, eligible.now));
    if (blocked !== undefined) {
      await updateChange(query, entity, { not_before: blocked });
      continue;
    }
    const deliveries = readWaiting(row).map(({ id }) => id);
    const trace = { itemKey, since, due, deliveries, ...slot };
    const own = { entity, kind, lane, attempts, open: isOpen(row), waiting: deliveries.length, trace };
    const body = await bodyToSend(query, entity, request, eligible.now);
    const revision = await nextRevision(query);
    const prepared = { ...request, ...own, body, sentAt: eligible.now, revision };
    await updateChange(query, entity, { state: 'sending', sent: JSON.stringify(prepared), sent_at: eligible.now });
    return prepared;
  }
}

/** Nothing is to be sent. A removal whose read is switched off waits for it. */
async function dropVanished(query: Scope, { entity, kind, effect }: OutboxRow, now: number): Promise<void> {
  if (kind === 'read' && effect === 'removal') return updateChange(query, entity, { not_before: now + LONGEST_BLOCK });
  await removeChange(query, entity);
  const left = kind === 'read' ? undefined : await findEntity(query, entity);
  if (left && isNothing(left)) await removeOrTombstone(query, left);
}

async function waitingChange(query: Scope, entity: string): Promise<OutboxRow | undefined> {
  const row = await findChange(query, entity);
  return row?.state === 'pending' ? row : undefined;
}

/** The server may be known to refuse some fields. */
async function bodyToSend(query: Scope, entity: string, { action, body }: Request, now: number) {
  return action === 'create-task' ? creationBody(query, entity, body, now) : body;
}

/** What a write would send; nothing for a task that the workspace has already, whoever created it. */
async function writeOnce(query: Scope, row: OutboxRow, held: EntityRow): Promise<Request | undefined> {
  const line = itemLineIn(json<{ description?: string }>(held.desired)?.description);
  const made = row.kind === 'task' && held.item_key ? await taskOfSource(query, held.item_key, line) : undefined;
  if (made === undefined) return writeOf(row, held);
  await saveEntity(query, { ...held, known: held.desired ?? '{}', remote_id: made.taskId });
  return undefined;
}

/** A link or a task that is neither desired nor known. */
function isNothing({ kind, desired, known }: EntityRow): boolean {
  return kind !== 'pull_request' && desired === null && known === null;
}

/** A write that waits with its request still in the row has an unknown outcome. */
function isOpen({ kind, sent }: OutboxRow): boolean {
  return kind !== 'read' && sent !== null;
}

type Request = Pick<Prepared, 'action' | 'body' | 'known' | 'taskId'>;

/** What a read would send; nothing while its route is switched off. */
async function readOnce(query: Scope, row: OutboxRow, now: number): Promise<Request | undefined> {
  const request = readOf(row);
  const route = OPTIONAL_READS[request.action];
  if (route === undefined || (await routeOffUntil(query, route, now)) === undefined) return request;
  if (request.action === 'read-task') await requestTaskList(query, now);
  return undefined;
}

function readOf(row: OutboxRow): Request {
  const none = { known: null, taskId: null };
  if (row.entity === entityName.readTasks) return { ...none, action: 'read-tasks', body: json(row.sent) ?? {} };
  const ofTask = entityName.readTask('');
  if (row.entity.startsWith(ofTask)) {
    return { ...none, action: 'read-task', body: {}, taskId: row.entity.slice(ofTask.length) };
  }
  if (row.entity === entityName.readPullRequests) {
    return { ...none, action: 'read-pull-requests', body: json(row.sent) ?? {} };
  }
  const records = branchOfRecordsRead(row.entity);
  if (records) return { ...none, action: 'read-records', body: records };
  const ofDocument = entityName.readDocument('');
  if (row.entity.startsWith(ofDocument)) {
    return { ...none, action: 'read-document', body: { documentId: row.entity.slice(ofDocument.length) } };
  }
  const taskId = row.entity.slice(entityName.readLinks('').length);
  return { ...none, action: 'read-links', body: {}, taskId };
}

/** What a write would send, as things stand; undefined where there is nothing to send any more. */
export function writeOf(row: Pick<OutboxRow, 'kind' | 'sent'>, held: EntityRow): Request | undefined {
  // Whether the link stands is known once the same request has been answered; only then can it be undone.
  if (row.kind === 'link' && row.sent !== null) return repeatOf(row.sent);
  const desired = json(held.desired);
  if (row.kind === 'pull_request') return recordOf(held, desired);
  if (row.kind === 'task') return createOf(held, desired);
  if (row.kind === 'document') return attachOf(held, desired);
  return linkOf(held, desired);
}

function repeatOf(sent: string): Request {
  const { action, body, known, taskId } = JSON.parse(sent) as Prepared;
  return { action, body, known, taskId };
}

function recordOf(held: EntityRow, desired: Record<string, unknown> | undefined): Request | undefined {
  if (desired === undefined) return undefined;
  return { action: 'record-pull-request', body: desired, known: held.desired, taskId: null };
}

function createOf(held: EntityRow, desired: Record<string, unknown> | undefined): Request | undefined {
  if (desired === undefined || held.known !== null) return undefined;
  return { action: 'create-task', body: desired, known: held.desired, taskId: null };
}

/** Only one that is known to be attached to no task: it would be taken away from another. */
function attachOf(held: EntityRow, desired: Record<string, unknown> | undefined): Request | undefined {
  const known = json(held.known);
  if (desired === undefined || known === undefined || known['taskId'] !== null || held.hand === 'removed')
    return undefined;
  const attached = JSON.stringify({ taskId: held.task_id, isMissing: false });
  return { action: 'attach-document', body: desired, known: attached, taskId: held.task_id };
}

function linkOf(held: EntityRow, desired: Record<string, unknown> | undefined): Request | undefined {
  const taskId = held.task_id as string;
  if (desired !== undefined && held.known === null && held.hand !== 'removed') {
    const { reason: _, ...body } = desired;
    return { action: 'add-link', body, known: JSON.stringify(body), taskId };
  }
  if (desired === undefined && held.known !== null && held.remote_id !== null && held.hand === null) {
    return { action: 'remove-link', body: { workItemId: held.remote_id }, known: null, taskId };
  }
  return undefined;
}
