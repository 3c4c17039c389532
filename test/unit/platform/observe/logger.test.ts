import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors.ts';
import type { LogFields, Logger } from '../../../../src/platform/lib/telemetry.ts';
import { createLogger, mergingRepeats } from '../../../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../../../src/platform/observe/scrubber.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { drawn } from '../../../support/harness/depth.ts';
import { holds } from '../../../support/rows/canaries.ts';

const KEY = [
  '-----BEGIN PRIVATE KEY-----',
  'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC',
  'x8Zk3nQ2vR7tLw9yHc1mPd5sJf0aGuEb',
  '-----END PRIVATE KEY-----',
  '',
].join('\n');

/** Canaries with everything that an encoding changes. */
const SECRETS = [
  'ghp_16C7e42F292c6912E7710c838347Ae178B4a',
  'p"a\\ss/w+o=r d&ä☃<>',
  'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw==',
  KEY,
];

const ENCODINGS: Readonly<Record<string, (secret: string) => string>> = {
  plain: (secret) => secret,
  trimmed: (secret) => secret.trim(),
  JSON: (secret) => JSON.stringify(secret),
  'JSON in JSON': (secret) => JSON.stringify(JSON.stringify({ secret })),
  'URL component': encodeURIComponent,
  'URL component, lower case': (secret) => encodeURIComponent(secret).replace(/%../g, (byte) => byte.toLowerCase()),
  'form value': (secret) => new URLSearchParams({ secret }).toString(),
  hex: (secret) => Buffer.from(secret).toString('hex'),
  HEX: (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
  base64: (secret) => Buffer.from(secret).toString('base64'),
  base64url: (secret) => Buffer.from(secret).toString('base64url'),
  'basic authentication': (secret) => `Basic ${Buffer.from(`user:${secret}`).toString('base64')}`,
  'basic authentication, another length': (secret) => Buffer.from(`worksync:${secret}`).toString('base64'),
  'in the middle of base64': (secret) => Buffer.from(`{"a":"${secret}","b":1}`).toString('base64url'),
};

function recorder(secrets: readonly string[], level: 'debug' | 'info' = 'debug') {
  const lines: string[] = [];
  const scrubber = createScrubber(secrets);
  const logger = createLogger({ level, scrubber, destination: { write: (line: string) => void lines.push(line) } });
  return { logger, lines, scrubber };
}

describe('a canary never reaches a log line', () => {
  const cases = SECRETS.flatMap((secret, index) =>
    Object.keys(ENCODINGS).map((name) => [index, name, secret] as const),
  );

  it.each(cases)('secret %i as %s', (_index, name, secret) => {
    const { logger, lines } = recorder(SECRETS);
    const text = `before ${ENCODINGS[name]?.(secret)} after`;
    const cause = new Error(text, { cause: new TypeError(text) });
    logger.error(
      { error: new SyncError('unreachable', text, { cause, hint: text }), deep: { a: [{ b: text }] } },
      text,
    );
    logger.child({ correlation: text }).info({ url: new URL('http://x/').href + text, [text]: 1 }, 'message');
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line).toContain('[secret]');
      expect(holds(line, secret)).toBe(false);
      expect(() => JSON.parse(line)).not.toThrow();
    }
  });

  it('holds for any secret in any surroundings [A5]', () => {
    const secret = fc
      .string({ minLength: 12, maxLength: 40, unit: 'grapheme-ascii' })
      .filter((text) => text.trim().length >= 12);
    fc.assert(
      fc.property(
        secret,
        fc.constantFrom(...Object.keys(ENCODINGS)),
        fc.string({ maxLength: 9 }),
        (value, name, around) => {
          const { logger, lines } = recorder([value]);
          logger.info({ field: around + ENCODINGS[name]?.(value) + around }, 'message');
          expect(holds(lines[0] ?? value, value)).toBe(false);
        },
      ),
      { numRuns: drawn(1_000) },
    );
  });

  it('lines of a private key are known one by one', () => {
    const { scrubber } = recorder(SECRETS);
    expect(scrubber.scrub('key MIIEvQIBADANBgkqhkiG9w0BAQEFAASC…')).toBe('key [secret]…');
  });

  it('a secret added later is known from then on, and a value too short to be one is left alone', () => {
    const { scrubber } = recorder([]);
    expect(scrubber.scrub('token-made-later')).toBe('token-made-later');
    scrubber.add('token-made-later');
    scrubber.add('the');
    scrubber.add('');
    expect(scrubber.scrub('the token-made-later')).toBe('the [secret]');
  });
});

