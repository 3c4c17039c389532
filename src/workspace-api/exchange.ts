import type { Route, RouteName } from './contract.ts';

/** One request as `send` gets it. */
export interface ApiRequest {
  readonly method: Route['method'];
  /** Relative to the base address; starts with `/`; ids are checked and encoded. */
  readonly path: string;
  /** Encoded, without `?`; absent where there is none. */
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Plain JSON value; absent where there is none. */
  readonly body?: unknown;
  readonly route: RouteName;
}

export interface ApiResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Sends a request and returns the answer whatever its status. `context` is the sender's own. */
export type Send<Context> = (request: ApiRequest, context: Context) => Promise<ApiResponse>;
