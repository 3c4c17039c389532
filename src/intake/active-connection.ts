import type { Connection, Connector } from '../connectors/connector.ts';

/** When something is done again. Times of a cron expression are those of the process's time zone. */
export type PollSchedule = { readonly everyMs: number } | { readonly cron: string } | 'off';

/** A configured connection, ready for use. The composition root builds these. */
export interface ActiveConnection {
  readonly name: string;
  readonly connector: Connector<unknown>;
  /** Already parsed by `connector.options`. */
  readonly options: unknown;
  readonly connection: Connection;
  /** Live webhook secrets. Without one the connection takes no webhooks. */
  readonly secrets: readonly string[];
  readonly schedule: PollSchedule;
  /** When everything that exists is listed. */
  readonly sweep: PollSchedule;
  /** Where its webhooks come in, from outside; absent where it takes none or nobody said where the daemon is. */
  readonly webhookUrl?: string;
}
