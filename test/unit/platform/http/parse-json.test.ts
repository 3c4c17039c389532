import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonError, longNumbersAsTexts, parseJson } from '../../../../src/platform/http/parse-json.ts';
import { drawn } from '../../../support/harness/depth.ts';

const bytes = (text: string) => Buffer.from(text);

describe('parseJson', () => {
  it.each([
    ['400 000 arrays, well formed', `${'['.repeat(400_000)}${']'.repeat(400_000)}`],
    ['65 levels', `${'['.repeat(65)}${']'.repeat(65)}`],
    ['65 levels behind a string full of quotes', `["\\\\","\\"",${'['.repeat(64)}${']'.repeat(64)}]`],
    ['65 levels that never close', '['.repeat(65)],
  ])('refuses to nest %s', (_name, text) => {
    expect(() => parseJson(bytes(text))).toThrow('nested deeper than 64 levels');
  });

  it.each([
    ['__proto__', '{"__proto__":{"polluted":1}}'],
    ['__proto__, escaped', '{"\\u005f\\u005fproto__":{"polluted":1}}'],
    ['constructor.prototype', '{"constructor":{"prototype":{"polluted":1}}}'],
    ['half of it', '{"a":'],
    ['an HTML page', '<!doctype html><title>502</title>'],
  ])('refuses %s [A7]', (_name, text) => {
    expect(() => parseJson(bytes(text))).toThrow(JsonError);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it.each(['Bearer ghp_16C7e42F292c', '{"message": ghp_16C7e42F292c and more than that}', '{"a":1} ghp_16C7e42F292c'])(
    'repeats nothing of what it cannot read: %s',
    (text) => {
      expect(() => parseJson(bytes(text))).toThrow(JsonError);
      try {
        parseJson(bytes(text));
      } catch (error) {
        expect(inspect(error)).not.toMatch(/ghp_/);
      }
    },
  );

  it.each([
    ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
    ['UTF-16', [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]],
  ])('refuses %s [A7]', (_name, raw) => {
    expect(() => parseJson(Uint8Array.from(raw))).toThrow(JsonError);
  });

  it('takes 64 levels, brackets inside strings, and a byte order mark', () => {
    expect(() => parseJson(bytes(`${'['.repeat(64)}${']'.repeat(64)}`))).not.toThrow();
    expect(parseJson(bytes(JSON.stringify('['.repeat(1_000))))).toBe('['.repeat(1_000));
    expect(parseJson(bytes('\ufeff{"a":1}'))).toEqual({ a: 1 });
  });

  it('throws nothing but JsonError, whatever comes [A7]', () => {
    const thrownFor = (given: Uint8Array): unknown => {
      try {
        parseJson(given);
        return undefined;
      } catch (error) {
        return error;
      }
    };
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (given) => {
        expect(thrownFor(given) ?? new JsonError()).toBeInstanceOf(JsonError);
      }),
      { numRuns: drawn(2_000) },
    );
  });
});

describe('longNumbersAsTexts', () => {
  const read = (text: string) => parseJson(longNumbersAsTexts(bytes(text)));

  it.each<[string, unknown]>([
    ['[3804004623172239366,1]', ['3804004623172239366', 1]],
    ['{"id":1234567890123456}', { id: '1234567890123456' }],
    ['[123456789012345]', [123_456_789_012_345]],
    [
      '{"3804004623172239366":"3804004623172239366 \\" 3804004623172239366"}',
      { '3804004623172239366': '3804004623172239366 " 3804004623172239366' },
    ],
    ['["ü", 3804004623172239366]', ['ü', '3804004623172239366']],
  ])('%s', (text, expected) => {
    expect(read(text)).toEqual(expected);
  });

  it('changes nothing where there is none', () => {
    const same = fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      return /\d{16}/.test(text) || longNumbersAsTexts(bytes(text)).toString() === text;
    });
    expect(fc.check(same).failed).toBe(false);
  });
});
