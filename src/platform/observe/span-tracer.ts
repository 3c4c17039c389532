// Design: src/decisions/tracing.md

import { hash } from 'node:crypto';
import type { Span, SpanAttributes, SpanName, Tracer } from '../lib/tracer.ts';

/** A span with the ids by which everybody else knows it. */
export interface IdentifiedSpan extends Omit<Span, 'of' | 'parent' | 'links'> {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly links: readonly Pick<IdentifiedSpan, 'traceId' | 'spanId'>[];
  readonly droppedLinks: number;
}

export interface SpanTracerOptions {
  /** Tells its traces from those of every other installation. */
  readonly installation: string;
  /** Which part of the traces is recorded, 0 to 1: whole traces, chosen by their id. */
  readonly ratio: number;
  /** Requests carry a `traceparent`. */
  readonly propagates: boolean;
  readonly take: (span: IdentifiedSpan) => void;
}

/** As many as the specification lets a span have. */
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
