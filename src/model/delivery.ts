/**
 * A delivery is one thing that came in, as received.
 *
 * States: `pending` → one of
 *   `applied`      its content was applied (or was already known: unchanged is applied);
 *   `superseded`   something newer was already known;
 *   `ignored`      verified, understood and of no interest; `reason` says why;
 *   `quarantined`  could not be read or applied; kept, visible in `status`, pending again when it is repeated.
 * Every delivery answered with 2xx reaches one of the four. Only reconcile moves a delivery out of `pending`.
 */
export type DeliveryState = (typeof DELIVERY_STATES)[number];
export const DELIVERY_STATES = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;

/**
 * Where it came from: a webhook request, a poll page, a page of a backfill that somebody asked for, a fetched object,
 * an answer of the workspace, a webhook of the workspace.
 */
export type DeliverySource = (typeof DELIVERY_SOURCES)[number];
export const DELIVERY_SOURCES = ['webhook', 'poll', 'backfill', 'fetch', 'answer', 'workspace'] as const;

export interface Delivery {
  readonly id: number;
  /** Name of the connection; `workspace` for what the workspace itself said. */
  readonly connection: string;
  readonly source: DeliverySource;
  /** The vendor's event name; for polls and fetches the connector's own name of the shape. */
  readonly event: string;
  /** The bytes as received. */
  readonly body: Uint8Array;
  /** Wall clock at the commit, epoch milliseconds. */
  readonly receivedAt: number;
}
