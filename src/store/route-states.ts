import { readServerFact, writeServerFact } from './server-facts.ts';
import type { Scope } from './workspace-scope.ts';

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

export async function wasAnsweredLately(query: Scope, route: OptionalRoute, now: number): Promise<boolean> {
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
  const next = afterRefusal(routes[route] ?? {}, refusal, now);
  await writeServerFact(query, 'routes', { ...routes, [route]: next });
  return next.refused?.offUntil !== undefined;
}

/**
 * Pure. The same refusal of reads about two different resources switches the route off: for an hour, then for a day. A method
 * that is not allowed concerns the route at once.
 */
export function afterRefusal(
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
export async function askRoutesAgain(query: Scope): Promise<void> {
  const states = Object.entries(await routeStates(query));
  if (states.every(([, { refused }]) => refused === undefined)) return;
  const asked = states.map(([route, state]) => [route, { ...state, refused: undefined }]);
  await writeServerFact(query, 'routes', Object.fromEntries(asked));
}
