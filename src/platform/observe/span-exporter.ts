import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { type Cancel, type Clock, sleep } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import { backoff, type Random } from '../lib/random.ts';
import type { IdentifiedSpan } from './span-tracer.ts';

/** The answer of a collector. */
export interface CollectorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface SpanExporterDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  /** Throws the errors of the HTTP client. */
  readonly send: (spans: readonly IdentifiedSpan[], signal: AbortSignal) => Promise<CollectorAnswer>;
}

/** Sends spans to a collector in batches, with a bounded queue. */
export interface SpanExporter {
  /** Never waits: if too many wait already, the span is dropped. */
  take(span: IdentifiedSpan): void;
  /** Sends the waiting spans once, within the time that the end of the process may take. */
  stop(): Promise<void>;
}

/** Spans that wait, and spans of one request: as many as the specification of a batching processor has. */
const MOST_WAITING = 2_048;
const MOST_AT_ONCE = 512;
/** Milliseconds that a span waits for others. A killed process loses at most as much. */
const GATHER = 1_000;
/** Longest request, and longest flush at the end, milliseconds. */
const LONGEST_REQUEST = 10_000;
const LONGEST_FLUSH = 1_500;
/** Refusals after which a batch is dropped: a collector that is back needs the latest spans. */
const MOST_ATTEMPTS = 5;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;

/** "All other 4xx or 5xx response status codes MUST NOT be retried" (opentelemetry.io/docs/specs/otlp, "Failures"). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export function createSpanExporter(deps: SpanExporterDeps): SpanExporter {
  const { clock, random, logger, meter, send } = deps;
  const stopping = new AbortController();
  /** Aborted when the end cannot wait any longer. */
  const over = new AbortController();
  const waiting: IdentifiedSpan[] = [];
  let running: Promise<void> | undefined;
  let cancelTimer: Cancel | undefined;

  function take(span: IdentifiedSpan): void {
    if (waiting.length >= MOST_WAITING || stopping.signal.aborted) {
      drop(1, 'queue_full');
      return;
    }
    waiting.push(span);
    if (running) return;
    if (waiting.length >= MOST_AT_ONCE) start();
    else cancelTimer ??= clock.after(GATHER, start);
  }

  function start(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    running ??= run().finally(() => {
      running = undefined;
      if (waiting.length > 0 && !stopping.signal.aborted) cancelTimer ??= clock.after(GATHER, start);
    });
  }

  /** Sends until less than a batch waits; the rest is collected further. */
  async function run(): Promise<void> {
    do await deliver(waiting.splice(0, MOST_AT_ONCE));
    while (waiting.length >= MOST_AT_ONCE && !stopping.signal.aborted);
  }

  async function deliver(batch: readonly IdentifiedSpan[]): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const pause = await attemptOnce(batch, attempt);
      if (pause === undefined) return;
      await sleep(clock, pause, stopping.signal);
      if (stopping.signal.aborted) return void waiting.unshift(...batch);
    }
  }

  /** @returns milliseconds until the next try; undefined if the batch is finished */
  async function attemptOnce(batch: readonly IdentifiedSpan[], attempt: number): Promise<number | undefined> {
    const late = new AbortController();
    const cancel = clock.after(LONGEST_REQUEST, () => late.abort());
    try {
      const answer = await send(batch, AbortSignal.any([late.signal, over.signal]));
      if (answer.status === 200) {
        noteRefused(answer.body);
        return undefined;
      }
      const error = new SyncError('server_failed', `the collector answered ${answer.status}`, {
        status: answer.status,
      });
      return failed(batch, error, RETRYABLE.has(answer.status) && attempt + 1 < MOST_ATTEMPTS, () =>
        pauseAfter(attempt, answer.headers['retry-after']),
      );
    } catch (error) {
      return failed(batch, asSyncError(error), attempt + 1 < MOST_ATTEMPTS, () => pauseAfter(attempt));
    } finally {
      cancel();
    }
  }

  function failed(
    batch: readonly IdentifiedSpan[],
    error: SyncError,
    mayRepeat: boolean,
    pause: () => number,
  ): number | undefined {
    logger.warn({ code: error.code, reason: error.message }, 'traces could not be exported');
    if (mayRepeat && !stopping.signal.aborted) return pause();
    drop(batch.length, 'not_exported');
    return undefined;
  }

  function pauseAfter(attempt: number, retryAfter = ''): number {
    const own = backoff(random, attempt, FIRST_PAUSE, LONGEST_PAUSE);
    return /^\d{1,6}$/.test(retryAfter) ? Math.max(own, Math.min(Number(retryAfter) * 1_000, LONGEST_PAUSE)) : own;
  }

  /** A success may report that some spans were refused; those must not be sent again. */
  function noteRefused(body: Buffer): void {
    const { rejectedSpans = 0, errorMessage = '' } = partialSuccessOf(body);
    const refused = Number(rejectedSpans);
    if (!(refused > 0)) return;
    drop(refused, 'refused');
    logger.warn({ reason: String(errorMessage).slice(0, 200) }, 'the collector refused spans');
  }

  function drop(count: number, reason: string): void {
    meter.count('spans_dropped_total', { reason }, count);
  }

  return {
    take,
    async stop() {
      stopping.abort();
      cancelTimer?.();
      const cancel = clock.after(LONGEST_FLUSH, () => over.abort());
      await running;
      while (waiting.length > 0 && !over.signal.aborted)
        await attemptOnce(waiting.splice(0, MOST_AT_ONCE), MOST_ATTEMPTS);
      cancel();
      if (waiting.length > 0) drop(waiting.length, 'not_exported');
    },
  };
}

interface PartialSuccess {
  readonly rejectedSpans?: unknown;
  readonly errorMessage?: unknown;
}

function partialSuccessOf(body: Buffer): PartialSuccess {
  try {
    return (JSON.parse(body.toString()) as { partialSuccess?: PartialSuccess } | null)?.partialSuccess ?? {};
  } catch {
    return {};
  }
}
