import type { AnswerRoom } from '../platform/http/answer-room.ts';
import type { HttpAnswer } from '../platform/http/http-client.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { WakeSignal } from '../platform/lib/wake-signal.ts';
import type { Store } from '../store/database.ts';
import type { ResponseCapture } from '../workspace-api/capture/capture-responses.ts';
import type { Tokens } from './token-book.ts';

/** A request as a caller sent it to the gateway, on its way to the workspace. */
export interface UpstreamRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  /** Below the base address; starts with `/`; as the caller spelled it. */
  readonly path: string;
  /** With its `?`; empty where there is none. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** What the answer takes of the server's budget. */
  readonly room?: AnswerRoom;
  /** The caller's own credential; absent where a gateway token stands for the daemon's key. */
  readonly authorization?: string;
  /** Whom the request is counted for; see `model/caller.ts`. */
  readonly caller: string;
}

export interface UpstreamAnswer extends HttpAnswer {
  /** When the request left, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision as of which the answer is true; see `store/revision.ts`. */
  readonly asOf: number;
}

interface GatewaySettings {
  /** Milliseconds that a read counts as fresh; 0: every read goes to the workspace. */
  readonly freshFor: number;
  /** Milliseconds that a caller waits for a quota slot before it gets 429. */
  readonly longestWait: number;
  /**
   * Beginning of the workspace's API keys: the gateway remembers only such credentials, since an OAuth token stands for a
   * person.
   */
  readonly keyPrefix: string;
  /** Name of the header with the version of the API, in lower case. */
  readonly versionHeader: string;
}

/** What the gateway needs of one workspace. */
export interface Upstream {
  readonly name: string;
  /**
   * The workspace's id: as it is configured, or as the workspace itself told it to the daemon's key; undefined until
   * then. Whoever names it in a path and is not refused is one of ours; `current` may be another key's own workspace.
   */
  workspaceId(): Promise<string | undefined>;
  /** Whether the workspace is known to hold this task. */
  hasTask(taskId: string): Promise<boolean>;
  readonly tokens: Tokens;
  /** Answers that pass through are news of the workspace. */
  readonly capture: ResponseCapture;
  readonly settings: GatewaySettings;
  readonly store: Store;
  readonly logger: Logger;
  /** Notified when a read was requested. */
  readonly outbox: WakeSignal;
  /**
   * Sends through the throttle in the interactive lane. `waiting` ends the wait for a slot, not a request that is out.
   * Throws `aborted` when no slot came in time, and what the HTTP client throws.
   */
  pass(request: UpstreamRequest, waiting: AbortSignal): Promise<UpstreamAnswer>;
  /** When a caller that came now would get a slot, epoch milliseconds. */
  nextSlotAt(): number;
}
