import { BEGIN, decisionOf } from '../../model/delivery.ts';
import type { ItemKey } from '../../model/item.ts';
import type { Span } from '../../platform/lib/tracer.ts';
import type { DeliveryOutcome, PendingDelivery } from '../../store/inbox.ts';

interface Decided {
  readonly delivery: PendingDelivery;
  readonly verdict: Omit<DeliveryOutcome, 'id'>;
  /** Those that it changed. */
  readonly items: readonly ItemKey[];
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
}

/** Keys that a span names. */
const MOST_KEYS = 5;

export function decisionSpan({ delivery, verdict, items, from, to }: Decided): Span {
  const { id, connection, source, event, receivedAt, isReplayed } = delivery;
  const { trace, span } = decisionOf(id);
  const { state, reason } = verdict;
  return {
    // A replay decides once more.
    of: { trace, span: isReplayed ? `${span} ${from}` : span },
    ...{ parent: BEGIN, name: 'reconcile', kind: 'internal', from, to },
    error: state === 'quarantined' ? (reason ?? state) : undefined,
    attributes: {
      'worksync.connection': connection,
      'worksync.source': source,
      'worksync.event': event,
      'worksync.delivery': id,
      'worksync.delivery.state': state,
      'worksync.reason': reason,
      'worksync.items.count': items.length,
      'worksync.items': items.slice(0, MOST_KEYS).join(' ') || undefined,
      'worksync.waited_ms': Math.max(0, from - receivedAt),
    },
  };
}
