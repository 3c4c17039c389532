import { BASE_PATH, ROUTES, type Route, type RouteName } from '../../workspace-api/contract.ts';
import { ASSET_ADDRESS, UPLOAD_ADDRESS } from '../files/files.ts';
import { ApiError, notFound } from './api-error.ts';

/** One address that is served: a route at one of its paths, by one of its methods. */
export interface Served {
  readonly name: RouteName;
  readonly route: Route;
  /** As the HTTP server wants it: `/api/v1/tasks/:taskId`. */
  readonly url: string;
}

export const SERVED: readonly Served[] = (Object.entries(ROUTES) as [RouteName, Route][]).flatMap(([name, route]) =>
  [route, ...(route.alsoBy === undefined ? [] : [{ ...route, method: route.alsoBy }])].flatMap((served) =>
    [route.path, ...(route.alsoAt === undefined ? [] : [route.alsoAt])].map((path) => ({
      name,
      route: served,
      url: BASE_PATH + path.replace(/\{(\w+)\}/g, ':$1'),
    })),
  ),
);

/** Whether a request belongs to the API: then it must carry credentials, also where no route is found. */
export function isApiAddress(url: string): boolean {
  return url === BASE_PATH || url.startsWith(`${BASE_PATH}/`) || url.startsWith(`${BASE_PATH}?`);
}

const TRANSFERS = [
  { url: UPLOAD_ADDRESS, route: { method: 'PUT' } },
  { url: ASSET_ADDRESS, route: { method: 'GET' } },
] as const;

/** Explains why no route of those served was found: another method (405 with `Allow`), or no such address (404). */
export function missExplainer(served: readonly Served[]): (url: string) => ApiError {
  const patterns = [...served, ...TRANSFERS].map(({ url, route }) => ({
    method: route.method,
    pattern: new RegExp(`^${url.replace(/:\w+/g, '[^/]+')}$`),
  }));
  return (url) => {
    const path = url.split('?', 1)[0]!;
    const methods = patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    if (methods.length === 0) return notFound('address');
    const allow = [...new Set(methods)].sort().join(', ');
    return new ApiError('method_not_allowed', `this address takes ${allow}`, { allow });
  };
}
