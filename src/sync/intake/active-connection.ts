import type { Connection, Connector, Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Schedule } from '../../platform/lib/scheduler.ts';
import type { StoredBody } from '../../store/bodies.ts';
import type { NameBook } from './name-book.ts';

/** A configured connection, ready for use. The composition root builds these. */
export interface ActiveConnection {
  readonly name: string;
  readonly connector: Connector<unknown>;
  /** Already parsed by `connector.options`. */
  readonly options: unknown;
  readonly connection: Connection;
  /** What the names in its configuration lead to. Absent if it has no names. */
  readonly names?: NameBook;
  /** Live webhook secrets. Without one the connection takes no webhooks. */
  readonly secrets: readonly string[];
  readonly schedule: Schedule;
  /** When everything that exists is listed. */
  readonly sweep: Schedule;
  /** Where its webhooks come in, from outside; absent where it takes none or nobody said where the daemon is. */
  readonly webhookUrl?: string;
  /** What `connector.translate` makes of a large body, off the main thread. Absent: nothing large is expected. */
  translateAside?(delivery: Pick<Delivery, 'source' | 'event'> & { readonly stored: StoredBody }): Promise<Translation>;
}
