import { beginOf, decisionOf } from '../../model/delivery.ts';
import type { Span } from '../../platform/lib/tracer.ts';
import type { AppendedRow } from '../../store/append-deliveries.ts';

interface CameIn {
  readonly connection: string;
  readonly event: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
}

/**
 * A webhook request that was taken. What its sender says of traces is ignored: a stranger would choose which deliveries are
 * one trace, and which are recorded.
 */
export function receiveSpan({ appended, id }: AppendedRow, came: CameIn & { readonly status: number }): Span {
  const attributes = {
    'http.request.method': 'POST',
    'http.route': '/webhooks/:workspace/:connection',
    'http.response.status_code': came.status,
    ...attributesOf(came, id),
    'worksync.delivery.stored': appended,
  };
  // A repeat has no row, so it is a trace of its own.
  const of = id === undefined ? { trace: `repeat ${came.connection} ${came.from}`, span: 'begin' } : beginOf(id);
  return { of, name: 'receive', kind: 'server', from: came.from, to: came.to, attributes };
}

/** What was read from a vendor: a page, or an object that another delivery named. */
export function readSpan(
  name: 'poll' | 'fetch' | 'backfill',
  { id = 0 }: AppendedRow,
  came: CameIn & { readonly wantedBy?: number },
): Span {
  const links = came.wantedBy === undefined ? [] : [decisionOf(came.wantedBy)];
  const { from, to } = came;
  return { of: beginOf(id), links, name, kind: 'client', from, to, attributes: attributesOf(came, id) };
}

function attributesOf({ connection, event }: CameIn, id: number | undefined) {
  return { 'worksync.connection': connection, 'worksync.event': event, 'worksync.delivery': id };
}
