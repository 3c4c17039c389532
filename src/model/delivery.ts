/**
 * A delivery is one received message, unchanged.
 *
 * States: `pending` → one of
 *   `applied`      its content was applied, or was already known;
 *   `superseded`   newer data was already known;
 *   `ignored`      verified, understood and not relevant; `reason` says why;
 *   `quarantined`  could not be read or applied; kept and shown in `status`.
 * Every delivery answered with 2xx reaches one of the four. Only reconcile moves a delivery out of `pending`. A person who
 * dismisses a quarantined delivery makes it `ignored`.
 *
 * Back to `pending`: a quarantined delivery when it is repeated, when a person retries it, or when a new version retries
 * those that exceeded their budget. An `applied`, `superseded` or `ignored` one when a person replays it.
 */
export type DeliveryState = (typeof DELIVERY_STATES)[number];
export const DELIVERY_STATES = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;

/**
 * The origin of a delivery: a webhook request, a poll page, a page of a backfill that a person requested, a fetched
 * object, an answer of the workspace, a webhook of the workspace.
 */
export type DeliveryOrigin = (typeof DELIVERY_SOURCES)[number];
export const DELIVERY_SOURCES = ['webhook', 'poll', 'backfill', 'fetch', 'answer', 'workspace'] as const;

export interface Delivery {
  readonly id: number;
  /** Name of the connection; `workspace` for a message of the workspace itself. */
  readonly connection: string;
  readonly source: DeliveryOrigin;
  /** The vendor's event name; for polls and fetches the connector's own name of the shape. */
  readonly event: string;
  /** The bytes as received. */
  readonly body: Uint8Array;
  /** Wall clock at the commit, epoch milliseconds. */
  readonly receivedAt: number;
}

/** Name of the first span in the trace of a delivery: how it was received. */
export const BEGIN = 'begin';
/** Name of the span for the decision of reconcile. */
export const DECISION = 'reconcile';

/** The name of a delivery's trace. Deliveries are numbered over all workspaces. */
export function traceOf(delivery: number): string {
  return `delivery ${delivery}`;
}

export function beginOf(delivery: number) {
  return { trace: traceOf(delivery), span: BEGIN };
}

export function decisionOf(delivery: number) {
  return { trace: traceOf(delivery), span: DECISION };
}

/**
 * The position of an answer in a list of the workspace that is read page by page.
 * Only a list that is known to be complete proves that something is absent.
 */
export interface ListPage {
  /** When the first page was requested, epoch milliseconds. */
  readonly began: number;
  /** No further page follows. */
  readonly isEnd: boolean;
  /** Nothing was left out between the first page and this end. */
  readonly isComplete: boolean;
}

/** Lengths at which servers cut lists without a sign of it. */
const USUAL_LIMITS: ReadonlySet<number> = new Set([20, 25, 50, 100, 200, 500, 1_000]);

/** Whether the server may have cut a list of this length. `isLast` is null if the answer does not say so itself. */
export function mayBeCut(length: number, isLast: boolean | null): boolean {
  return isLast === null && USUAL_LIMITS.has(length);
}
