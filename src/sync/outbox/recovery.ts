import { settlement } from '../../model/change.ts';
import { changesInFlight, updateChange } from '../../store/changes/outbox-rows.ts';
import { addRequest } from '../../store/changes/requests.ts';
import { clampFutureTimestamps } from '../../store/installation/clock-changes.ts';
import { markTasksUnverified } from '../../store/tasks/task-creations.ts';
import { configureLinks, readRecordsRoute, retryRefusedRoutes } from '../../store/workspace/server-capabilities.ts';
import { bindServerFacts } from '../../store/workspace/server-facts.ts';
import { enqueueInitialReads, enqueueTaskListRead } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { apiOverrides } from '../../workspace-api/contract.ts';
import { recordsPullRequests, type WorkspaceContext } from '../workspace-context.ts';
import { historyRow, type PreparedRequest, requestSpans } from './request.ts';
import { awaitTaskList, pendingAgain, type SettleContext, settleContextOf } from './settle.ts';

/**
 * Requeues claims of this process that were committed although the database reported an error.
 * Their requests were never sent.
 *
 * @param isClaimed whether this process sends the request of this entity, and will settle it
 */
export async function requeueUnsent(query: Scope, isClaimed: (entity: string) => boolean): Promise<void> {
  for (const { entity, sent } of await changesInFlight(query)) {
    if (isClaimed(entity)) continue;
    await updateChange(query, entity, { ...pendingAgain(requestIn(sent)), next_since: null });
  }
}

/** Prepares the rows for a new process: settles requests in flight as unknown, and requests the initial reads. */
export async function recoverAtStart(context: WorkspaceContext): Promise<void> {
  const { store, clock, logger, tracer, config } = context;
  const { url, api } = config.workspace;
  const recovered = await store.commit(async (transaction) => {
    const now = clock.now();
    await clampFutureTimestamps(transaction, now);
    // A constant for the embedded service, because its port changes with each start.
    await bindServerFacts(transaction, url ?? 'embedded');
    await retryRefusedRoutes(transaction);
    await configureLinks(transaction, apiOverrides.parse(api ?? {}).links === 'idempotent');
    await enqueueStartReads(transaction, context, now);
    return recover(transaction, settleContextOf(context), context.untouched);
  });
  const now = clock.now();
  for (const { action, entity, trace } of recovered) {
    const fields = { action, item: trace.itemName, entity, deliveries: trace.deliveries };
    logger.info(fields, 'request with unknown outcome found at the start');
  }
  if (!tracer) return;
  const end = { answeredAt: now, settledAt: now, outcome: 'unknown', error: 'outcome_unknown' } as const;
  for (const prepared of recovered)
    for (const span of requestSpans(prepared, store.query.workspace, end)) tracer.record(span);
}

/** Requests the lists that were never read, and the list of tasks if the stored tasks are uncertain. */
async function enqueueStartReads(query: Scope, { config, throttle }: WorkspaceContext, now: number): Promise<void> {
  const { state } = await readRecordsRoute(query);
  await enqueueInitialReads(query, now, recordsPullRequests(config) && state !== 'closed');
  if (!(await markTasksUnverified(query, now))) return;
  await enqueueTaskListRead(query, { now, usedShare: throttle.usedShare(), lane: 'triage', notBefore: 0 });
}

/**
 * Settles the requests that the previous process had in flight: their outcome is unknown. Idempotent requests are
 * repeated; creations wait for a list.
 *
 * @param untouched how long requests of that process may still be in flight, milliseconds
 * @returns the requests
 */
export async function recover(
  query: Scope,
  context: SettleContext,
  untouched = 0,
): Promise<readonly PreparedRequest[]> {
  const { now } = context;
  const arrivedAt = now + untouched;
  const recovered: PreparedRequest[] = [];
  for (const { entity, kind, sent } of await changesInFlight(query)) {
    const prepared = requestIn(sent);
    recovered.push(prepared);
    const error = 'outcome_unknown: the process ended';
    await addRequest(query, historyRow(prepared, { now, outcome: 'unknown', error }));
    if (settlement(kind) === 'list') {
      await awaitTaskList(query, prepared, error, { ...context, now: arrivedAt });
      continue;
    }
    // Reads are repeated at once: that does no harm, and all other changes of a new workspace wait for the first ones.
    const isPostponed = untouched > 0 && kind !== 'read';
    await updateChange(query, entity, {
      ...pendingAgain(prepared, true),
      ...(isPostponed && { not_before: arrivedAt }),
    });
  }
  return recovered;
}

function requestIn(sent: string | null): PreparedRequest {
  return JSON.parse(sent as string) as PreparedRequest;
}
