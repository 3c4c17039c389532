import type { DaemonOptions } from './daemon-options.ts';
import type { Environment } from './interpolate.ts';

/** The destination of traces, and their attributes of the process. */
export interface TraceExport {
  readonly url: string;
  /** May hold credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  /** The part of the traces that is recorded, 0 to 1. */
  readonly ratio: number;
  /** Requests to the workspace carry a `traceparent`. */
  readonly propagates: boolean;
}

/** Both are absent if nothing is to be exported. */
export interface TraceSettings {
  readonly traces?: TraceExport;
  /** Settings that cannot be used: by the specification, they are reported and ignored. */
  readonly warnings: readonly string[];
}

/**
 * The variables of the OpenTelemetry specification ("OTLP Exporter Configuration", "General SDK Configuration"): those that
 * have a meaning for traces over OTLP/HTTP. The protocol is always `http/json`.
 */
export function traceSettings(options: DaemonOptions, env: Environment): TraceSettings {
  const { otlpEndpoint, otlpTracesEndpoint, otlpTraceparent = false } = options;
  const url = otlpTracesEndpoint ?? (otlpEndpoint && `${otlpEndpoint}/v1/traces`);
  const isOff = env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none';
  if (url === undefined || isOff) return { warnings: [] };
  const warnings: string[] = [];
  const pairs = (variable: string) => pairsOf(variable, env[variable] ?? '', warnings);
  const named = env['OTEL_SERVICE_NAME'] ? { 'service.name': env['OTEL_SERVICE_NAME'] } : {};
  const headers = { ...pairs('OTEL_EXPORTER_OTLP_HEADERS'), ...pairs('OTEL_EXPORTER_OTLP_TRACES_HEADERS') };
  const traces = {
    url,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    resource: { 'service.name': 'worksync', ...pairs('OTEL_RESOURCE_ATTRIBUTES'), ...named },
    ratio: ratioOf(env, warnings),
    propagates: otlpTraceparent,
  };
  return { traces, warnings };
}

/** Credentials of the collector, whole and without their scheme. A shorter value occurs in ordinary words. */
export function secretsOfExport({ headers }: TraceExport): readonly string[] {
  const values = Object.values(headers).flatMap((value) => [value, ...value.split(' ').slice(1)]);
  return values.filter((value) => value.length >= SHORTEST_SECRET);
}

const SHORTEST_SECRET = 8;
/** RFC 9110: a name is a token, and a value has no control characters. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const VALUE = /^[\t\x20-\x7e\u0080-\uffff]*$/;

/** `name=value,name=value`, percent-encoded, as W3C Baggage writes it. */
function pairsOf(variable: string, text: string, warnings: string[]): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const part of text.split(',').filter((each) => each.trim() !== '')) {
    const at = part.indexOf('=');
    const name = at < 0 ? '' : part.slice(0, at).trim();
    const value = decoded(part.slice(at + 1).trim());
    if (HEADER_NAME.test(name) && value !== undefined && VALUE.test(value)) pairs[name] = value;
    // The value may be a credential.
    else warnings.push(`${variable}: an entry is not name=value and is ignored`);
  }
  return pairs;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** No delivery has a parent in a foreign trace, so samplers that depend on a parent decide like the others. */
function ratioOf(env: Environment, warnings: string[]): number {
  const { OTEL_TRACES_SAMPLER: named = '', OTEL_TRACES_SAMPLER_ARG: argument = '' } = env;
  const sampler = named.replace(/^parentbased_/, '');
  if (sampler === 'always_off') return 0;
  if (sampler === 'traceidratio') {
    const ratio = argument === '' ? 1 : Number(argument);
    if (ratio >= 0 && ratio <= 1) return ratio;
    warnings.push('OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1; all traces are exported');
  } else if (sampler !== '' && sampler !== 'always_on')
    warnings.push(`OTEL_TRACES_SAMPLER: worksync does not have the sampler "${named}"; all traces are exported`);
  return 1;
}
