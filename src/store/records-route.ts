import { json } from './entities.ts';
import { PULL_REQUESTS_READ } from './list-reads.ts';
import { forgetMeta, readMeta, writeMeta } from './meta.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Whether the workspace has the route that records pull requests (W74).
 *
 *   unknown  not answered yet, or not by the workspace: asked again with backoff, and nothing is recorded meanwhile.
 *   open     it listed its records: pull requests are recorded there.
 *   closed   it has no such route: the mirror stays here. Asked again once a day, and at another base address.
 *
 *   unknown, closed → open: a list.  unknown → closed: a refusal by the workspace, or any refusal twice ten minutes apart.
 *   open → closed: three records in a row were refused with 404, 405 or 501.
 */
export interface RecordsRoute {
  readonly state: 'unknown' | 'open' | 'closed';
  /** Of this state, epoch milliseconds. */
  readonly since: number;
  /** The first refusal that may not be the workspace's own. */
  readonly refusedAt?: number;
  /** Records refused in a row as if there were no route. */
  readonly refusals?: number;
  /** Code and message of the last refusal. */
  readonly error?: string;
  /** The workspace refused the list before it was known whether it accepts any request of ours. */
  readonly isRefused?: boolean;
  /** It was closed before: what the mirror holds is to be compared once more. */
  readonly isReopened?: boolean;
}

/** The answer that refused a list or a record. */
export interface Refusal {
  readonly status: number | undefined;
  readonly own: boolean;
  readonly error: string;
}

export const UNASKED: RecordsRoute = { state: 'unknown', since: 0 };
/** Apart from a route, these say something about the key, the moment or the load. */
const TRANSIENT: ReadonlySet<number> = new Set([401, 408, 425, 429]);
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);
const REPEATED_AFTER = 600_000;
const REFUSALS_IN_A_ROW = 3;

export async function readRecordsRoute(query: Scope): Promise<RecordsRoute> {
  return (await readServerFact<RecordsRoute>(query, 'records')) ?? UNASKED;
}

/** Whether records may be written: the route is open, and what it holds was read once. */
export async function canRecord(query: Scope): Promise<boolean> {
  return (await readRecordsRoute(query)).state === 'open' && (await readMeta(query, PULL_REQUESTS_READ)) !== undefined;
}

/** The workspace listed its records. */
export async function noteRecordsListed(query: Scope, now: number): Promise<void> {
  const { state } = await readRecordsRoute(query);
  if (state === 'open') return;
  const isReopened = state === 'closed';
  const open: RecordsRoute = { state: 'open', since: now, ...(isReopened && { isReopened }) };
  await writeServerFact(query, 'records', open);
  if (isReopened) await forgetMeta(query, PULL_REQUESTS_READ);
}

/** @returns whether the route was closed before, and this is the first call since */
export async function takeReopened(query: Scope): Promise<boolean> {
  const { isReopened = false, ...route } = await readRecordsRoute(query);
  if (isReopened) await writeServerFact(query, 'records', route);
  return isReopened;
}

/**
 * The list of records was refused.
 *
 * @param isWorkspaceRead whether the workspace has accepted another request: until then the refusal may be one of all requests
 * @returns whether this closes the route
 */
export async function noteListRefused(
  query: Scope,
  refusal: Refusal,
  { now, isWorkspaceRead }: { readonly now: number; readonly isWorkspaceRead: boolean },
): Promise<boolean> {
  const route = await readRecordsRoute(query);
  if (route.state === 'open') return false;
  const next = afterListRefused(route, refusal, now);
  const isEarly = next.state === 'closed' && !isWorkspaceRead;
  await writeServerFact(query, 'records', isEarly ? { ...route, isRefused: true, error: refusal.error } : next);
  return next.state === 'closed' && !isEarly;
}

/** The workspace accepted another request. @returns whether this closes the route */
export async function closeIfRefused(query: Scope, now: number): Promise<boolean> {
  const { isRefused, error } = await readRecordsRoute(query);
  if (!isRefused) return false;
  await writeServerFact(query, 'records', { state: 'closed', since: now, error } satisfies RecordsRoute);
  return true;
}

/** Pure. */
export function afterListRefused(route: RecordsRoute, { status, own, error }: Refusal, now: number): RecordsRoute {
  const closed = { state: 'closed', since: route.state === 'closed' ? route.since : now, error } as const;
  if (route.state === 'closed') return closed;
  if (status === undefined || TRANSIENT.has(status) || status < 400 || (status >= 500 && status !== 501))
    return { ...route, error };
  if (own) return closed;
  const { refusedAt = now } = route;
  return now - refusedAt >= REPEATED_AFTER ? closed : { ...route, refusedAt, error };
}

/** A record was refused. @returns whether this closes the route */
export async function noteRecordRefused(query: Scope, refusal: Refusal, now: number): Promise<boolean> {
  const route = await readRecordsRoute(query);
  const isRouteMissing = refusal.own && NO_ROUTE.has(refusal.status ?? 0);
  if (route.state !== 'open' || !isRouteMissing) return false;
  const refusals = (route.refusals ?? 0) + 1;
  const isClosed = refusals >= REFUSALS_IN_A_ROW;
  const next: RecordsRoute = isClosed
    ? { state: 'closed', since: now, error: refusal.error }
    : { ...route, refusals, error: refusal.error };
  await writeServerFact(query, 'records', next);
  return isClosed;
}

/** A record was taken. */
export async function noteRecordTaken(query: Scope): Promise<void> {
  const { refusals, error: _, ...route } = await readRecordsRoute(query);
  if (refusals !== undefined) await writeServerFact(query, 'records', route);
}

/** Deletes waiting and held records: without the route nothing can be sent for them. */
export async function dropRecordChanges(query: Scope): Promise<void> {
  await waitingRecords(query).execute();
}

function waitingRecords(query: Scope) {
  return query.deleteFrom('outbox').where('kind', '=', 'pull_request').where('state', 'in', ['pending', 'held']);
}

/** Connections whose pull requests are not recorded. */
const NOT_RECORDING = 'server.not_recording';

/**
 * At the start: only these connections record. What waits for the others is dropped; if one did not record
 * before, the mirror is compared with the workspace again.
 */
export async function rememberRecording(
  query: Scope,
  { recording, others }: { readonly recording: readonly string[]; readonly others: readonly string[] },
): Promise<void> {
  const ofOthers = query
    .selectJoined(['entities', 'item_key'], ['items', 'key'])
    .select('entities.entity')
    .where('items.connection', 'in', ['', ...others])
    .where('entities.kind', '=', 'pull_request');
  if (others.length > 0) await waitingRecords(query).where('entity', 'in', ofOthers).execute();
  const before = json<readonly string[]>((await readMeta(query, NOT_RECORDING)) ?? null) ?? [];
  const names = [...others].sort();
  if (before.join() !== names.join()) await writeMeta(query, NOT_RECORDING, JSON.stringify(names));
  const route = await readRecordsRoute(query);
  if (route.state !== 'open' || !recording.some((name) => before.includes(name))) return;
  await writeServerFact(query, 'records', { ...route, isReopened: true });
  await forgetMeta(query, PULL_REQUESTS_READ);
}
