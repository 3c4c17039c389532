// Design: src/decisions/tracing.md

import { hash } from 'node:crypto';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { backoff, type Cancel, type Clock, type Random, sleep } from '../lib/clock.ts';
import type { Logger, Meter, Span, SpanAttributes, SpanName, Tracer } from '../lib/telemetry.ts';

/** A span with its ids in the trace. */
export interface IdentifiedSpan extends Omit<Span, 'of' | 'parent' | 'links'> {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly links: readonly Pick<IdentifiedSpan, 'traceId' | 'spanId'>[];
  readonly droppedLinks: number;
}

export interface SpanTracerOptions {
  /** Distinguishes its traces from those of other installations. */
  readonly installation: string;
  /** The part of the traces that is recorded, 0 to 1: whole traces, chosen by their id. */
  readonly ratio: number;
  /** Requests carry a `traceparent`. */
  readonly propagates: boolean;
  readonly take: (span: IdentifiedSpan) => void;
}

/** The limit of the specification. */
const MOST_LINKS = 128;

/** Bytes 0 to 15 of a hash are the trace, 8 bytes of another one the span. */
export function createSpanTracer({ installation, ratio, propagates, take }: SpanTracerOptions): Tracer {
  const idOf = (length: number, ...names: readonly string[]) =>
    hash('sha256', [installation, ...names].join('\n'), 'hex').slice(0, length);
  const traceIdOf = (trace: string) => idOf(32, trace);
  const spanIdOf = ({ trace, span }: SpanName) => idOf(16, trace, span);
  const identified = (name: SpanName) => ({ traceId: traceIdOf(name.trace), spanId: spanIdOf(name) });

  function tracer(common: SpanAttributes): Tracer {
    return {
      record({ of, parent, links = [], attributes, ...span }) {
        const ids = identified(of);
        if (!isSampled(ids.traceId, ratio)) return;
        take({
          ...span,
          ...ids,
          attributes: { ...common, ...attributes },
          parentSpanId: parent === undefined ? undefined : spanIdOf({ trace: of.trace, span: parent }),
          links: links.slice(0, MOST_LINKS).map(identified),
          droppedLinks: Math.max(0, links.length - MOST_LINKS),
        });
      },
      traceparent(of) {
        if (!propagates) return undefined;
        const { traceId, spanId } = identified(of);
        return `00-${traceId}-${spanId}-${isSampled(traceId, ratio) ? '01' : '00'}`;
      },
      child: (attributes) => tracer({ ...common, ...attributes }),
    };
  }
  return tracer({});
}

/** The last seven bytes of a trace id are random, as W3C Trace Context has it; every process decides alike. */
function isSampled(traceId: string, ratio: number): boolean {
  return ratio >= 1 || Number.parseInt(traceId.slice(-14), 16) / 2 ** 56 < ratio;
}

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

/** Sends spans to a collector in batches, with a bounded queue. */
export function createSpanExporter({ clock, random, logger, meter, send }: SpanExporterDeps) {
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
    /** Never waits: if too many wait already, the span is dropped. */
    take,
    /** Sends the waiting spans once, within the time that the end of the process may take. */
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

/**
 * The input of an `ExportTraceServiceRequest` of OTLP 1, in the JSON encoding of Protobuf: ids in hexadecimal, enums as numbers, 64-bit
 * integers as decimal strings, names in lowerCamelCase (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding").
 */
export interface TraceRequestInput {
  /** The attributes of the process. */
  readonly resource: SpanAttributes;
  readonly version: string;
  /** Removes secrets. */
  readonly scrub: (text: string) => string;
}

/** Longest text of an attribute, characters. */
const LONGEST_TEXT = 256;

const KINDS: Readonly<Record<Span['kind'], number>> = { internal: 1, server: 2, client: 3 };
const STATUS_ERROR = 2;
const NANOSECONDS = 1_000_000n;

export function traceRequest(
  spans: readonly IdentifiedSpan[],
  { resource, version, scrub }: TraceRequestInput,
): string {
  const text = (value: string) => scrub(value).slice(0, LONGEST_TEXT);
  const scopeSpans = { scope: { name: 'worksync', version }, spans: spans.map((span) => spanJson(span, text)) };
  const resourceSpans = { resource: { attributes: attributesJson(resource, text) }, scopeSpans: [scopeSpans] };
  return JSON.stringify({ resourceSpans: [resourceSpans] });
}

function spanJson(span: IdentifiedSpan, text: (value: string) => string) {
  const { traceId, spanId, parentSpanId, name, kind, from, to, attributes, links, droppedLinks, error } = span;
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(from),
    // A clock that is set back in between must not make a span that no collector accepts.
    endTimeUnixNano: nanoseconds(Math.max(from, to)),
    attributes: attributesJson(attributes, text),
    ...(links.length > 0 ? { links: links.map((link) => ({ traceId: link.traceId, spanId: link.spanId })) } : {}),
    ...(droppedLinks > 0 ? { droppedLinksCount: droppedLinks } : {}),
    ...(error === undefined ? {} : { status: { code: STATUS_ERROR, message: text(error) } }),
  };
}

function attributesJson(attributes: SpanAttributes, text: (value: string) => string) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: valueJson(value, text) }],
  );
}

function valueJson(value: string | number | boolean, text: (value: string) => string) {
  if (typeof value === 'string') return { stringValue: text(value) };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** Returns a text, because the number exceeds a double. */
function nanoseconds(milliseconds: number): string {
  return String(BigInt(Math.round(milliseconds * 1_000)) * (NANOSECONDS / 1_000n));
}
