import type { Access } from '../model/caller.ts';

/** Who asked the process that a request came to, as that one admitted it. */
export interface Identity extends Access {
  /** Where the caller's connection comes from. */
  readonly ip: string;
  /** Of a browser that is logged in; see `web/sessions.ts`. */
  readonly session?: { readonly digest: string; readonly pageToken: string } | undefined;
  /** Of a configured token; see `web/token-callers.ts`. */
  readonly token?: { readonly digest: string; readonly isOwn?: true } | undefined;
  /** Id of a gateway token. */
  readonly gatewayToken?: string | undefined;
}
