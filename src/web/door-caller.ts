import type { Access } from '../model/caller.ts';
import type { LoggedIn } from './sessions.ts';
import type { KnownToken } from './token-callers.ts';

/** The authenticated caller of a request. */
export type Caller = Access & {
  readonly session?: LoggedIn | undefined;
  readonly token?: KnownToken | undefined;
  /** Id of a gateway token. */
  readonly gatewayToken?: string | undefined;
};