describe('the scrubber', () => {
  it('finds what a plain search finds, whatever the secrets and the text', () => {
    const secret = fc.string({ minLength: 4, maxLength: 12, unit: fc.constantFrom('a', 'b', 'ä', '"', '😀') });
    const text = fc.array(fc.oneof(secret, fc.string({ maxLength: 5 })), { maxLength: 6 });
    fc.assert(
      fc.property(fc.array(secret, { maxLength: 4 }), text, (secrets, parts) => {
        const whole = [...parts, ...secrets].join('x');
        const clean = createScrubber(secrets).scrub(whole);
        for (const each of secrets) expect(clean).not.toContain(each);
        if (!secrets.some((each) => whole.includes(each) || whole.includes(each.trim()))) expect(clean).toBe(whole);
      }),
    );
  });

  it('forgets of the values that are known for now the one that was not seen for longest', () => {
    const scrubber = createScrubber(['shared with one for now']);
    scrubber.addForNow('shared with one for now');
    for (let each = 0; each < 1_000; each++) {
      scrubber.addForNow(`token number ${each} of an hour`);
      scrubber.addForNow('token that is in use all the time');
    }
    const knows = (text: string) => !scrubber.scrub(text).includes(text);
    expect(knows('token number 0 of an hour')).toBe(false);
    expect(knows('token number 999 of an hour')).toBe(true);
    expect(knows('token that is in use all the time')).toBe(true);
    expect(knows('shared with one for now')).toBe(true);
  });
});

describe('a log line', () => {
  it('is one line of JSON with level, time, fields of all parents, and message', () => {
    const { logger, lines } = recorder([]);
    logger.child({ workspace: 'acme' }).child({ delivery: 'd-1' }).warn({ count: 2 }, 'something\nhappened');
    expect(lines[0]?.endsWith('\n')).toBe(true);
    expect(lines[0]?.trimEnd()).not.toContain('\n');
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      workspace: 'acme',
      delivery: 'd-1',
      count: 2,
      msg: 'something\nhappened',
    });
  });

  it('removes credential fields, whatever they hold', () => {
    const { logger, lines } = recorder([]);
    logger.info({ token: 'a1', headers: { authorization: 'b2', cookie: 'c3' }, a: { b: { password: 'd4' } } }, 'm');
    expect(lines[0]).not.toMatch(/a1|b2|c3|d4/);
  });

  it('holds no character that steers a terminal or reorders text, and reads back as it was [A9]', () => {
    const { logger, lines } = recorder([]);
    const text = '\x1b[31mred\x07\x9b2J \u202Eevil\u2066 \u2028\u200b\ufeff\x7f';
    logger.info({ text }, text);
    expect(lines[0]?.trimEnd()).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029\u200b\ufeff]/u);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ text, msg: text });
  });

  it('tells code, verdict, hint and causes of an error, and a stack only where the fault may be ours', () => {
    const { logger, lines } = recorder([]);
    const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    logger.error(
      { error: new SyncError('unreachable', 'GET x', { cause: new AggregateError([refused], 'all') }) },
      'm',
    );
    logger.error(
      { error: new SyncError('internal', 'bug', { cause: new TypeError('undefined is no function') }) },
      'm',
    );
    const [known, ours] = lines.map((line) => JSON.parse(line).error);
    expect(known).toMatchObject({ code: 'unreachable', verdict: 'retry', message: 'GET x', hint: expect.any(String) });
    expect(known.stack).toBeUndefined();
    expect(known.cause.errors[0]).toMatchObject({ message: 'connect' });
    expect(ours.stack).toContain('logger.test.ts');
    expect(ours.cause.stack).toContain('logger.test.ts');
  });
});

