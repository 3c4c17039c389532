/** Fields of a log line. Messages are static; variable parts are fields. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The logger of every stage, which pino implements. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Logger;
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

/** Logs the changes of repeated work: when it begins to fail, when the reason changes, and when it succeeds again. */
export function createTransitionLogger(
  logger: Logger,
  level: 'warn' | 'error',
  { failed, again }: { readonly failed: string; readonly again: string },
) {
  let logged: string | undefined;
  return {
    failed(error: unknown) {
      const reason = String(error);
      if (reason === logged) return;
      logged = reason;
      logger[level]({ error }, failed);
    },
    succeeded() {
      if (logged !== undefined) logger.info({}, again);
      logged = undefined;
    },
  };
}

export type Labels = Readonly<Record<string, string>>;

/** Receives the figures of stages. `platform/observe/metrics.ts` declares the names, their help texts and their labels. */
export interface Meter {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, value: number, labels?: Labels): void;
  /** Records a value in the unit of the name: seconds or bytes. */
  observe(name: string, value: number, labels?: Labels): void;
}

export const silentMeter: Meter = { count() {}, gauge() {}, observe() {} };

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

type StepKind = 'commit' | 'request';
type StepEdge = 'before' | 'after';

/**
 * Receives the steps of a running process: the moments before and after each durable commit and each HTTP request. Production
 * passes none. A crash test counts them and ends the process at step n, for every n.
 */
export interface Steps {
  reached(kind: StepKind, edge: StepEdge): void;
}
