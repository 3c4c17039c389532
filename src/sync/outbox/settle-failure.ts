import { settlement } from '../../model/change.ts';
import { type SyncError, wasSent } from '../../model/errors.ts';
import { backoff, type Random } from '../../platform/lib/clock.ts';
import { findEntity } from '../../store/changes/entities.ts';
import { updateChange } from '../../store/changes/outbox-rows.ts';
import { addRequest } from '../../store/changes/requests.ts';
import { appendAnswer } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { isCredentialRefused, isWorkspaceRefusal, PROBE_EVERY } from './breaker.ts';
import { MAX_BLOCK } from './claim.ts';
import {
  againAfterTaskList,
  errorText,
  type FailureOutcome,
  failuresBefore,
  holdUnlessChanged,
  isConflict,
  isLastingClientError,
  isOutcomeUnknown,
  MAX_ATTEMPTS,
  type Settle,
  settleRefusal,
} from './refusals.ts';
import { historyRow, type PreparedRequest } from './request.ts';
import { awaitTaskList, pendingAgain, type SettleContext } from './settle.ts';

/** Settles a failed request: its change is pending again, held, settled by the refusal, or its outcome is unknown. */
export const settleFailure: Settle<FailureOutcome> = async (query, prepared, error, context) => {
  const outcome = await settleChange(query, prepared, error, context);
  const { now } = context;
  await addRequest(query, historyRow(prepared, { now, status: error.status, outcome, error: errorText(error) }));
  // Evaluations of a task have no effect while its update is in flight.
  const isRepeatedUpdate = prepared.kind === 'task_update' && outcome === 'again';
  if (outcome === 'held' || isRepeatedUpdate) await reevaluateItem(query, prepared.entity, context);
  return outcome;
};

const settleChange: Settle<FailureOutcome> = async (query, prepared, error, context) => {
  const text = errorText(error);
  const refusal = await settleRefusal(query, prepared, error, context);
  if (refusal !== undefined) return refusal;
  if (isOutcomeUnknown(error) && settlement(prepared.kind) === 'list')
    return awaitTaskList(query, prepared, text, context);
  if (error.code === 'forbidden' && !isCredentialRefused(prepared, error)) {
    // Our key lacks a right, for this request or for all: the list of tasks shows which.
    const isCertain = prepared.isChecked && prepared.kind !== 'read';
    return isCertain ? holdUnlessChanged(query, prepared, text) : againAfterTaskList(query, prepared, error, context);
  }
  if (error.code === 'workspace_full') return retryLater(query, prepared, error, context);
  if (error.verdict === 'wait-until') {
    // The throttle holds back every request until `pausedUntil`, so the change itself need not wait. It has not failed.
    await updateChange(query, prepared.entity, { ...pendingAgain(prepared), not_before: context.now, error: text });
    return 'again';
  }
  if (isHeldAtOnce(prepared, error)) return holdUnlessChanged(query, prepared, text);
  return retryLater(query, prepared, error, context);
};

/** Requests a new evaluation after a change was held or failed: of its task, or of its item, whose notice may wait for the change. */
async function reevaluateItem(query: Scope, entity: string, { now, random }: SettleContext): Promise<void> {
  const row = await findEntity(query, entity);
  const name = row?.kind === 'task_update' ? entity : row?.item_key;
  if (!name) return;
  const answer = { action: 'look-again', entity: name, sentAt: now, body: null } as const;
  await appendAnswer(query, answer, random.uuid(), now);
}

/**
 * Whether the change is held at once: the workspace itself refused the content of the write, or the write cannot be sent
 * at all. A read is always repeated, because other changes depend on it and it has no content that could be refused.
 * A conflict is repeated too, because it may end by itself.
 */
function isHeldAtOnce(prepared: PreparedRequest, error: SyncError): boolean {
  if (prepared.kind === 'read' || error.verdict !== 'never' || isConflict(error)) return false;
  const isNeverSent = error.code === 'refused' && error.status === undefined;
  return isNeverSent || isWorkspaceRefusal(error);
}

/** The longest pause of a write that may be at fault, and so its longest delay after writes succeed again. */
const LONGEST_PAUSE_MS = 300_000;

/** Fewer attempts than this are repeated within seconds. */
const FAST_ATTEMPTS = 3;

/**
 * Repeats a request after a pause. Holds the change instead if it failed `MAX_ATTEMPTS` times and is at fault: the
 * server refuses it for good, or other writes succeeded meanwhile.
 */
const retryLater: Settle<FailureOutcome> = async (query, prepared, error, context) => {
  const { outage = false, atFault = false, now } = context;
  // The workspace stored nothing because of its own state, although reads succeed. Then no change is ever held.
  const isBlameless = error.code === 'workspace_full';
  const isSent = !isBlameless && wasSent(error);
  const isRead = prepared.action === 'read-task';
  const isUnknown = prepared.open || (!isBlameless && !isRead && isOutcomeUnknown(error));
  const attempts = attemptsAfter(failuresBefore(prepared, error), isSent, outage && !atFault);
  const isAtFault = isSent && (atFault || isLastingClientError(error));
  const columns = pendingAgain(prepared, isUnknown);
  const text = errorText(error);
  if (attempts >= MAX_ATTEMPTS && isAtFault && prepared.kind !== 'read') {
    await updateChange(query, prepared.entity, { ...columns, state: 'held', attempts, error: text });
    return 'held';
  }
  const notBefore = now + retryPause(prepared, attempts, context);
  await updateChange(query, prepared.entity, { ...columns, attempts, not_before: notBefore, error: text });
  return 'again';
};

/** Attempts that were not sent lengthen the pauses, but never bring a change nearer to being held. */
function attemptsAfter(attempts: number, isSent: boolean, isOutage: boolean): number {
  if (isOutage) return attempts;
  return isSent ? attempts + 1 : Math.max(attempts, Math.min(attempts + 1, FAST_ATTEMPTS));
}

/** Milliseconds. During an outage the loop of the outbox makes the pauses itself. */
function retryPause({ kind, action }: PreparedRequest, attempts: number, context: SettleContext): number {
  const { outage = false, atFault = false, othersAnswered, random } = context;
  const pause = outage ? 0 : pauseAfter(attempts, random);
  if (action === 'read-pull-requests') return Math.max(pause, growingPause(attempts));
  // The workspace answers, but has carried out no write since: perhaps it carries out none at all.
  const isDoubtful = kind !== 'read' && othersAnswered === true && !atFault && attempts > MAX_ATTEMPTS;
  return isDoubtful ? Math.min(LONGEST_PAUSE_MS, pause * 2 ** Math.min(attempts - MAX_ATTEMPTS, 10)) : pause;
}

/** Seconds at first, then as long as in an outage, because it may be one. */
function pauseAfter(attempts: number, random: Random): number {
  return attempts < FAST_ATTEMPTS ? backoff(random, attempts, 1_000) : PROBE_EVERY;
}

/** Doubles with each attempt, because no other change waits for the list of records. */
function growingPause(attempts: number): number {
  const doublings = Math.max(0, attempts - FAST_ATTEMPTS);
  return doublings === 0 ? 0 : Math.min(MAX_BLOCK, PROBE_EVERY * 2 ** Math.min(doublings, 10));
}
