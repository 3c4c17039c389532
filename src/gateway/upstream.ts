import type { WakeSignal } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/telemetry.ts';
import type { Store } from '../store/workspace-scope.ts';
import type { ResponseCapture } from '../workspace-api/capture-responses.ts';
import type { PassedAnswer, PassedRequest } from '../workspace-api/typed-client.ts';
import type { Tokens } from './token-book.ts';

interface GatewaySettings {
  /** Milliseconds that a read counts as fresh; 0: every read goes to the workspace. */
  readonly freshFor: number;
  /** Milliseconds that a caller waits for a quota slot before it gets 429. */
  readonly longestWait: number;
  /**
   * Prefix of the workspace's API keys: the gateway remembers only such credentials, because an OAuth token belongs to a person.
   */
  readonly keyPrefix: string;
  /** Name of the header with the version of the API, in lower case. */
  readonly versionHeader: string;
}

/** The part of one workspace that the gateway uses. */
export interface Upstream {
  readonly name: string;
  /**
   * Returns the configured id of the workspace, or the one that the workspace reported to the daemon's key; undefined until then.
   * A caller that names it in a path and is not refused belongs to this workspace; `current` may be another key's own one.
   */
  workspaceId(): Promise<string | undefined>;
  /** Whether the task is known to be in the workspace. */
  hasTask(taskId: string): Promise<boolean>;
  readonly tokens: Tokens;
  /** Captures changes from the answers that are forwarded. */
  readonly capture: ResponseCapture;
  readonly settings: GatewaySettings;
  readonly store: Store;
  readonly logger: Logger;
  /** Notified when a read was requested. */
  readonly outbox: WakeSignal;
  /**
   * Sends through the throttle in the interactive lane. `waiting` ends the wait for a slot, but not a request in flight. Throws
   * `aborted` if no slot came in time, and the errors of the HTTP client.
   */
  pass(request: PassedRequest, waiting: AbortSignal): Promise<PassedAnswer>;
  /** Returns when a new caller would get a slot, epoch milliseconds. */
  nextSlotAt(): number;
}
