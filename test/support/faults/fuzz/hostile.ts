/** Values that replace others: some of each kind that code may not expect. As JSON, since some have no value. */

/** Signs that mean something to a terminal, a browser, a database or a log. */
export const HOSTILE_TEXTS: readonly string[] = [
  '',
  ' ',
  'new_value',
  'NaN',
  '-1',
  '1e999',
  'a\u0000b',
  '\u001b[2J\u001b]0;owned\u0007',
  '\u009b31mred',
  'abc\u202edcba\u2066x',
  'a\r\nb: c\n::error::x\n##vso[task.complete]',
  '\ufeffbom',
  '\ud800',
  'x\udfff',
  '\udc00\ud800',
  '<script>alert(1)</script><img src=x onerror=alert(1)>',
  '"><svg/onload=alert(1)>',
  `{{title}} ${'$'}{title} %s $&`,
  "=cmd|'/c calc'!A1",
  '@everyone fixes #1 closes https://evil.example/1',
  "'; drop table items; --",
  '../../user',
  '1/../../user',
  '1%2f..%2fadmin',
  '1?x=1#y',
  ...words('.. . %00 __proto__ constructor toString'),
];

export const HOSTILE_ADDRESSES: readonly string[] = [
  'javascript:alert(1)',
  'JaVaScRiPt:alert(1)//https://x',
  'data:text/html,<script>alert(1)</script>',
  'file:///etc/passwd',
  '//evil.example/x',
  'https://evil.example/acme/api/pull/12',
  'https://user:secret@github.com/acme/api/pull/12',
  'https://api.github.com.evil.example/',
  'https://api.github.com@evil.example/',
  'http://169.254.169.254/latest/meta-data/',
  'http://[::ffff:127.0.0.1]:8080/',
  'http://2130706433/',
  'http://',
  'https://\u202eevil',
  'ftp://evil.example/x',
  'https://evil.example/\u0000',
  'https://[',
];

export const HOSTILE_TIMES: readonly string[] = [
  ...words('0000-01-01T00:00:00Z 0000-01-01T00:00:00+23:59 0001-01-01T00:00:00Z 1969-12-31T23:59:59Z'),
  ...words('1970-01-01T00:00:00Z 9999-12-31T23:59:59Z 9999-12-31T23:59:59-23:59 +275760-09-13T00:00:00Z'),
  ...words('2026-02-30T00:00:00Z 2026-03-02T24:00:00Z 2026-03-02T08:00:60Z'),
  ...words('2026-03-02T08:00:00.123456789123+14:00 2026-03-02T08:00Z'),
  ...['2026-03-02 08:00:00 UTC', ...words('2026-03-02 yesterday')],
];

/** Ids and words that mean something, of other things than those in question. */
const NEIGHBOURS: readonly string[] = [
  ...words('acme/other ACME/API other/secret open closed merged declined done in_progress deleted transferred issue'),
  ...words('merge_request opened reopened unresolved resolved DECLINED 00000000-0000-0000-0000-000000000000'),
  ...words('{00000000-0000-0000-0000-000000000000} WEB-1 ENG-999999999999999999'),
];

const NUMBERS: readonly string[] = [
  ...words('0 -0 -1 1 1.5 70101 4294967296 9007199254740991 9007199254740993 8640000000000001 -8640000000000001'),
  ...words('1e300 1e999 -1e999 123456789012345678901234567890 5e-324 253402300800000'),
];

const OTHERS: readonly string[] = [
  ...['null', 'true', 'false', '[]', '[null]', '[[]]', '["a",1,null,{}]', '{}', '{"id":"__proto__"}'],
  ...['{"toString":null,"valueOf":1}', '{"length":1e9}', '{"name":null,"login":7}', '{"0":"a","1":"b"}'],
  ...['{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}'],
  ...['{"\\u005f_proto__":{"polluted":1}}', '{"prototype":{"polluted":1}}'],
];

/** No JSON at all. */
const BROKEN: readonly string[] = [...words(`NaN Infinity undefined 'x' 01 "\u0001" "\\x" {a:1} [1,]`), ''];

const nested = (open: string, close: string, depth: number) => `${open.repeat(depth)}${close.repeat(depth)}`;
const DEEP: readonly string[] = [
  ...[30, 100].map((depth) => nested('[', ']', depth)),
  ...[`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`, nested('[', ']', 50_000)],
];

/** Lengths around the limits that something has; the longest is more than is read of any text. */
const LENGTHS = [255, 256, 1_025, 2_049, 200_001, 300_000];
const LONG: readonly string[] = LENGTHS.flatMap((length) =>
  ['x', '😀', 'a '].map((sign) => sign.repeat(length / sign.length)),
);

function words(text: string): string[] {
  return text.split(' ');
}

const asJson = (texts: readonly string[]) => texts.map((text) => JSON.stringify(text));

/** How often each kind is drawn. */
export const REPLACEMENTS: readonly { readonly weight: number; readonly jsons: readonly string[] }[] = [
  { weight: 6, jsons: asJson(HOSTILE_TEXTS) },
  { weight: 4, jsons: asJson(HOSTILE_ADDRESSES) },
  { weight: 4, jsons: asJson(HOSTILE_TIMES) },
  { weight: 4, jsons: asJson(NEIGHBOURS) },
  { weight: 6, jsons: NUMBERS },
  { weight: 6, jsons: OTHERS },
  { weight: 1, jsons: BROKEN },
  { weight: 1, jsons: DEEP },
  { weight: 1, jsons: asJson(LONG) },
];

export const KEYS: readonly string[] = [
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '', '\u0000', '\ud800', 'x'],
];
