import type { Action, RequestOutcome } from '../../model/change.ts';
import { DECISION, decisionOf, traceOf } from '../../model/delivery.ts';
import type { Span, SpanName } from '../../platform/lib/tracer.ts';
import { ROUTES, type RouteName } from '../../workspace-api/contract.ts';
import type { Prepared } from './prepare.ts';

/** How a request ended. Epoch milliseconds. */
export interface Ended {
  /** When its answer, or its failure, came. */
  readonly answeredAt: number;
  /** When that was stored. */
  readonly settledAt: number;
  readonly outcome: RequestOutcome;
  readonly status?: number;
  /** Code of its failure. */
  readonly error?: string;
}

/**
 * A request in the trace of the first delivery that it serves, with links to the decisions of the others; one that serves none
 * is a trace of its own. Below it: the wait for a slot, the sending, the settling.
 *
 * @param workspace its number
 */
export function requestSpans(prepared: Prepared, workspace: number, ended: Ended): readonly Span[] {
  const { trace: trail, sentAt, action, lane, kind, attempts } = prepared;
  const [first, ...others] = trail?.deliveries ?? [];
  const of = requestName(prepared, workspace);
  const part = (span: string) => ({ of: { trace: of.trace, span: `${of.span} ${span}` }, parent: of.span });
  const { answeredAt, settledAt, outcome, status, error } = ended;
  const { method, path } = ROUTES[routeOf(prepared)];
  const about = { 'worksync.action': action, 'worksync.lane': lane, 'worksync.attempt': attempts + 1 };
  const from = trail?.askedAt ?? sentAt;
  const slotAt = trail?.slotAt ?? sentAt;
  return [
    {
      ...{ of, name: 'request', kind: 'internal', from, to: settledAt, error },
      parent: first === undefined ? undefined : DECISION,
      links: others.map(decisionOf),
      attributes: {
        ...about,
        'worksync.kind': kind,
        'worksync.outcome': outcome,
        'worksync.item': trail?.itemKey ?? undefined,
        'worksync.deliveries': trail?.deliveries.length ?? 0,
      },
    },
    { ...part('slot'), name: 'wait for slot', kind: 'internal', from, to: slotAt, attributes: about },
    {
      parent: of.span,
      ...{ of: sendName(prepared, workspace), name: 'send', kind: 'client', from: sentAt, to: answeredAt, error },
      attributes: {
        ...about,
        'http.request.method': method,
        'url.template': path,
        'http.response.status_code': status,
        'error.type': error,
        'http.request.resend_count': attempts > 0 ? attempts : undefined,
      },
    },
    { ...part('settle'), name: 'settle', kind: 'internal', from: answeredAt, to: settledAt, attributes: about },
  ];
}

/** The span that the workspace may be told as the parent of its own. */
export function sendName(prepared: Prepared, workspace: number): SpanName {
  const { trace, span } = requestName(prepared, workspace);
  return { trace, span: `${span} send` };
}

function requestName({ trace, entity, sentAt }: Prepared, workspace: number): SpanName {
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
  'remove-link': 'removeWorkItem',
};

function routeOf({ action, body }: Prepared): RouteName {
  if (action !== 'create-task') return ROUTE_OF[action];
  return body['kind'] === 'idea' ? 'createIdea' : 'createBug';
}
