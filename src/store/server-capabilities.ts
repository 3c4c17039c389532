import { json } from './entities.ts';
import { forgetMeta, readMeta, writeMeta } from './meta.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import { PULL_REQUESTS_READ } from './workspace-reads.ts';
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
export interface RouteRefusal {
  readonly status: number | undefined;
  readonly own: boolean;
  readonly error: string;
}

export const UNKNOWN_ROUTE: RecordsRoute = { state: 'unknown', since: 0 };
/** Apart from a route, these say something about the key, the moment or the load. */
const TRANSIENT: ReadonlySet<number> = new Set([401, 408, 425, 429]);
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);
const REPEATED_AFTER = 600_000;
const REFUSALS_IN_A_ROW = 3;

export async function readRecordsRoute(query: Scope): Promise<RecordsRoute> {
  return (await readServerFact<RecordsRoute>(query, 'records')) ?? UNKNOWN_ROUTE;
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

/** The workspace accepted another request. @returns whether this closes the route */
export async function closeIfRefused(query: Scope, now: number): Promise<boolean> {
  const { isRefused, error } = await readRecordsRoute(query);
  if (!isRefused) return false;
  await writeServerFact(query, 'records', { state: 'closed', since: now, error } satisfies RecordsRoute);
  return true;
}

/** Pure. */
export function afterListRefused(route: RecordsRoute, { status, own, error }: RouteRefusal, now: number): RecordsRoute {
  const closed = { state: 'closed', since: route.state === 'closed' ? route.since : now, error } as const;
  if (route.state === 'closed') return closed;
  if (status === undefined || TRANSIENT.has(status) || status < 400 || (status >= 500 && status !== 501))
    return { ...route, error };
  if (own) return closed;
  const { refusedAt = now } = route;
  return now - refusedAt >= REPEATED_AFTER ? closed : { ...route, refusedAt, error };
}

/** A record was refused. @returns whether this closes the route */
export async function noteRecordRefused(query: Scope, refusal: RouteRefusal, now: number): Promise<boolean> {
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
export async function configureRecording(
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

/** Routes of reads that other work can do without. */
export type OptionalRoute = 'listWorkItems' | 'getTask' | 'getDocument';

/** What is known of such a route. Times are epoch milliseconds. */
export interface RouteState {
  /** The last success. */
  readonly answeredAt?: number;
  readonly refused?: {
    readonly status: number;
    /** What the first refused read was about. */
    readonly resource: string;
    readonly at: number;
    /** Until then the route is not asked. */
    readonly offUntil?: number;
  };
  /** How often it was switched off since the last success. */
  readonly timesOff?: number;
}

export type RouteStates = Readonly<Partial<Record<OptionalRoute, RouteState>>>;

/** Statuses that may mean that a route is not there, or not for this key. */
const REFUSALS: ReadonlySet<number> = new Set([400, 403, 404, 405, 406, 410, 415, 422, 501]);
/** Statuses that never concern a single resource. */
const OF_ROUTE: ReadonlySet<number> = new Set([405, 501]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A success within this time shows that a 404 concerns one thing and not the route, milliseconds. */
const RECENT = 600_000;

async function routeStates(query: Scope): Promise<RouteStates> {
  return (await readServerFact<RouteStates>(query, 'routes')) ?? {};
}

/** Until when the route is switched off; undefined while it is asked. */
export async function routeOffUntil(query: Scope, route: OptionalRoute, now: number): Promise<number | undefined> {
  const until = (await routeStates(query))[route]?.refused?.offUntil;
  return until !== undefined && until > now ? until : undefined;
}

export async function wasAnsweredRecently(query: Scope, route: OptionalRoute, now: number): Promise<boolean> {
  const { answeredAt = Number.NEGATIVE_INFINITY } = (await routeStates(query))[route] ?? {};
  return now - answeredAt <= RECENT;
}

/** A read was refused. @returns whether the route is switched off now */
export async function noteRouteRefused(
  query: Scope,
  route: OptionalRoute,
  refusal: { readonly status: number; readonly resource: string },
  now: number,
): Promise<boolean> {
  if (!REFUSALS.has(refusal.status)) return false;
  const routes = await routeStates(query);
  const next = afterRouteRefused(routes[route] ?? {}, refusal, now);
  await writeServerFact(query, 'routes', { ...routes, [route]: next });
  return next.refused?.offUntil !== undefined;
}

/**
 * Pure. The same refusal of reads about two different resources switches the route off: for an hour, then for a day. A method
 * that is not allowed concerns the route at once.
 */
export function afterRouteRefused(
  state: RouteState,
  { status, resource }: { readonly status: number; readonly resource: string },
  now: number,
): RouteState {
  const { refused, timesOff = 0 } = state;
  const isOther = refused?.status !== status;
  const first = isOther ? { status, resource, at: now } : refused;
  if (isOther && !OF_ROUTE.has(status)) return { ...state, refused: first };
  const { offUntil } = first;
  // While it is off, only reads that were in flight before are refused.
  const isOff = offUntil !== undefined && offUntil > now;
  const isSame = offUntil === undefined && first.resource === resource && !OF_ROUTE.has(status);
  if (isOff || isSame) return state;
  return { ...state, refused: { ...first, offUntil: now + (timesOff === 0 ? HOUR : DAY) }, timesOff: timesOff + 1 };
}

/** A read was answered: what was refused before concerned one resource. */
export async function noteRouteAnswered(query: Scope, route: OptionalRoute, now: number): Promise<void> {
  await writeServerFact(query, 'routes', { ...(await routeStates(query)), [route]: { answeredAt: now } });
}

/** At the start, which may come with another key: all routes are asked again. */
export async function retryRefusedRoutes(query: Scope): Promise<void> {
  const states = Object.entries(await routeStates(query));
  if (states.every(([, { refused }]) => refused === undefined)) return;
  const asked = states.map(([route, state]) => [route, { ...state, refused: undefined }]);
  await writeServerFact(query, 'routes', Object.fromEntries(asked));
}

/**
 * Adding a link may double it on a server that does not recognise the address. There a link is added only after the task's
 * links were read: once in the life of a database, and again after each answer that was lost.
 */
const CONFIGURED = 'server.links';

/** At the start: `workspace.api.links` of the configuration. */
export async function configureLinks(query: Scope, areIdempotent: boolean): Promise<void> {
  const value = areIdempotent ? 'idempotent' : '';
  if (((await readMeta(query, CONFIGURED)) ?? '') !== value) await writeMeta(query, CONFIGURED, value);
}

/**
 * Whether the server adds no second link with an address that the task has already (W39, W74): its route for records implies
 * it, the configuration states it, or a repeated addition has shown it.
 */
export async function linksAreIdempotent(query: Scope): Promise<boolean> {
  if ((await readRecordsRoute(query)).state === 'open') return true;
  if ((await readMeta(query, CONFIGURED)) === 'idempotent') return true;
  return (await readServerFact(query, 'repeatedLinks')) !== undefined;
}

/** An addition of worksync was repeated and came back with the id of the first one. */
export async function noteLinksAreIdempotent(query: Scope, now: number): Promise<void> {
  if ((await readServerFact(query, 'repeatedLinks')) === undefined)
    await writeServerFact(query, 'repeatedLinks', { since: now });
}
