/**
 * What a span is about, in words that any process would use for it: ids are made of them. So a process that was started later
 * names a span that another one recorded, and nothing about traces is stored.
 */
export interface SpanName {
  /** Spans with the same are one trace. */
  readonly trace: string;
  /** Unique within its trace. */
  readonly span: string;
}

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** One thing that was done, when it is over. */
export interface Span {
  readonly of: SpanName;
  /** Another span of the same trace; absent: it begins the trace. */
  readonly parent?: string;
  /** What else it was done for. */
  readonly links?: readonly SpanName[];
  /** One of few: what varies is an attribute. */
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** Without secrets, bodies and titles. Those that are undefined are left out. */
  readonly attributes: SpanAttributes;
  /** Why it failed; absent: it did not. */
  readonly error?: string;
}

/** Where stages report what they did. A stage without one does nothing for it: `tracer?.record(…)` makes no span then. */
export interface Tracer {
  /** Never waits, and never throws. */
  record(span: Span): void;
  /** The value of a W3C `traceparent` header; undefined where requests shall not carry one. */
  traceparent(of: SpanName): string | undefined;
  /** One that adds these attributes to each span. */
  child(attributes: SpanAttributes): Tracer;
}
