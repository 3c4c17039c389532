import type { RequestOutcome } from '../../model/change.ts';
import type { addRequest } from '../../store/requests.ts';
import type { Prepared } from './prepare.ts';

/** How a request ended. */
interface End {
  readonly now: number;
  readonly outcome: RequestOutcome;
  /** Of its answer; absent where none came. */
  readonly status?: number;
  /** Code and message of its failure. */
  readonly error?: string;
  /** The id under which its answer went into the inbox. */
  readonly answer?: string;
}

/**
 * The row of the history for a request that has ended: what was sent for which entity, on behalf of which deliveries, and when
 * it took each step. A request that is in flight has none: its change says so.
 */
export function ended(
  prepared: Prepared,
  { now, outcome, status, error, answer }: End,
): Parameters<typeof addRequest>[1] {
  const { entity, kind, action, lane, taskId, sentAt, attempts, trace } = prepared;
  return {
    ...{ entity, kind, action, lane, outcome, task_id: taskId, item_key: trace.itemKey },
    ...{ since: trace.since, due: trace.due },
    ...{ asked_at: trace.askedAt, slot_at: trace.slotAt, sent_at: sentAt, completed_at: now },
    ...{ status: status ?? null, error: error ?? null, attempt: attempts + 1, answer: answer ?? null },
    deliveries: JSON.stringify(trace.deliveries),
  };
}
