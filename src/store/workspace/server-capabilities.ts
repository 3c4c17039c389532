import { forgetMeta, PULL_REQUESTS_READ, readMeta, writeMeta } from '../meta.ts';
import { readTaskUpdateFacts } from '../tasks/stored-tasks.ts';
import { json, type Scope } from '../workspace-scope.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';

/**
 * The state of the route that records pull requests (W74).
 *
 *   unknown  the workspace has not answered yet: requested again with backoff, and nothing is recorded meanwhile
 *   open     the workspace listed its records: pull requests are recorded there
 *   closed   the workspace has no such route: records stay in this database. Requested again once a day, and at a new base address
 *
 *   unknown, closed → open   a list of records
 *   unknown → closed         a refusal by the workspace other than a conflict, or any two refusals at least ten minutes apart
 *   open → closed            three records in a row were refused with 404, 405 or 501
 */
export interface RecordsRoute {
  readonly state: 'unknown' | 'open' | 'closed';
  /** When this state began, epoch milliseconds. */
  readonly since: number;
  /** While the state is `unknown`: when a server that may not be the workspace first refused the list. */
  readonly refusedAt?: number;
  /** Number of records in a row that were refused like on a missing route. */
  readonly refusals?: number;
  /** Code and message of the last refusal. */
  readonly error?: string;
  /**
   * The workspace refused the list before it accepted any other request, so the refusal may concern all requests. The route is
   * closed when another request is accepted. A stored key, like the others here.
   */
  readonly isRefused?: boolean;
  /** The route was closed before, so that all stored records must be compared again. */
  readonly isReopened?: boolean;
}

/** The answer that refused a list or a record. */
export interface RouteRefusal {
  readonly status: number | undefined;
  /** Whether the workspace itself answered, and not a server in front of it. */
  readonly own: boolean;
  readonly error: string;
}

export const UNKNOWN_ROUTE: RecordsRoute = { state: 'unknown', since: 0 };
/** Statuses that concern the key or the load, but not the route. */
const TRANSIENT: ReadonlySet<number> = new Set([401, 408, 425, 429]);
/** Statuses with which servers refuse a route. */
export const ROUTE_REFUSALS: ReadonlySet<number> = new Set([404, 405, 501]);
/** Statuses that may concern only the state of one resource, even in an answer of the workspace itself. */
const CONFLICTS: ReadonlySet<number> = new Set([409, 412]);
/** Time between two refusals that close the route, milliseconds. */
const REPEATED_AFTER = 600_000;
const REFUSALS_IN_A_ROW = 3;

export async function readRecordsRoute(query: Scope): Promise<RecordsRoute> {
  return (await readServerFact<RecordsRoute>(query, 'records')) ?? UNKNOWN_ROUTE;
}

/** Returns whether records may be written: the route is open, and its records were listed completely. */
export async function canRecord(query: Scope): Promise<boolean> {
  return (await readRecordsRoute(query)).state === 'open' && (await readMeta(query, PULL_REQUESTS_READ)) !== undefined;
}

/** Records that the workspace listed its records: the route is open. */
export async function noteRecordsListed(query: Scope, now: number): Promise<void> {
  const { state } = await readRecordsRoute(query);
  if (state === 'open') return;
  const isReopened = state === 'closed';
  const open: RecordsRoute = { state: 'open', since: now, ...(isReopened && { isReopened }) };
  await writeServerFact(query, 'records', open);
  if (isReopened) await forgetMeta(query, PULL_REQUESTS_READ);
}

/** Returns true once after a closed route has opened. */
export async function takeReopened(query: Scope): Promise<boolean> {
  const { isReopened = false, ...route } = await readRecordsRoute(query);
  if (isReopened) await writeServerFact(query, 'records', route);
  return isReopened;
}

/**
 * Records that the list of records was refused.
 *
 * @param isWorkspaceRead whether the workspace has accepted another request. Before, it may be refusing all requests.
 * @returns whether this closes the route
 */
export async function noteListRefused(
  query: Scope,
  refusal: RouteRefusal,
  { now, isWorkspaceRead }: { readonly now: number; readonly isWorkspaceRead: boolean },
): Promise<boolean> {
  const route = await readRecordsRoute(query);
  if (route.state === 'open') return false;
  const next = afterListRefused(route, refusal, now);
  const isEarly = next.state === 'closed' && !isWorkspaceRead;
  await writeServerFact(query, 'records', isEarly ? { ...route, isRefused: true, error: refusal.error } : next);
  return next.state === 'closed' && !isEarly;
}

/** Closes the route if its list was refused, because the workspace has accepted another request. @returns whether it closed */
export async function closeIfRefusedEarly(query: Scope, now: number): Promise<boolean> {
  const { isRefused, error } = await readRecordsRoute(query);
  if (!isRefused) return false;
  await writeServerFact(query, 'records', { state: 'closed', since: now, error } satisfies RecordsRoute);
  return true;
}

