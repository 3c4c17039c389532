import { runInThisContext } from 'node:vm';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { drawn } from '../support/depth.ts';
import { openStepCounter } from '../support/steps/count-steps.ts';
import { createMatcher } from '../support/steps/matcher.ts';

/** What native code and the counting matcher find, one after the other. */
function search(pattern: RegExp, text: string) {
  const matcher = createMatcher(pattern);
  const found: unknown[] = [];
  for (let from = 0; from <= text.length; ) {
    const match = matcher.find(text, from, false);
    if (!match) break;
    found.push([match.start, ...match.groups]);
    from = match.end > match.start ? match.end : match.end + 1;
  }
  const native = [...text.matchAll(new RegExp(pattern, `${pattern.flags}g`))].map((each) => [each.index, ...each]);
  return { found, native };
}

describe('the counting matcher', () => {
  it.each([
    /a*b|c/,
    /(?:a|ab)(c|bcd)(d*)/,
    /a{2,3}?b/,
    /(?<!a)b(?=c|$)/,
    /(?<=(a|b)+)c/,
    /^(?:a|b){1,3}$/m,
    /\bab?\B/,
    /(?:(a)|b)*c/,
    /[^ab\n]+|\s/,
    /(?<first>a)(?<second>b)?/,
    /[\p{Lu}c]+/u,
    /[A-C]+b/i,
    /(a*)*b/,
  ])('finds what native code finds: %s', (pattern) => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd', 'A', '\n', ' ', '😀'), maxLength: 12 }),
        (text) => {
          const { found, native } = search(pattern, text);
          expect(found).toEqual(native);
        },
      ),
      { numRuns: drawn(300) },
    );
  });
});

/** Tests themselves are not counted. */
const loops = runInThisContext(
  '(length) => { let sum = 0; for (let a = 0; a < length / 10; a++) for (let b = 0; b < length / 10; b++) sum += a ^ b; }',
  'counted.js',
) as unknown;

const counter = openStepCounter();
afterAll(() => counter.close());

describe('the step counter', () => {
  const growth = (work: (length: number) => unknown) =>
    counter.count(() => work(2_000)) / counter.count(() => work(1_000));

  it.each<readonly [string, (length: number) => unknown]>([
    ['a loop', (length) => Array.from('x'.repeat(length), (each) => each.charCodeAt(0))],
    ['a pattern', (length) => 'ab'.repeat(length).replace(/a/g, '')],
    [
      'pieces that are put together at the end',
      (length) => {
        let text = '';
        for (let at = 0; at < length; at++) text += 'x';
        return text.trim();
      },
    ],
  ])('sees that time grows with the length: %s', (_name, work) => {
    expect(growth(work)).toBeLessThan(2.1);
  });

  it.each<readonly [string, (length: number) => unknown]>([
    ['a pattern that goes back', (length) => /[.]+$/.test(`${'.'.repeat(length)}x`)],
    [
      'pieces that are looked into each time',
      (length) => {
        let text = '';
        for (let at = 0; at < length; at++) {
          text += 'x';
          if (text.endsWith('y')) return;
        }
        return text;
      },
    ],
    [
      'a search from the start each time',
      (length) => {
        const text = 'x'.repeat(length);
        for (let at = 0; at < length; at++) text.includes('y');
      },
    ],
    ['an own loop in a loop', loops as (length: number) => unknown],
  ])('sees that it grows with the square: %s', (_name, work) => {
    expect(growth(work)).toBeGreaterThan(3.5);
  });

  it('is the same each time', () => {
    const work = () =>
      'a, b '
        .repeat(500)
        .split(/,\s/)
        .map((each) => each.trim())
        .join();
    expect(counter.count(work)).toBe(counter.count(work));
  });

  it('leaves everything as it was', () => {
    const exec = RegExp.prototype.exec;
    counter.count(() => 'a'.trim());
    expect(RegExp.prototype.exec).toBe(exec);
  });
});
