/**
 * The callers that may use a route.
 *
 * public   everybody; the handler checks its own needs.
 * webhook  everybody; a signature proves the body. No browser sends these requests, so the answers have no headers
 *          for browsers.
 * login    everybody whose browser shows one of our own pages.
 * metrics  as `read`, or everybody if metrics are open.
 * read     the read token, the admin token, or any session. Changes nothing.
 * session  every logged-in caller, whatever their role.
 * gateway  a gateway token, for the one workspace that it was made for. Changes nothing.
 * replica  another process of the installation, which signs its requests. Changes nothing.
 * admin    the admin token, or a session of an administrator.
 */
export type Door = 'public' | 'webhook' | 'login' | 'metrics' | 'read' | 'session' | 'gateway' | 'replica' | 'admin';

/** The `config` of a route: its callers. A route without one is for administrators of all workspaces. */
export interface RouteNeeds {
  /** `admin` by default. */
  readonly door?: Door;
  /**
   * The answer contains only what the caller may see. Without it, and without `:workspace` in its address, the route is closed to
   * callers that are limited to some workspaces.
   */
  readonly filters?: true;
  /** Takes a form of our own pages, with their token in the field `page`; other routes that change something take JSON. */
  readonly form?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig extends RouteNeeds {}
}
