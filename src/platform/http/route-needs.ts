/**
 * Who may use a route.
 *
 * public   everybody; what it needs it checks itself.
 * webhook  everybody, and what is posted proves itself by a signature. No browser asks here, so its answers carry no
 *          headers for browsers.
 * login    everybody whose browser shows one of our own pages.
 * metrics  as `read`, or everybody where metrics are open.
 * read     the read token, the admin token, or any session. Changes nothing.
 * session  who is logged in, whatever their role.
 * gateway  a gateway token, for the one workspace that it was made for. Changes nothing.
 * replica  another process of the installation, which signs what it asks. Changes nothing.
 * admin    the admin token, or a session of an administrator.
 */
export type Door = 'public' | 'webhook' | 'login' | 'metrics' | 'read' | 'session' | 'gateway' | 'replica' | 'admin';

/** The `config` of a route: who may use it. A route without one is for administrators of all workspaces. */
export interface RouteNeeds {
  /** `admin` unless told. */
  readonly door?: Door;
  /**
   * Its answer has only what the caller may see. Without it, and without `:workspace` in its address, the route
   * is closed to callers that are limited to some workspaces.
   */
  readonly filters?: true;
  /** Takes a form of our own pages, with their token in the field `page`; otherwise what changes something takes JSON. */
  readonly form?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig extends RouteNeeds {}
}