/** Computes the state of the route after its list was refused. */
export function afterListRefused(route: RecordsRoute, { status, own, error }: RouteRefusal, now: number): RecordsRoute {
  const closed = { state: 'closed', since: route.state === 'closed' ? route.since : now, error } as const;
  if (route.state === 'closed') return closed;
  if (status === undefined || TRANSIENT.has(status) || status < 400 || (status >= 500 && status !== 501))
    return { ...route, error };
  if (own && !CONFLICTS.has(status)) return closed;
  const { refusedAt = now } = route;
  return now - refusedAt >= REPEATED_AFTER ? closed : { ...route, refusedAt, error };
}

/** A record was refused. @returns whether this closes the route */
export async function noteRecordRefused(query: Scope, refusal: RouteRefusal, now: number): Promise<boolean> {
  const route = await readRecordsRoute(query);
  const isRouteMissing = refusal.own && ROUTE_REFUSALS.has(refusal.status ?? 0);
  if (route.state !== 'open' || !isRouteMissing) return false;
  const refusals = (route.refusals ?? 0) + 1;
  const isClosed = refusals >= REFUSALS_IN_A_ROW;
  const next: RecordsRoute = isClosed
    ? { state: 'closed', since: now, error: refusal.error }
    : { ...route, refusals, error: refusal.error };
  await writeServerFact(query, 'records', next);
  return isClosed;
}

/** Records that the workspace accepted a record, which ends a series of refusals. */
export async function noteRecordTaken(query: Scope): Promise<void> {
  const { refusals, error: _, ...route } = await readRecordsRoute(query);
  if (refusals !== undefined) await writeServerFact(query, 'records', route);
}

/** Deletes the pending and held changes of records, which cannot be sent without the route. */
export async function dropRecordChanges(query: Scope): Promise<void> {
  await deleteRecordChanges(query).execute();
}

function deleteRecordChanges(query: Scope) {
  return query.deleteFrom('outbox').where('kind', '=', 'pull_request').where('state', 'in', ['pending', 'held']);
}

/** The name of the fact that lists the connections whose pull requests are not recorded. */
const NOT_RECORDING = 'server.not_recording';

/**
 * Sets the connections that record their pull requests, at the start. Record changes of the others are deleted. If one of them
 * did not record before, all records are compared with the workspace again.
 */
export async function configureRecording(
  query: Scope,
  { recording, others }: { readonly recording: readonly string[]; readonly others: readonly string[] },
): Promise<void> {
  const ofOthers = query
    .selectJoined(['entities', 'item_key'], ['items', 'key'])
    .select('entities.entity')
    .where('items.connection', 'in', ['', ...others])
    .where('entities.kind', '=', 'pull_request');
  if (others.length > 0) await deleteRecordChanges(query).where('entity', 'in', ofOthers).execute();
  const previous = json<readonly string[]>((await readMeta(query, NOT_RECORDING)) ?? null) ?? [];
  const names = [...others].sort();
  if (previous.join() !== names.join()) await writeMeta(query, NOT_RECORDING, JSON.stringify(names));
  const route = await readRecordsRoute(query);
  if (route.state !== 'open' || !recording.some((name) => previous.includes(name))) return;
  await writeServerFact(query, 'records', { ...route, isReopened: true });
  await forgetMeta(query, PULL_REQUESTS_READ);
}

/** Routes that a server may lack: those for reads on which no other work depends, and the one for updates of tasks. */
export type OptionalRoute = 'listWorkItems' | 'getTask' | 'getDocument' | 'updateTask';

/** The state of an optional route. Times are epoch milliseconds. */
export interface RouteState {
  /** The last success. */
  readonly answeredAt?: number;
  readonly refused?: {
    readonly status: number;
    /** The resource of the first refused read. */
    readonly resource: string;
    readonly at: number;
    /** The route is not used before. */
    readonly offUntil?: number;
  };
  /** How often the route was switched off since the last success. */
  readonly timesOff?: number;
}

export type RouteStates = Readonly<Partial<Record<OptionalRoute, RouteState>>>;

