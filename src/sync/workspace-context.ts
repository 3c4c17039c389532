import type { Connection, Connector, Translation } from '../connectors/connector.ts';
import type { Delivery } from '../model/delivery.ts';
import type { SyncError } from '../model/errors.ts';
import type { Item } from '../model/item.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { Schedule } from '../platform/lib/scheduler.ts';
import type { StoredBody } from '../store/deliveries/inbox.ts';
import type { StoreContext, WakeSignals } from '../store/store-context.ts';
import type { SendContext, WorkspaceClient } from '../workspace-api/typed-client.ts';
import type { Collector } from './intake/append.ts';
import type { NameBindings } from './intake/name-bindings.ts';
import type { Pauses } from './intake/pauses.ts';
import type { Breaker } from './outbox/breaker.ts';
import type { Throttle } from './quota/throttle.ts';
import type { ReconcileConnections, Rules } from './reconcile/context.ts';

/** A configured connection, ready for use. The composition root builds these. */
export interface ActiveConnection {
  readonly name: string;
  readonly connector: Connector<unknown>;
  /** Already parsed by `connector.options`. */
  readonly options: unknown;
  readonly connection: Connection;
  /** The vendor's ids of the names in its scope. Absent if its scope has no names. */
  readonly names?: NameBindings;
  /** The kinds of text that worksync writes to the vendor. Absent: none. */
  readonly writeBack?: ConnectionConfig['writeBack'];
  /** Whether the item is in the scope. Absent: every item is. */
  covers?(item: Item): boolean;
  /** Live webhook secrets. Without one, the connection accepts no webhooks. */
  readonly secrets: readonly string[];
  /** Reviews of its pull requests are read by fetches, because rules need them and no webhook reports them. */
  readonly readsReviews?: boolean;
  /** The schedule of polls. */
  readonly schedule: Schedule;
  /** The schedule of complete lists. */
  readonly sweep: Schedule;
  /**
   * The public address of its webhooks. Absent if it accepts none, or the public address of the daemon is not
   * configured.
   */
  readonly webhookUrl?: string;
  /** Runs `connector.translate` for a large body outside the main thread. Absent if no body is large. */
  translateInWorker?(
    delivery: Pick<Delivery, 'source' | 'event'> & { readonly stored: StoredBody },
  ): Promise<Translation>;
}

/** An open workspace, as all its stages take it. */
export interface WorkspaceContext extends StoreContext, WakeSignals {
  readonly config: WorkspaceConfig;
  /** The base address of the workspace API. */
  readonly baseUrl: string;
  /** The version of the program. Another version retries the deliveries that exceeded their budget. */
  readonly version: string;
  readonly throttle: Throttle;
  readonly breaker: Breaker;
  /** Sends without a slot of its own: the transaction that claimed the change has recorded one. */
  readonly outboxClient: WorkspaceClient<SendContext>;
  readonly collector: Collector;
  /** The configured connections, as intake uses them. */
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  /** The configured connections, as reconcile uses them. */
  readonly sources: ReconcileConnections;
  readonly rules: Rules;
  /**
   * For how long requests of the previous process may still arrive, milliseconds. Writes about the same entities wait until then.
   * Absent: its requests cannot be in flight any more.
   */
  readonly untouched?: number | undefined;
  /** Returns the id of the workspace; undefined until the workspace has reported it. */
  workspaceId(): Promise<string | undefined>;
  /** Called with the reason when the workspace cannot be written to, and with undefined when it can again. */
  onTrouble(trouble: SyncError | undefined): void;
  /** Called when a write was sent: caches of the workspace may be stale. */
  onWrite(): void;
  /** Called with each live delivery's lag: from its receipt to the answer of its write, milliseconds. */
  onLag(milliseconds: number): void;
}

/** Whether the pull requests of the connection are recorded in the workspace, if the workspace has a route for records. */
export function isRecorded({ mirror }: Pick<ConnectionConfig, 'mirror'>): boolean {
  return mirror !== 'off';
}

/** Whether any connection records its pull requests in the workspace. */
export function recordsPullRequests({ connections }: WorkspaceConfig): boolean {
  return connections.some(isRecorded);
}
