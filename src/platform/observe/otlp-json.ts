import type { Span, SpanAttributes } from '../lib/tracer.ts';
import type { IdentifiedSpan } from './span-tracer.ts';

/**
 * An `ExportTraceServiceRequest` of OTLP 1, in the JSON encoding of Protobuf: ids in hexadecimal, enums as numbers, 64-bit
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
    ...{ traceId, spanId, parentSpanId, name, kind: KINDS[kind] },
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

/** The number exceeds a double. */
function nanoseconds(milliseconds: number): string {
  return String(BigInt(Math.round(milliseconds * 1_000)) * (NANOSECONDS / 1_000n));
}
