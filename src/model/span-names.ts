/** How traces name what worksync does. A delivery is a trace; so is a request that serves none. */

/** How the delivery came in: the span that begins its trace. */
export const BEGIN = 'begin';
/** What reconcile decided. */
export const DECISION = 'reconcile';

/** Numbers of deliveries count over all workspaces. */
export function traceOf(delivery: number): string {
  return `delivery ${delivery}`;
}

export function beginOf(delivery: number) {
  return { trace: traceOf(delivery), span: BEGIN };
}

export function decisionOf(delivery: number) {
  return { trace: traceOf(delivery), span: DECISION };
}
