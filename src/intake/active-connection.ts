import type { Connection, Connector } from '../connectors/connector.ts';

/** When a connection is polled. Times of a cron expression are those of the process's time zone. */
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
}
