import type { Action, RequestOutcome } from '../../model/change.ts';
import { DECISION, decisionOf, traceOf } from '../../model/delivery.ts';
import type { Span, SpanName } from '../../platform/lib/tracer.ts';
import type { addRequest } from '../../store/requests.ts';
import { ROUTES, type RouteName } from '../../workspace-api/contract.ts';
import type { PreparedRequest } from './request.ts';

/** The end of a request, for its row in the history. */
interface RequestEnd {
  /** Epoch milliseconds. */
  readonly now: number;
  readonly outcome: RequestOutcome;
  /** Status of the answer; absent if none came. */
  readonly status?: number;
  /** Code and message of the failure. */
  readonly error?: string;
  /** The id under which the answer was appended to the inbox. */
  readonly answer?: string;
}

/**
 * Returns the row of the history for a finished request: its entity, its deliveries, and the time of each step.
 * A request in flight has no row, because the state of its change shows it.
 */
export function historyRow(
  prepared: PreparedRequest,
  { now, outcome, status, error, answer }: RequestEnd,
): Parameters<typeof addRequest>[1] {
  const { entity, kind, action, lane, taskId, sentAt, attempts, trace } = prepared;
  return {
    entity,
    kind,
    action,
    lane,
    outcome,
    task_id: taskId,
    item_key: trace.itemKey,
    since: trace.since,
    due: trace.due,
    asked_at: trace.askedAt,
    slot_at: trace.slotAt,
    sent_at: sentAt,
    completed_at: now,
    status: status ?? null,
    error: error ?? null,
    attempt: attempts + 1,
    answer: answer ?? null,
    deliveries: JSON.stringify(trace.deliveries),
  };
}

/** The end of a request, for its spans. Epoch milliseconds. */
export interface SpanEnd {
  /** When the answer or the failure came. */
  readonly answeredAt: number;
  /** When it was stored. */
  readonly settledAt: number;
  readonly outcome: RequestOutcome;
  readonly status?: number;
  /** Code of the failure. */
  readonly error?: string;
}

/**
 * Returns the spans of a finished request: the wait for a slot, the sending and the settling, below one parent.
 * They belong to the trace of the first delivery that the request settles, and link to the decisions about the others.
 * A request without deliveries is a trace of its own.
 *
 * @param workspace the number of the workspace
 */
export function requestSpans(prepared: PreparedRequest, workspace: number, end: SpanEnd): readonly Span[] {
  const { trace, sentAt, action, lane, kind, attempts } = prepared;
  const { answeredAt, settledAt, outcome, status, error } = end;
  const [first, ...others] = trace.deliveries;
  const of = requestSpanName(prepared, workspace);
  const child = (span: string) => ({ of: { trace: of.trace, span: `${of.span} ${span}` }, parent: of.span });
  const { method, path } = ROUTES[routeOf(prepared)];
  const common = { 'worksync.action': action, 'worksync.lane': lane, 'worksync.attempt': attempts + 1 };
  return [
    {
      of,
      name: 'request',
      kind: 'internal',
      from: trace.askedAt,
      to: settledAt,
      error,
      parent: first === undefined ? undefined : DECISION,
      links: others.map(decisionOf),
      attributes: {
        ...common,
        'worksync.kind': kind,
        'worksync.outcome': outcome,
        'worksync.item': trace.itemKey ?? undefined,
        'worksync.deliveries': trace.deliveries.length,
      },
    },
    {
      ...child('slot'),
      name: 'wait for slot',
      kind: 'internal',
      from: trace.askedAt,
      to: trace.slotAt,
      attributes: common,
    },
    {
      parent: of.span,
      of: sendSpanName(prepared, workspace),
      name: 'send',
      kind: 'client',
      from: sentAt,
      to: answeredAt,
      error,
      attributes: {
        ...common,
        'http.request.method': method,
        'url.template': path,
        'http.response.status_code': status,
        'error.type': error,
        'http.request.resend_count': attempts > 0 ? attempts : undefined,
      },
    },
    { ...child('settle'), name: 'settle', kind: 'internal', from: answeredAt, to: settledAt, attributes: common },
  ];
}

/** Returns the name of the span that the workspace may use as the parent of its own spans. */
export function sendSpanName(prepared: PreparedRequest, workspace: number): SpanName {
  const { trace, span } = requestSpanName(prepared, workspace);
  return { trace, span: `${span} send` };
}

function requestSpanName({ trace, entity, sentAt }: PreparedRequest, workspace: number): SpanName {
  const span = `request ${workspace} ${entity} ${sentAt}`;
  const [first] = trace.deliveries;
  return { trace: first === undefined ? span : traceOf(first), span };
}

const ROUTE_OF: Readonly<Record<Exclude<Action, 'create-task'>, RouteName>> = {
  'read-tasks': 'listTasks',
  'read-task': 'getTask',
  'read-pull-requests': 'listPullRequestRecords',
  'read-records': 'listPullRequestRecords',
  'read-links': 'listWorkItems',
  'read-document': 'getDocument',
  'attach-document': 'attachDocument',
  'record-pull-request': 'recordPullRequest',
  'add-link': 'addWorkItem',
  'update-task': 'updateTask',
  'remove-link': 'removeWorkItem',
};

function routeOf({ action, body }: PreparedRequest): RouteName {
  if (action !== 'create-task') return ROUTE_OF[action];
  return body['kind'] === 'idea' ? 'createIdea' : 'createBug';
}
