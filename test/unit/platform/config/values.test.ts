import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { durationText, parseDuration } from '../../../../src/platform/config/duration.ts';
import { literalSecrets } from '../../../../src/platform/config/literal-secrets.ts';
import { problemLines } from '../../../../src/platform/config/problems.ts';
import { parseSchedule, shortestPause } from '../../../../src/platform/config/schedule.ts';
import { nearest } from '../../../../src/platform/lib/nearest.ts';

describe('durations', () => {
  test.each([
    ['250ms', 250],
    ['90s', 90_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['14d', 1_209_600_000],
  ])('%s is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

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
    ['off', 'off'],
    ['10s', { everyMs: 10_000 }],
    ['5m', { everyMs: 300_000 }],
    ['*/15 * * * *', { cron: '*/15 * * * *' }],
    ['0 0 1,15 jan-jun 7', { cron: '0 0 1,15 jan-jun 7' }],
    ['30 */5 * * * MON-FRI', { cron: '30 */5 * * * MON-FRI' }],
  ])('%s', (text, schedule) => {
    expect(parseSchedule(text)).toEqual(schedule);
  });

  test.each([
    '9s',
    'on',
    '* * * *',
    '* * * * * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
    '* * * * 8',
    '* * * foo *',
    '*/0 * * * *',
    '5-1 * * * *',
    '1,,2 * * * *',
    '1-2-3 * * * *',
  ])('%j is refused', (text) => {
    expect(parseSchedule(text)).toEqual({ problem: expect.any(String) });
  });

  test.each([
    ['90s', 90_000],
    ['* * * * *', 60_000],
    ['*/15 * * * *', 900_000],
    ['0,55 * * * *', 300_000],
    ['7 * * * *', 3_600_000],
    ['*/20 * * * * *', 20_000],
    ['30 */10 * * * *', 600_000],
    ['5/20 * * * *', 1_200_000],
  ])('%s pauses at least %d ms', (text, ms) => {
    const schedule = parseSchedule(text);
    if (schedule === 'off' || 'problem' in schedule) throw new Error('not a schedule');
    expect(shortestPause(schedule)).toBe(ms);
  });
});

test.each([
  ['conections', 'connections'],
  ['webhook_secret', 'webhookSecrets'],
  ['MIRROR', undefined],
  ['polll', 'poll'],
  ['x', undefined],
])('%s is nearest to %s', (word, candidate) => {
  expect(nearest(word, ['connections', 'webhookSecrets', 'mirror', 'poll', 'id'])).toBe(candidate);
});

test('problems come in the order of the files, then of their places, each once', () => {
  const at = (file: string, line: number, column: number) => ({ file, line, column, message: 'm' });
  const lines = problemLines([at('z', 10, 1), at('z', 9, 2), at('z', 9, 2), at('a', 1, 1), at('z', 9, 1)]);
  expect(lines).toEqual(['z:9:1: m', 'z:9:2: m', 'z:10:1: m', 'a:1:1: m']);
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
