import { type ApiOverrides, ROUTES, type Route, type RouteName } from '../contract.ts';

/** The route and the ids of a request. */
export interface Matched {
  readonly route: RouteName;
  /** Ids of the path by their names. */
  readonly ids: Readonly<Record<string, string>>;
}

interface Pattern {
  readonly route: RouteName;
  readonly method: string;
  readonly segments: readonly string[];
}

/** Returns the route of the contract that a request is for; undefined for other requests, which are only forwarded. */
export type RouteOf = (method: string, path: string) => Matched | undefined;

/** @param api differences of this server's routes from the contract */
export function createRouteOf(api: ApiOverrides = {}): RouteOf {
  return Object.keys(api).length === 0 ? routeOfContract : routeOfPatterns(api);
}

function routeOfPatterns(api: ApiOverrides): RouteOf {
  const patterns = (Object.keys(ROUTES) as RouteName[]).flatMap((route) => patternsOf(route, api));
  return (method, path) => {
    const segments = path.split('/');
    for (const pattern of patterns) {
      if (pattern.method !== method || pattern.segments.length !== segments.length) continue;
      const ids = matchSegments(pattern.segments, segments);
      if (ids) return { route: pattern.route, ids };
    }
    return undefined;
  };
}

function patternsOf(route: RouteName, api: ApiOverrides): Pattern[] {
  const { method, path, alsoAt, alsoBy }: Route = { ...ROUTES[route], ...api.routes?.[route] };
  const paths = [path, ...(alsoAt === undefined ? [] : [alsoAt])];
  const methods = [method, ...(alsoBy === undefined ? [] : [alsoBy])];
  return methods.flatMap((each) => paths.map((one) => ({ route, method: each, segments: one.split('/') })));
}

/** The matcher of nearly every workspace, built once. */
const routeOfContract = routeOfPatterns({});

function matchSegments(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  const ids: Record<string, string> = {};
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] as string;
    if (part.startsWith('{')) ids[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return ids;
}
