import { describe, expect, test } from 'vitest';
import {
  addressOfPages,
  configText,
  DAEMON_OPTIONS,
  daemonOptions,
} from '../../../../src/platform/config/daemon-options.ts';
import { refusal } from '../../../support/rows/config-files.ts';

const DEFAULTS = { data: 'data', port: 8080, host: '127.0.0.1', logLevel: 'info' };

/** For each option: as a flag, as a variable, and what both mean. */
const VALUES: Readonly<Record<string, readonly [flag: string, env: string, flagMeans: unknown, envMeans: unknown]>> = {
  config: ['a.yaml', 'b.yaml', 'a.yaml', 'b.yaml'],
  data: ['/one', '/two', '/one', '/two'],
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
  test('of flags and variables, all at once', () => {
    const error = refusal(() => daemonOptions({ port: '-1', data: '' }, { WORKSYNC_LOG_LEVEL: 'loud' }));
    expect(error.code).toBe('usage');
    expect(error.message.split('\n')).toEqual([
      '--data: expected a path or :memory:, with or without a name of a-z, 0-9 and -, got ""',
      '--port: expected a port from 0 to 65535, got "-1"',
      'WORKSYNC_LOG_LEVEL: expected one of debug, info, warn, error, silent, got "loud"',
    ]);
  });

  test.each([
    [{ WORKSYNC_PORT: '65536' }, 'WORKSYNC_PORT: expected a port from 0 to 65535, got "65536"'],
    [{ WORKSYNC_PORT: '80a' }, 'WORKSYNC_PORT: expected a port from 0 to 65535, got "80a"'],
    [{ WORKSYNC_ADMIN_PORT: '1e3' }, 'WORKSYNC_ADMIN_PORT: expected a port from 0 to 65535, got "1e3"'],
    ...['a.example', 'ftp://a.example', 'https://u:p@a.example', 'https://a.example/?q', 'https://a.example/#f'].map(
      (text): [Record<string, string>, string] => [
        { WORKSYNC_PUBLIC_URL: text },
        `WORKSYNC_PUBLIC_URL: expected an address that begins with https:// or http://, without query or credentials, got "${text}"`,
      ],
    ),
    ...['proxy', '10.0.0.0/33', '10.0.0.0/8/8', '127.0.0.1,', 'fd00::/129'].map(
      (text): [Record<string, string>, string] => [
        { WORKSYNC_TRUSTED_PROXIES: text },
        `WORKSYNC_TRUSTED_PROXIES: expected IP addresses or CIDR ranges separated by commas, got "${text}"`,
      ],
    ),
    [{ WORKSYNC_HOST: 'http://x' }, 'WORKSYNC_HOST: expected an address without a port, got "http://x"'],
    [{ WORKSYNC_HOST: '0.0.0.0:80' }, 'WORKSYNC_HOST: expected an address without a port, got "0.0.0.0:80"'],
  ])('of a variable alone: %j', (env, message) => {
    expect(refusal(() => daemonOptions({}, env))).toMatchObject({ code: 'config_invalid', message });
  });
});

test('pages have the public address, unless they have a port of their own', () => {
  const publicUrl = 'https://sync.example.com';
  expect(addressOfPages({ publicUrl }, 'http://127.0.0.1:1')).toBe(publicUrl);
  expect(addressOfPages({ publicUrl, adminPort: 1 }, 'http://127.0.0.1:1')).toBe('http://127.0.0.1:1');
  expect(addressOfPages({}, 'http://127.0.0.1:1')).toBe('http://127.0.0.1:1');
});
