/**
 * The subject of a span. Ids are derived from it, so another process can name a span that this one recorded, and nothing about
 * traces is stored.
 */
export interface SpanName {
  /** Spans with the same value are one trace. */
  readonly trace: string;
  /** Unique within its trace. */
  readonly span: string;
}

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** One operation that has ended. */
export interface Span {
  readonly of: SpanName;
  /** Another span of the same trace; absent: this one begins the trace. */
  readonly parent?: string;
  /** Other subjects that it was done for. */
  readonly links?: readonly SpanName[];
  /** One of few names: variable parts are attributes. */
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** Without secrets, bodies and titles. Undefined ones are left out. */
  readonly attributes: SpanAttributes;
  /** The reason of a failure; absent: it succeeded. */
  readonly error?: string;
}

/** Receives the spans of stages. A stage without one does no work for it: `tracer?.record(…)` then builds no span. */
export interface Tracer {
  /** Never waits, and never throws. */
  record(span: Span): void;
  /** Returns the value of a W3C `traceparent` header; undefined if requests must not carry one. */
  traceparent(of: SpanName): string | undefined;
  /** Returns a tracer that adds these attributes to each span. */
  child(attributes: SpanAttributes): Tracer;
}
