import type { TraceExport } from '../platform/config/trace-export.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import { createSpanExporter, createSpanTracer, traceRequest } from '../platform/observe/span-exporter.ts';
import type { WorkspaceContext } from '../store/workspace-context.ts';

interface TracingDeps extends Pick<WorkspaceContext, 'clock' | 'random' | 'logger' | 'meter'> {
  readonly traces: TraceExport;
  /** The id of the installation. */
  readonly installation: string;
  readonly version: string;
  readonly scrubber: Pick<Scrubber, 'scrub'>;
  readonly http: HttpClient;
}

/** The export of traces by OTLP. */
export interface Tracing {
  readonly tracer: Tracer;
  /** Sends the spans that are still queued. */
  stop(): Promise<void>;
}

/** Largest answer of a collector, bytes: some words. */
const LARGEST_ANSWER = 64 * 1024;

export function createTracing({ traces, installation, version, scrubber, ...deps }: TracingDeps): Tracing {
  const { url, ratio, propagates } = traces;
  const headers = { ...traces.headers, 'content-type': 'application/json' };
  const instance = { 'service.version': version, 'service.instance.id': deps.random.uuid() };
  const described = { resource: { ...instance, ...traces.resource }, version, scrub: scrubber.scrub };
  const exporter = createSpanExporter({
    ...deps,
    send: (spans, signal) =>
      deps.http.request({
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
    stop: exporter.stop,
  };
}
