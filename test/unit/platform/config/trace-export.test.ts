import { expect, it } from 'vitest';
import { daemonOptions } from '../../../../src/platform/config/daemon-options.ts';
import { secretsOfExport, type TraceExport, traceSettings } from '../../../../src/platform/config/trace-export.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };
const read = (env: Readonly<Record<string, string>>) => traceSettings(daemonOptions({}, env), env);

it('exports nothing unless an endpoint is set, or where that is switched off', () => {
  expect(read({ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_HEADERS: 'a=b' })).toEqual({ warnings: [] });
  expect(read({ ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' })).toEqual({ warnings: [] });
  expect(read({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' })).toEqual({ warnings: [] });
});

it('adds the path for traces to the endpoint of all signals, and takes that of traces as it is', () => {
  expect(read(ENDPOINT).traces?.url).toBe('http://collector:4318/v1/traces');
  expect(read({ ...ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/base' }).traces?.url).toBe(
    'https://c/base/v1/traces',
  );
  const both = { ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://c/mine' };
  expect(read(both).traces?.url).toBe('https://c/mine');
});

it('reads headers and attributes as W3C Baggage writes them', () => {
  const { traces, warnings } = read({
    ...ENDPOINT,
    OTEL_EXPORTER_OTLP_HEADERS: 'Api-Key = first%20value , x=1',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x=2',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=ignored,deployment.environment.name=prod%2Ceu',
    OTEL_SERVICE_NAME: 'sync',
  });
  expect(traces?.headers).toEqual({ 'api-key': 'first value', x: '2' });
  expect(traces?.resource).toEqual({ 'service.name': 'sync', 'deployment.environment.name': 'prod,eu' });
  expect(warnings).toEqual([]);
});

it('tells what it cannot use, and never a value, which may be a credential', () => {
  const { traces, warnings } = read({
    ...ENDPOINT,
    OTEL_EXPORTER_OTLP_HEADERS: 'hidden-credential,a=%E0%A4%A,b=line%0Abreak,bad name=1,good=1',
  });
  expect(traces?.headers).toEqual({ good: '1' });
  expect(warnings).toHaveLength(4);
  expect(warnings.join()).not.toContain('hidden');
});

it.each([
  ['always_on', '', 1],
  ['always_off', '', 0],
  ['parentbased_always_on', '', 1],
  ['parentbased_always_off', '0.5', 0],
  ['traceidratio', '0.1', 0.1],
  ['parentbased_traceidratio', '0.1', 0.1],
  ['traceidratio', '', 1],
])('sampler %s, argument "%s"', (sampler, argument, ratio) => {
  const { traces, warnings } = read({ ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument });
  expect(traces?.ratio).toBe(ratio);
  expect(warnings).toEqual([]);
});

it.each([
  ['xray', ''],
  ['traceidratio', '2'],
  ['traceidratio', 'half'],
])('sampler %s, argument "%s": told, and all traces are exported', (sampler, argument) => {
  const { traces, warnings } = read({ ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument });
  expect(traces?.ratio).toBe(1);
  expect(warnings).toHaveLength(1);
});

it('names the credentials of the collector, so that no text repeats them', () => {
  const headers = { authorization: 'Bearer abcdefgh', 'x-team': 'my-own-team-key', short: 'true' };
  expect(secretsOfExport({ headers } as unknown as TraceExport)).toEqual([
    'Bearer abcdefgh',
    'abcdefgh',
    'my-own-team-key',
  ]);
});