describe('a line for people', () => {
  function open() {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const scrubber = createScrubber(['a-secret-of-sixteen']);
    return { lines, logger: createLogger({ level: 'info', scrubber, destination, isPretty: true }) };
  }

  test('nothing in a line acts on the terminal, and no secret is in it', () => {
    const { lines, logger } = open();
    logger.info({ title: 'a\u001b[2Jb\u202e\nc a-secret-of-sixteen' }, 'said \u001b[31m');
    const text = stripVTControlCharacters(lines.join(''));
    for (const acting of ['\u001b[2J', '\u001b[31m', '\u202e', 'a-secret'])
      expect(lines.join('')).not.toContain(acting);
    expect(text.split('\n')).toHaveLength(2);
  });
});

describe('repeated lines', () => {
  const MINUTE = 60_000;

  function open() {
    const lines: string[] = [];
    const recorder = (bound: LogFields): Logger => {
      const note = (level: string) => (fields: LogFields, message: string) => {
        const { error: _, ...told } = { ...bound, ...fields };
        lines.push(`${level} ${message} ${JSON.stringify(told)}`);
      };
      return {
        ...{ debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
        child: (more) => recorder({ ...bound, ...more }),
      };
    };
    const clock = createTravellingClock();
    return { clock, lines, logger: mergingRepeats(recorder({}), clock) };
  }

  const UNREACHABLE = new SyncError('unreachable', 'nobody answers');

  test('a poll that fails each minute for half an hour is four lines, and one when it is over', async () => {
    const { clock, lines, logger } = open();
    const own = logger.child({ connection: 'github' });
    for (let minute = 0; minute < 30; minute++) {
      own.warn({ unit: 'acme/app', attempts: minute, error: UNREACHABLE }, 'poll failed');
      await clock.advance(MINUTE);
    }
    const told = lines.map((line) => /"repeats":(\d+)/.exec(line)?.[1] ?? 'first');
    expect(told).toEqual(['first', '1', '4', '15']);
    expect(lines[0]).toBe('warn poll failed {"connection":"github","unit":"acme/app","attempts":0}');
    await clock.advance(11 * MINUTE);
    expect(lines.at(-1)).toMatch(/^info no longer repeated .*"repeats":29,"was":"poll failed"/);
    expect(lines).toHaveLength(5);
    own.warn({ unit: 'acme/app', attempts: 1, error: UNREACHABLE }, 'poll failed');
    expect(lines.at(-1)).toBe('warn poll failed {"connection":"github","unit":"acme/app","attempts":1}');
  });

  test('what is about another thing, of another code or another delivery is said each time', async () => {
    const { clock, lines, logger } = open();
    logger.warn({ unit: 'a', error: UNREACHABLE }, 'poll failed');
    logger.warn({ unit: 'b', error: UNREACHABLE }, 'poll failed');
    logger.warn({ unit: 'a', error: new SyncError('rate_limited', 'later') }, 'poll failed');
    logger.child({ workspace: 'w' }).warn({ unit: 'a', error: UNREACHABLE }, 'poll failed');
    logger.error({ unit: 'a', error: UNREACHABLE }, 'poll failed');
    for (const delivery of [1, 2]) logger.warn({ delivery }, 'delivery quarantined');
    expect(lines).toHaveLength(7);
    await clock.advance(60 * MINUTE);
    expect(lines).toHaveLength(7);
  });

  test('a flood of refusals from any number of addresses is a line, and then a count', async () => {
    const { clock, lines, logger } = open();
    for (let each = 0; each < 500; each++)
      logger.warn({ connection: 'notes', code: 'signature_missing', address: `192.0.2.${each}` }, 'delivery refused');
    expect(lines).toHaveLength(1);
    await clock.advance(MINUTE);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain('"repeats":499');
  });
});
