import type { AnswerRoom } from '../platform/http/admission.ts';
import type { HttpAnswer } from '../platform/http/http-client.ts';
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

/** The largest file that the workspace holds, bytes (W51). */
export const LARGEST_PASSED = 100 * 1024 * 1024;

/** A request as a caller sent it to the gateway, on its way to the workspace. */
export interface PassedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  /** Below the base address; starts with `/`; as the caller spelled it. */
  readonly path: string;
  /** The query with its `?`; empty if there is none. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** The part of the server's budget that the answer takes. */
  readonly room?: AnswerRoom;
  /** The caller's own credential; absent if a gateway token uses the daemon's key. */
  readonly authorization?: string;
  /** The caller for the use of the quota; see `model/caller.ts`. */
  readonly caller: string;
}

export interface PassedAnswer extends HttpAnswer {
  /** The time when the request was sent, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision as of which the answer is true; see `store/changes/revision.ts`. */
  readonly asOf: number;
}