/** Statuses that may mean that a route does not exist, or not for this key. */
const REFUSALS: ReadonlySet<number> = new Set([400, 403, 404, 405, 406, 410, 415, 422, 501]);
/** Statuses that never concern a single resource. */
const OF_ROUTE: ReadonlySet<number> = new Set([405, 501]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A success within this time shows that a 404 concerns one resource and not the route, milliseconds. */
const RECENT = 600_000;

async function routeStates(query: Scope): Promise<RouteStates> {
  return (await readServerFact<RouteStates>(query, 'routes')) ?? {};
}

/** Returns until when the route is switched off; undefined while it is in use. */
export async function routeOffUntil(query: Scope, route: OptionalRoute, now: number): Promise<number | undefined> {
  const until = (await routeStates(query))[route]?.refused?.offUntil;
  return until !== undefined && until > now ? until : undefined;
}

export async function wasAnsweredRecently(query: Scope, route: OptionalRoute, now: number): Promise<boolean> {
  const { answeredAt = Number.NEGATIVE_INFINITY } = (await routeStates(query))[route] ?? {};
  return now - answeredAt <= RECENT;
}

/**
 * Returns until when no task is updated, because a route that updates need is switched off; undefined if they are sent.
 * Infinity: until the base address changes, because updates clear other fields.
 */
export async function taskUpdatesOffUntil(query: Scope, now: number): Promise<number | undefined> {
  if ((await readTaskUpdateFacts(query)).off !== undefined) return Number.POSITIVE_INFINITY;
  return (await routeOffUntil(query, 'getTask', now)) ?? routeOffUntil(query, 'updateTask', now);
}

/**
 * Records that a request was refused. `isCertain`: the refusal concerns the route, because another route found the resource.
 *
 * @returns whether the route is switched off now
 */
export async function noteRouteRefused(
  query: Scope,
  route: OptionalRoute,
  refusal: { readonly status: number; readonly resource: string; readonly isCertain?: boolean },
  now: number,
): Promise<boolean> {
  if (!REFUSALS.has(refusal.status)) return false;
  const routes = await routeStates(query);
  const next = afterRouteRefused(routes[route] ?? {}, refusal, now);
  await writeServerFact(query, 'routes', { ...routes, [route]: next });
  return next.refused?.offUntil !== undefined;
}

/**
 * Computes the state of a route after a refusal. The same status for two different resources switches the route off: for an hour
 * the first time, then for a day. A method that is not allowed or not implemented does so at once.
 */
export function afterRouteRefused(
  state: RouteState,
  { status, resource, isCertain = false }: Parameters<typeof noteRouteRefused>[2],
  now: number,
): RouteState {
  const { refused, timesOff = 0 } = state;
  const isOther = refused?.status !== status;
  const first = isOther ? { status, resource, at: now } : refused;
  const isOfRoute = isCertain || OF_ROUTE.has(status);
  if (isOther && !isOfRoute) return { ...state, refused: first };
  const { offUntil } = first;
  // While the route is off, only reads that were in flight before can be refused.
  const isOff = offUntil !== undefined && offUntil > now;
  const isSame = offUntil === undefined && first.resource === resource && !isOfRoute;
  if (isOff || isSame) return state;
  return { ...state, refused: { ...first, offUntil: now + (timesOff === 0 ? HOUR : DAY) }, timesOff: timesOff + 1 };
}

/** Records that a read was answered: an earlier refusal concerned only its resource. */
export async function noteRouteAnswered(query: Scope, route: OptionalRoute, now: number): Promise<void> {
  await writeServerFact(query, 'routes', { ...(await routeStates(query)), [route]: { answeredAt: now } });
}

/** Uses all routes again, at the start, because the key may be another one. */
export async function retryRefusedRoutes(query: Scope): Promise<void> {
  const states = Object.entries(await routeStates(query));
  if (states.every(([, { refused }]) => refused === undefined)) return;
  const reset = states.map(([route, state]) => [route, { ...state, refused: undefined }]);
  await writeServerFact(query, 'routes', Object.fromEntries(reset));
}

/**
 * The name of the fact that stores `workspace.api.links` of the configuration.
 *
 * On a server that does not recognise the address of a link, adding a link may duplicate it. There a link is added only after the
 * links of the task were read: once in the life of a database, and again after each lost answer.
 */
const CONFIGURED = 'server.links';

/** Stores the configured behaviour of the server, at the start. */
export async function configureLinks(query: Scope, areIdempotent: boolean): Promise<void> {
  const value = areIdempotent ? 'idempotent' : '';
  if (((await readMeta(query, CONFIGURED)) ?? '') !== value) await writeMeta(query, CONFIGURED, value);
}

/**
 * Returns whether the server ignores the addition of a link with an address that the task has already (W39, W74). Its route for
 * records implies this, the configuration states it, or a repeated addition has shown it.
 */
export async function linksAreIdempotent(query: Scope): Promise<boolean> {
  if ((await readRecordsRoute(query)).state === 'open') return true;
  if ((await readMeta(query, CONFIGURED)) === 'idempotent') return true;
  return (await readServerFact(query, 'repeatedLinks')) !== undefined;
}

/** Records that a repeated addition returned the id of the first one. */
export async function noteLinksAreIdempotent(query: Scope, now: number): Promise<void> {
  if ((await readServerFact(query, 'repeatedLinks')) === undefined)
    await writeServerFact(query, 'repeatedLinks', { since: now });
}
