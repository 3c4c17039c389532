import type { Connection, Connector, Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Item } from '../../model/item.ts';
import type { ConnectionConfig } from '../../platform/config/schema.ts';
import type { Schedule } from '../../platform/lib/scheduler.ts';
import type { StoredBody } from '../../store/deliveries/inbox.ts';
import type { WakeSignals, WorkspaceContext } from '../../store/workspace-context.ts';
import type { NameBindings } from './name-bindings.ts';
import type { Pauses } from './pauses.ts';

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

/** The context that the stages of intake share. */
export interface IntakeContext extends WorkspaceContext, WakeSignals {
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
}
