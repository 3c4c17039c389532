import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { configText, DAEMON_OPTIONS, daemonOptions } from '../../../../src/platform/config/daemon-options.ts';
import { literalSecrets } from '../../../../src/platform/config/interpolate.ts';
import { secretsOfExport, type TraceExport, traceSettings } from '../../../../src/platform/config/trace-export.ts';
import { parseSchedule, shortestPause } from '../../../../src/platform/config/values.ts';
import { durationText, parseDuration } from '../../../../src/platform/lib/quantities.ts';
import { refusal } from '../../../support/rows/config-files.ts';

const DEFAULTS = { data: 'data', port: 8080, host: '127.0.0.1', logLevel: 'info' };

/** For each option: as a flag, as a variable, and what both mean. */
const VALUES: Readonly<Record<string, readonly [flag: string, env: string, flagMeans: unknown, envMeans: unknown]>> = {
  config: ['a.yaml', 'b.yaml', 'a.yaml', 'b.yaml'],
  data: ['/one', '/two', '/one', '/two'],
  backup: ['/one', '/two', '/one', '/two'],
  store: ['postgres://a/one', 'postgresql://b:1/two?schema=x', 'postgres://a/one', 'postgresql://b:1/two?schema=x'],
  replicaAddress: ['http://a:1/', 'https://b', 'http://a:1', 'https://b'],
  port: ['0', '65535', 0, 65_535],
  host: ['0.0.0.0', '::1', '0.0.0.0', '::1'],
  adminPort: ['9000', '9001', 9000, 9001],
  allowedHosts: ['a.example', 'b.example:8443,[::1]:80', ['a.example'], ['b.example:8443', '[::1]:80']],
  openMetrics: ['false', 'true', false, true],
  insecurePages: ['true', 'false', true, false],
  trustedProxies: ['127.0.0.1', '10.0.0.0/8,fd00::/8', ['127.0.0.1'], ['10.0.0.0/8', 'fd00::/8']],
  publicUrl: ['https://a.example/', 'http://b.example:8443/sync', 'https://a.example', 'http://b.example:8443/sync'],
  logLevel: ['debug', 'silent', 'debug', 'silent'],
  otlpEndpoint: ['http://a:4318/', 'https://b.example/otlp', 'http://a:4318', 'https://b.example/otlp'],
  otlpTracesEndpoint: ['http://a:4318/traces', 'https://b.example/', 'http://a:4318/traces', 'https://b.example'],
  otlpTraceparent: ['true', 'false', true, false],
};

describe.each(DAEMON_OPTIONS)('$flag', ({ key, env: variable }) => {
  const [flag, env, flagMeans, envMeans] = VALUES[key] ?? ['', '', 0, 0];
  test('flag before environment before default; an empty variable is not set', () => {
    expect(daemonOptions({ [key]: flag }, { [variable]: env })[key]).toEqual(flagMeans);
    expect(daemonOptions({}, { [variable]: env })[key]).toEqual(envMeans);
    expect(daemonOptions({}, { [variable]: '' })).toEqual(DEFAULTS);
  });
});

test('a switch needs no value as a flag, and one of two as a variable', () => {
  expect(daemonOptions({ openMetrics: true }, {}).openMetrics).toBe(true);
  expect(() => daemonOptions({}, { WORKSYNC_OPEN_METRICS: 'yes' })).toThrow(
    'WORKSYNC_OPEN_METRICS: expected true or false, got "yes"',
  );
});

test('the text of the configuration comes after the flag for its path and before the variable for it', () => {
  const env = { WORKSYNC_CONFIG: '/config', WORKSYNC_CONFIG_YAML: 'name: one' };
  expect(configText({}, env)).toBe('name: one');
  expect(configText({ config: 'one.yaml' }, env)).toBeUndefined();
  expect(configText({}, { ...env, WORKSYNC_CONFIG_YAML: '' })).toBeUndefined();
});

describe('problems', () => {
  test.each<[variable: string, expected: string, texts: readonly string[]]>([
    ['WORKSYNC_PORT', 'a port from 0 to 65535', ['65536', '80a', '1e3']],
    [
      'WORKSYNC_PUBLIC_URL',
      'an address that begins with https:// or http://, without query or credentials',
      ['a.example', 'ftp://a.example', 'https://u:p@a.example', 'https://a.example/?q', 'https://a.example/#f'],
    ],
    [
      'WORKSYNC_TRUSTED_PROXIES',
      'IP addresses or CIDR ranges separated by commas',
      ['proxy', '10.0.0.0/33', '10.0.0.0/8/8', '127.0.0.1,', 'fd00::/129'],
    ],
    ['WORKSYNC_HOST', 'an address without a port', ['http://x', '0.0.0.0:80']],
  ])('of %s, which is %s: %j', (variable, expected, texts) => {
    for (const text of texts) {
      const message = `${variable}: expected ${expected}, got "${text}"`;
      expect(refusal(() => daemonOptions({}, { [variable]: text }))).toMatchObject({ code: 'config_invalid', message });
    }
  });
});

describe('the export of traces', () => {
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

  it('names the credentials of the collector, so that no text repeats them', () => {
    const headers = { authorization: 'Bearer abcdefgh', 'x-team': 'my-own-team-key', short: 'true' };
    expect(secretsOfExport({ headers } as unknown as TraceExport)).toEqual([
      'Bearer abcdefgh',
      'abcdefgh',
      'my-own-team-key',
    ]);
  });
});

describe('durations', () => {
  test.each(['', '0s', '5', '-5m', '1.5h', '5 m', '5M', '1h30m', '01m', '5w', '9999999999d'])('%j is none', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });

  test('the text of a duration means the same', () => {
    const ms = fc.integer({ min: 1, max: 999_999_999 });
    fc.assert(
      fc.property(ms, (value) => {
        expect(parseDuration(durationText(value))).toBe(value);
      }),
    );
  });
});

describe('schedules', () => {
  test.each([
    ['10s', { everyMs: 10_000 }],
    ['5m', { everyMs: 300_000 }],
    ['30 */5 * * * MON-FRI', { cron: '30 */5 * * * MON-FRI' }],
  ])('%s', (text, schedule) => {
    expect(parseSchedule(text)).toEqual(schedule);
  });

  test.each(['9s', 'on', '* * * *', '60 * * * *', '* * 0 * *'])('%j is refused', (text) => {
    expect(parseSchedule(text)).toEqual({ problem: expect.any(String) });
  });

  test.each([
    ['90s', 90_000],
    ['* * * * *', 60_000],
    ['7 * * * *', 3_600_000],
    ['*/20 * * * * *', 20_000],
  ])('%s pauses at least %d ms', (text, ms) => {
    const schedule = parseSchedule(text);
    if (schedule === 'off' || 'problem' in schedule) throw new Error('not a schedule');
    expect(shortestPause(schedule)).toBe(ms);
  });
});

test('texts under keys that are called like secrets are secrets', () => {
  const data = {
    workspace: { url: 'https://x.example', apiKey: 'key-key' },
    connections: {
      'token-test': { connector: 'forge', token: 'tok-tok', webhookSecrets: ['one-one', 'two-two'] },
      app: { app: { id: 'app-id-1', privateKey: 'pem-pem' }, password: 12, accessToken: 'short' },
    },
  };
  expect(literalSecrets(data)).toEqual(['key-key', 'tok-tok', 'one-one', 'two-two', 'pem-pem']);
});
