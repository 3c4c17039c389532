import { expect, it } from 'vitest';
import { instant, webAddress } from '../../../../src/connectors/kit/fields.ts';

it.each([
  ['2026-03-02T08:00:00+02:00', '2026-03-02T06:00:00.000Z'],
  ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00Z'],
  ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59Z'],
])('%s is the instant %s', (text, expected) => expect(instant.parse(text)).toBe(expected));

it.each(['0000-01-01T00:00:00+23:59', '9999-12-31T23:59:59-23:59', '2026-02-30T00:00:00Z', '+12026-01-01T00:00:00Z'])(
  '%s is no instant that RFC 3339 can write',
  (text) => expect(instant.safeParse(text).success).toBe(false),
);

it.each(['https://example.com/a?b#c', 'http://[::1]:8080/x', 'https://[2001:db8::1]/'])('%s can be opened', (text) =>
  expect(webAddress.parse(text)).toBe(text),
);

it.each([
  'https://[',
  'http://',
  'https://github.com@evil.example/',
  'https://a:b@example.com/',
  'ftp://a',
  'https://a b',
])('%s is no address for people', (text) => expect(webAddress.safeParse(text).success).toBe(false));
