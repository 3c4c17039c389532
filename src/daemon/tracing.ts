import type { TraceExport } from '../platform/config/trace-export.ts';
import { createSpanExporter, createSpanTracer, traceRequest } from '../platform/observe/span-exporter.ts';
import type { ProcessContext, ProcessSettings } from './daemon-context.ts';

/** Largest answer of a collector, bytes: some words. */
const LARGEST_ANSWER = 64 * 1024;

/** The export of traces by OTLP. */
export function createTracing(context: ProcessContext & ProcessSettings, traces: TraceExport, installation: string) {
  const { http, random, metrics, version, scrubber } = context;
  const { url, ratio, propagates } = traces;
  const headers = { ...traces.headers, 'content-type': 'application/json' };
  const instance = { 'service.version': version, 'service.instance.id': random.uuid() };
  const described = { resource: { ...instance, ...traces.resource }, version, scrub: scrubber.scrub };
  const exporter = createSpanExporter({
    ...context,
    meter: metrics.meter,
    send: (spans, signal) =>
      http.request({
        method: 'POST',
        url,
        headers,
        signal,
        body: traceRequest(spans, described),
        largestAnswer: LARGEST_ANSWER,
        target: 'otlp',
      }),
  });
  return {
    tracer: createSpanTracer({ installation, ratio, propagates, take: exporter.take }),
    /** Sends the spans that are still queued. */
    stop: exporter.stop,
  };
}
