import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinApart, keepApart, TooMuch } from '../../../../src/platform/lib/json-apart.ts';
import { keep, type Shape } from '../../../../src/platform/lib/shape.ts';

const LONG = 'a "long" text\n\u2028 \ud83d\ude00 '.repeat(200);
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(fc.string(), fc.constant(LONG), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean()),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '"\n'), tie('value'), { maxKeys: 4 }),
  ),
})).value;
const SHAPE: Shape = { a: true, b: { a: true, c: { d: true } }, c: { b: true } };

/** As it is after a way through JSON. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('what is set apart', () => {
  it('takes its place again, and nothing else has changed', () => {
    fc.assert(
      fc.property(values, fc.constantFrom<Shape | true>(SHAPE, true), (value, shape) => {
        const wanted = shape === true ? value : keep(value, shape);
        expect(JSON.parse(joinApart(keepApart(value, shape)).toString())).toEqual(plain(wanted));
      }),
    );
  });

  it('stays set apart where a shape is applied once more', () => {
    fc.assert(
      fc.property(values, (value) => {
        const again = keep(keepApart(value, SHAPE), SHAPE);
        expect(JSON.parse(joinApart(again).toString())).toEqual(plain(keep(value, SHAPE)));
      }),
    );
  });

  it('is what is long: texts, and parts that nobody looks into', () => {
    const value = { a: LONG, b: { a: Array.from({ length: 600 }, () => 1), c: { d: 'short' } } };
    expect(keepApart(value, SHAPE)).toEqual({
      a: new TextEncoder().encode(JSON.stringify(LONG)),
      b: { a: new TextEncoder().encode(JSON.stringify(value.b.a)), c: { d: 'short' } },
    });
  });
});

it.each<[string, unknown]>([
  ['numbers', Array.from({ length: 600_000 }, (_, at) => at)],
  ['objects', Array.from({ length: 600_000 }, () => ({}))],
  ['short parts', Array.from({ length: 2_000 }, () => ({ a: Array.from({ length: 400 }, () => 1) }))],
  ['short texts', Array.from({ length: 20_000 }, () => ({ a: 'x'.repeat(1_000) }))],
])('%s without end are refused: handing them on would take too long', (_name, value) => {
  expect(() => keepApart(value, SHAPE)).toThrow(TooMuch);
});
