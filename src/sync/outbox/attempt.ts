import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { Store } from '../../store/database.ts';
import type { Breaker } from './breaker.ts';
import { OPTIONAL_READS, type Prepared } from './prepare.ts';
import { type Ended, requestSpans, sendName } from './request-spans.ts';
import { send } from './send.ts';
import type { Client, Slot, Slots } from './send-context.ts';
import { type Failure, isCredentialRefused, isTheirWord, type SettleContext, settle, settleFailure } from './settle.ts';

export interface AttemptDeps {
  readonly store: Store;
  readonly throttle: Pick<Slots, 'isHalted'>;
  readonly client: Client;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  readonly breaker: Breaker;
  readonly settleContext: () => SettleContext;
  /** The workspace was read once. */
  readonly mayWrite: () => boolean;
  /** Repeats what the database does not take at present. */
  readonly retryUntilCommitted: (work: () => Promise<void>) => Promise<void>;
  readonly onTrouble?: (trouble: SyncError | undefined) => void;
  readonly onLag?: (milliseconds: number) => void;
}

/** Log levels of failed attempts. A settled one is an answer too: status and check report what it means. */
const LEVELS: Readonly<Partial<Record<Failure, 'error' | 'info'>>> = { held: 'error', settled: 'info' };

/** Sends one prepared request and settles it. Never rejects: what cannot be settled now is found in flight at the next start. */
export type Attempt = (prepared: Prepared, slot: Slot) => Promise<void>;

export function createAttempt(deps: AttemptDeps): Attempt {
  const { store, throttle, clock, logger, meter, breaker, tracer } = deps;
  const { workspace } = store.query;
  /** The first read of the tasks was refused. Answers to other requests do not end that trouble: nothing is written before it. */
  let isFirstReadRefused = false;

  async function attempt(prepared: Prepared, slot: Slot): Promise<void> {
    const { action, entity } = prepared;
    try {
      const traceparent = tracer?.traceparent(sendName(prepared, workspace));
      const answer = await send(deps.client, prepared, { slot, traceparent });
      const answeredAt = clock.now();
      breaker.passed(entity);
      logger.info({ action, entity, status: answer.status, deliveries: deliveriesOf(prepared) }, 'request answered');
      await deps.retryUntilCommitted(() => succeed(prepared, slot, answer.status, answer.body));
      tellSpans(prepared, { answeredAt, outcome: 'answered', status: answer.status });
      if (action === 'read-tasks') isFirstReadRefused = false;
      tellEnd();
    } catch (thrown) {
      const error = asSyncError(thrown);
      const answeredAt = clock.now();
      const gotThrough = note(prepared, error);
      await deps.retryUntilCommitted(async () => {
        const outcome = await fail(prepared, slot, error);
        tellSpans(prepared, { answeredAt, outcome, status: error.status, error: error.code });
      });
      if (gotThrough) tellEnd();
    } finally {
      // It may have been given up before the database took the end of it: the throttle must not wait for that at its own end.
      slot.leave();
    }
  }

  async function succeed(prepared: Prepared, slot: Slot, status: number, body: unknown): Promise<void> {
    const received = await store.commit(async (transaction) => {
      await slot.complete({ status, key: null }, transaction);
      return settle(transaction, prepared, body, { ...deps.settleContext(), status });
    });
    meter.count('workspace_requests_total', { route: prepared.action, status: String(status) });
    for (const at of received) {
      const lag = Math.max(0, clock.now() - at);
      meter.observe('sync_lag_seconds', lag / 1_000);
      deps.onLag?.(lag);
    }
  }

  function tellSpans(prepared: Prepared, end: Omit<Ended, 'settledAt'>): void {
    if (!tracer) return;
    for (const span of requestSpans(prepared, workspace, { ...end, settledAt: clock.now() })) tracer.record(span);
  }

  async function fail(prepared: Prepared, slot: Slot, error: SyncError): Promise<Failure> {
    const { action, entity } = prepared;
    const { status, retryAfter } = error;
    const answer = status === undefined ? undefined : { status, retryAfter, key: keyOf(prepared, error) };
    const failure = await store.commit(async (transaction) => {
      await slot.complete(answer, transaction);
      const judgement = { outage: breaker.open, atFault: breaker.isAtFault(entity) };
      return settleFailure(transaction, prepared, error, { ...deps.settleContext(), ...judgement });
    });
    meter.count('workspace_requests_total', { route: action, status: String(status ?? error.code) });
    const about = { action, entity, deliveries: deliveriesOf(prepared) };
    logger[LEVELS[failure] ?? 'warn']({ ...about, error, outcome: failure }, 'request failed');
    return failure;
  }

  /** An answer to a request that started before our key was refused says nothing of the key. */
  function tellEnd(): void {
    const waitsForTasks = isFirstReadRefused && !deps.mayWrite();
    if (!throttle.isHalted() && !waitsForTasks) deps.onTrouble?.(undefined);
  }

  /**
   * Only what the workspace itself said proves that it is there: a proxy in between answers what it likes.
   *
   * @returns whether the request got through to the workspace, and our key was accepted
   */
  function note(prepared: Prepared, error: SyncError): boolean {
    const isRefused = isCredentialRefused(prepared, error);
    const gotThrough = !isRefused && (error.status === 429 || isTheirWord(error));
    if (gotThrough) breaker.passed(prepared.entity);
    else if (!isRefused) breaker.failed(prepared.entity);
    const isFirstRead = !deps.mayWrite() && prepared.action === 'read-tasks' && error.status !== 429;
    const isOutage = breaker.failing && !isOptional(prepared);
    isFirstReadRefused ||= isFirstRead;
    if (isRefused || isOutage || isFirstRead) deps.onTrouble?.(error);
    return gotThrough;
  }

  return attempt;
}

/** Their numbers, so that the log tells what became of each. */
function deliveriesOf({ trace }: Prepared): readonly number[] {
  return trace.deliveries;
}

/** What a failed request says about our key. A proxy in front of the workspace answers without checking it. */
function keyOf(
  prepared: Prepared,
  error: SyncError,
): { readonly code: ErrorCode; readonly reason: string } | null | undefined {
  if (isCredentialRefused(prepared, error)) return { code: error.code, reason: 'the workspace refused the key' };
  return error.status === 429 || isTheirWord(error) ? null : undefined;
}

/** Other work goes on without what this reads: alone, its failures block nothing. */
function isOptional({ action }: Prepared): boolean {
  return action === 'read-pull-requests' || action in OPTIONAL_READS;
}
